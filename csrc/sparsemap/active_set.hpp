// The active set of SparseMAP: a few vertices, their probabilities, and the optimum of their convex hull.
//
//     maximise over p in the simplex   <s, p> - 1/2 p' K p        s_y = <m_y, scores>,  K = A' A
//
// m_y are the vertices, A their regularised entries (the first `n_regularized` parts; the others are extra scores). The
// set is kept affinely independent in A, so G = K + lift 1 1' has a Cholesky factor R' R. The lift is a squared norm of
// vertices, so that their unit does not matter. With the slack s - K p the optimum on the affine hull is p + Z slack,
// where Z = G^-1 - u u' / <1, u>, u = G^-1 1: a correction of the p at hand, so rounding does not pile up. K itself is
// never kept: the slack of a vertex is its score along the gradient, and vertices have few entries.
//
// Without extra scores this is Wolfe's method for the nearest point of a polytope (Mathematical Programming 1976); with
// them the active set method for convex quadratic programs, whose Hessian may be singular (Nocedal & Wright, ch. 16).
// For SparseMAP: Niculae, Martins, Blondel & Cardie, ICML 2018.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/interruption.hpp"
#include "sparsemap/growing_factor.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {

class ActiveSet {
 public:
  struct Member {
    std::vector<std::int32_t> places;
    std::vector<double> values;
    std::int64_t n_regularized;  // entries, which come first
    double score;                // <m, scores>
    double norm;                 // squared, of the regularised entries
  };

  ActiveSet(const DenseAlgebra& algebra, const double* scores, std::int64_t n_parts, std::int64_t n_regularized,
            Interruption* interruption)
      : interruption_(interruption), algebra_(algebra), factor_(algebra), scores_(scores),
        n_regularized_(n_regularized), gradient_(scores, scores + n_parts), hot_(n_parts, 0.0) {}

  const std::vector<Member>& members() const { return members_; }
  std::vector<Member> take_members() { return std::move(members_); }  // the set must not be used afterwards
  const std::vector<double>& probabilities() const { return p_; }
  std::int64_t size() const { return static_cast<std::int64_t>(members_.size()); }
  double factor(std::int64_t i, std::int64_t j) const { return factor_.at(j, i); }  // of G = L L', j <= i
  double lift() const { return lift_; }

  // In the parts: scores - mu where regularised, the scores themselves elsewhere.
  const std::vector<double>& gradient() const { return gradient_; }

  // <gradient, sum of p_y m_y>, and what its rounding error is relative to.
  double level() const {
    double total = 0;
    for (std::int64_t i = 0; i < size(); ++i) total += p_[i] * slack_[i];
    return total;
  }
  double magnitude() const {
    double largest = 0;
    for (const Member& member : members_) largest = std::max(largest, std::abs(member.score));
    return largest;
  }
  // Relative: probabilities are right to a few digits of the last place, fewer where there are many.
  double rounding() const {
    return 2 * std::numeric_limits<double>::epsilon() * (1 + 2 * std::sqrt(static_cast<double>(size())));
  }
  double value() const {
    double total = 0;
    for (std::int64_t i = 0; i < size(); ++i) total += p_[i] * 0.5 * (members_[i].score + slack_[i]);
    return total;
  }

  bool holds(const Vertex& vertex) const {
    for (const Member& member : members_)
      if (static_cast<std::int64_t>(member.places.size()) == vertex.size &&
          std::equal(member.places.begin(), member.places.end(), vertex.places) &&
          std::equal(member.values.begin(), member.values.end(), vertex.values))
        return true;
    return false;
  }

  // Enters a vertex with a probability; false if it lies in the affine hull of the others, and then it is left out.
  bool append(const Vertex& vertex, double probability) {
    Member member = described(vertex);
    if (!measure(member)) return false;
    enter(std::move(member), probability);
    return true;
  }

  // Enters many vertices into an empty set, with probabilities; those in the affine hull of the others are left out.
  void append_all(const std::vector<Vertex>& vertices, const std::vector<double>& probabilities) {
    constexpr std::size_t kMany = 32;
    if (vertices.size() >= kMany) {
      for (const Vertex& vertex : vertices) members_.push_back(described(vertex));
      p_ = probabilities;
      lift_ = largest_norm();
      if (lift_ > 0 && refactor()) return;
      members_.clear(), p_.clear(), factor_.clear(), lowered_.clear();
    }
    for (std::size_t i = 0; i < vertices.size(); ++i) append(vertices[i], probabilities[i]);
  }

  // Enters a vertex of higher score than the level, and moves to the optimum.
  void add(const Vertex& vertex) {
    Member member = described(vertex);
    if (measure(member)) {
      slack_.push_back(algebra_.gather_dot(vertex.places, vertex.values, vertex.size, gradient_.data()));
      enter(std::move(member), 0.0);  // which leaves the slack of the others as it is
    } else {
      exchange(std::move(member));
      find_slack();
    }
    settle();
  }

  // Moves to the optimum from any probabilities.
  void restart() {
    find_slack();
    settle();
  }

  // Removes all members.
  void clear() { members_.clear(), p_.clear(), slack_.clear(), lowered_.clear(), factor_.clear(); }

  // numbers -= A Z A' numbers, on the regularised parts: what is orthogonal to the affine hull remains.
  void remove_hull(double* numbers) {
    delta_.resize(size());
    for (std::int64_t i = 0; i < size(); ++i) delta_[i] = over_regularized(members_[i], numbers);
    factor_.solve_lower(delta_.data());
    const double share = -dot(lowered_, delta_) / dot(lowered_, lowered_);
    for (std::int64_t i = 0; i < size(); ++i) delta_[i] += share * lowered_[i];
    factor_.solve_upper(delta_.data());
    for (std::int64_t i = 0; i < size(); ++i) spread(members_[i], -delta_[i], numbers);
  }

 private:
  static constexpr double kNothing = 4 * std::numeric_limits<double>::epsilon();  // up to this it counts as zero
  static constexpr double kDoubtful = 1e-7;    // smaller pivots of G (squared, relative) may be rounding errors
  static constexpr double kDependent = 1e-16;  // squared distances to the hull (relative) up to this count as zero
  static constexpr double kUnmoved = 1e-9;     // of the largest difference: slacks that differ by less count as equal
  static constexpr double kGrown = 1e6;        // a squared norm of more lifts than this needs another lift

  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double total = 0;
    for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
    return total;
  }

  Member described(const Vertex& vertex) const {
    Member member;
    member.places.assign(vertex.places, vertex.places + vertex.size);
    member.values.assign(vertex.values, vertex.values + vertex.size);
    member.score = algebra_.gather_dot(vertex.places, vertex.values, vertex.size, scores_);
    member.n_regularized = 0, member.norm = 0;
    for (std::int64_t e = 0; e < vertex.size && vertex.places[e] < n_regularized_; ++e, ++member.n_regularized)
      member.norm += vertex.values[e] * vertex.values[e];
    return member;
  }

  double largest_norm() const {
    double largest = 0;
    for (const Member& member : members_) largest = std::max(largest, member.norm);
    return largest;
  }

  // The gradient, and s - K p, which is every member's score along it.
  void find_slack() {
    std::copy(scores_, scores_ + gradient_.size(), gradient_.begin());
    for (std::int64_t i = 0; i < size(); ++i) spread(members_[i], -p_[i], gradient_.data());
    slack_.resize(size());
    for (std::int64_t i = 0; i < size(); ++i) {
      const Member& member = members_[i];
      slack_[i] =
          algebra_.gather_dot(member.places.data(), member.values.data(), member.places.size(), gradient_.data());
    }
  }

  double over_regularized(const Member& member, const double* numbers) const {
    return algebra_.gather_dot(member.places.data(), member.values.data(), member.n_regularized, numbers);
  }
  static void spread(const Member& member, double factor, double* numbers) {
    for (std::int64_t e = 0; e < member.n_regularized; ++e) numbers[member.places[e]] += factor * member.values[e];
  }

  // The row that a vertex would add to the factor, and its pivot; false if the pivot vanishes, and then `coordinates_`
  // are those of the vertex in the affine hull.
  bool measure(const Member& member) {
    const std::int64_t n = size();
    if (member.norm > kGrown * lift_ || (member.norm > 0 && largest_norm() == 0)) {
      relift(member.norm);
    } else if (n == 0) {
      lift_ = 1;  // the origin
    }
    row_.resize(n);
    spread(member, 1.0, hot_.data());
    for (std::int64_t i = 0; i < n; ++i) row_[i] = over_regularized(members_[i], hot_.data()) + lift_;
    spread(member, -1.0, hot_.data());
    factor_.solve_lower(row_.data());
    double left = member.norm + lift_ - dot(row_, row_);
    if (!(left > kDoubtful * (member.norm + lift_))) {
      left = distance(member);
      if (!(left > 0)) return false;
    }
    pivot_ = std::sqrt(left);
    return true;
  }

  // The squared distance of a vertex to the affine hull, from the residual itself after a step of refinement; zero
  // where it is rounding.
  double distance(const Member& member) {
    coordinates_ = row_;
    factor_.solve_upper(coordinates_.data());
    delta_.resize(size());
    double missing = subtract_members(member);
    for (std::int64_t i = 0; i < size(); ++i) delta_[i] = over_regularized(members_[i], hot_.data()) + lift_ * missing;
    factor_.solve_lower(delta_.data());
    for (std::int64_t i = 0; i < size(); ++i) row_[i] += delta_[i];
    factor_.solve_upper(delta_.data());
    for (std::int64_t i = 0; i < size(); ++i) coordinates_[i] += delta_[i];
    clear_hot();
    missing = subtract_members(member);
    double left = lift_ * missing * missing, size_of_terms = member.norm;
    for (std::int64_t i = 0; i < n_regularized_; ++i) left += hot_[i] * hot_[i];
    for (std::int64_t i = 0; i < size(); ++i) size_of_terms += coordinates_[i] * coordinates_[i] * members_[i].norm;
    clear_hot();
    const double rounding = std::numeric_limits<double>::epsilon();
    return left > kDependent * size_of_terms + 16 * rounding * rounding * lift_ ? left : 0;
  }

  // Writes a vertex less its combination of members into `hot_`; returns what the coordinates lack to 1.
  double subtract_members(const Member& member) {
    double missing = 1;
    spread(member, 1.0, hot_.data());
    for (std::int64_t i = 0; i < size(); ++i) {
      spread(members_[i], -coordinates_[i], hot_.data());
      missing -= coordinates_[i];
    }
    return missing;
  }
  void clear_hot() { std::fill(hot_.begin(), hot_.end(), 0.0); }

  // The factor of all members from nothing; false if they are nearly dependent.
  bool refactor() {
    const bool sound = factor_.rebuild(size(), kDoubtful, [&](std::int64_t i, double* row) {
      check();
      spread(members_[i], 1.0, hot_.data());
      for (std::int64_t j = i; j < size(); ++j) row[j] = over_regularized(members_[j], hot_.data()) + lift_;
      for (std::int64_t e = 0; e < members_[i].n_regularized; ++e) hot_[members_[i].places[e]] = 0;
    });
    lowered_.assign(size(), 1.0);
    if (sound) factor_.solve_lower(lowered_.data());
    return sound;
  }

  // Another lift, which all rows of the factor contain.
  void relift(double lift) {
    lift_ = lift;
    if (refactor()) return;
    std::vector<Member> members = std::move(members_);
    const std::vector<double> p = std::move(p_);
    clear();
    for (std::size_t i = 0; i < members.size(); ++i)
      if (measure(members[i])) enter(std::move(members[i]), p[i]);
    find_slack();
  }

  void enter(Member&& member, double probability) {
    lowered_.push_back((1 - dot(row_, lowered_)) / pivot_);
    factor_.append(row_.data(), pivot_);
    members_.push_back(std::move(member));
    p_.push_back(probability);
  }

  // A vertex in the affine hull: along d with A d = 0, <1, d> = 0 the objective is linear, and it rises until a member
  // has nothing left. That one makes place for the vertex.
  void exchange(Member&& member) {
    constexpr double kLeast = 1e-10;  // a coordinate of zero, rounded
    std::int64_t blocking = -1;
    double step = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < size(); ++i) {
      if (!(coordinates_[i] > kLeast)) continue;
      const double ratio = p_[i] / coordinates_[i];
      if (ratio < step) step = ratio, blocking = i;
    }
    if (blocking < 0) return;
    for (std::int64_t i = 0; i < size(); ++i) p_[i] -= step * coordinates_[i];
    drop(blocking, {});
    if (measure(member)) enter(std::move(member), step);
  }

  // Moves p to the optimum of the convex hull; members that lose all their probability leave. With a = R'^-1 slack and
  // y = R'^-1 1 the way to the optimum is R^-1 (a + share y). A part t of the way leaves (1 - t) a, up to multiples of
  // y, which do not matter: so one lower solve serves until the end.
  void settle() {
    difference_of_slacks();
    factor_.solve_lower(ahead_.data());
    for (;;) {
      check();
      double missing = 1;
      for (double p : p_) missing -= p;
      const double share = (missing - dot(lowered_, ahead_)) / dot(lowered_, lowered_);
      delta_ = ahead_;
      for (std::int64_t i = 0; i < size(); ++i) delta_[i] += share * lowered_[i];
      factor_.solve_upper(delta_.data());
      const auto [step, blocking] = longest_step();
      for (std::int64_t i = 0; i < size(); ++i) p_[i] += step * delta_[i];
      if (blocking < 0) break;
      for (double& number : ahead_) number *= 1 - step;
      drop(blocking, {ahead_.data()});
      ahead_.resize(size());
    }
    find_slack();
  }

  void difference_of_slacks() {
    ahead_ = slack_;
    double largest = 0;
    for (double& number : ahead_) {
      number -= slack_[0];  // scores may be large where their differences are small
      largest = std::max(largest, std::abs(number));
    }
    // Members had equal slack before a vertex came: their rounding errors are not worth the solve, and wait until they
    // are what is left.
    for (double& number : ahead_)
      if (std::abs(number) < kUnmoved * largest) number = 0;
  }

  // How far p may move along delta, and the member that then has nothing left, or -1.
  std::pair<double, std::int64_t> longest_step() const {
    double step = 1.0;
    std::int64_t blocking = -1;
    for (std::int64_t i = 0; i < size(); ++i) {
      const double wanted = p_[i] + delta_[i];
      if (wanted > kNothing) continue;
      const double ratio = p_[i] > 0 ? std::min(1.0, p_[i] / (p_[i] - wanted)) : 0.0;
      if (blocking < 0 || ratio < step) step = ratio, blocking = i;
    }
    return {step, blocking};
  }

  // Takes member `gone` out.
  void drop(std::int64_t gone, std::initializer_list<double*> carried) {
    members_.erase(members_.begin() + gone);
    p_.erase(p_.begin() + gone);
    if (carried.size() > 0) factor_.drop(gone, {lowered_.data(), *carried.begin()});
    else factor_.drop(gone, {lowered_.data()});
    lowered_.pop_back();
  }

  void check() const {
    if (interruption_ != nullptr) interruption_->check();
  }

  Interruption* interruption_;
  const DenseAlgebra& algebra_;
  GrowingFactor factor_;
  const double* scores_;
  std::int64_t n_regularized_;
  double lift_ = 0, pivot_ = 0;
  std::vector<Member> members_;
  std::vector<double> gradient_;  // (n_parts,)
  std::vector<double> hot_;       // (n_parts,): a vertex written out, otherwise zero
  std::vector<double> p_, slack_, delta_;
  std::vector<double> lowered_;            // R'^-1 1
  std::vector<double> ahead_;              // R'^-1 slack
  std::vector<double> row_, coordinates_;  // of the vertex last measured
};

}  // namespace omegamax
