// The active set of SparseMAP: a few vertices, their probabilities, and the optimum of their convex hull.
//
//     maximise over p in the simplex   <s, p> - 1/2 p' K p        s_y = <m_y, scores>,  K = A' A
//
// m_y are the vertices, A their regularised entries (the first `n_regularized` parts; the others are extra scores). The
// set is kept affinely independent in A, so G = K + 1 1' has a Cholesky factor, which grows by a row with each vertex
// and is repaired by rotations when one leaves. The optimum on the affine hull is p = p + Z (s - K p), where
// Z = G^-1 - u u' / <1, u>, u = G^-1 1: a correction of the p at hand, so rounding does not pile up.
//
// Without extra scores this is Wolfe's method for the nearest point of a polytope (Mathematical Programming 1976); with
// them the active set method for convex quadratic programs, whose Hessian may be singular (Nocedal & Wright, ch. 16). For
// SparseMAP: Niculae, Martins, Blondel & Cardie, ICML 2018.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "dense_algebra.hpp"
#include "oracle.hpp"

namespace omegamax {

class ActiveSet {
 public:
  struct Member {
    std::vector<std::int32_t> places;
    std::vector<double> values;
    std::int64_t n_regularized;  // entries, which come first
    double score;                // <m, scores>
  };

  ActiveSet(const DenseAlgebra& algebra, const double* scores, std::int64_t n_parts, std::int64_t n_regularized)
      : algebra_(algebra), scores_(scores), n_regularized_(n_regularized), hot_(n_parts, 0.0) {}

  const std::vector<Member>& members() const { return members_; }
  std::vector<Member> take_members() { return std::move(members_); }  // the last that is asked of a set
  const std::vector<double>& probabilities() const { return p_; }
  std::int64_t size() const { return static_cast<std::int64_t>(members_.size()); }
  double factor(std::int64_t i, std::int64_t j) const { return factor_[i * room_ + j]; }

  // The gradient in the parts: scores - mu where regularised, the scores themselves elsewhere.
  void direction(double* found, std::int64_t n_parts) const {
    std::copy(scores_, scores_ + n_parts, found);
    for (std::int64_t i = 0; i < size(); ++i) {
      const Member& member = members_[i];
      for (std::int64_t e = 0; e < member.n_regularized; ++e) found[member.places[e]] -= p_[i] * member.values[e];
    }
  }

  // <direction, sum of p_y m_y>, and what its rounding error is measured by.
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
    if (!measure(vertex)) return false;
    enter(vertex, probability);
    return true;
  }

  // Enters a vertex of higher score than the level, and moves to the optimum.
  void add(const Vertex& vertex) {
    if (measure(vertex)) {
      enter(vertex, 0.0);  // which leaves the slack of the others as it is
    } else {
      exchange(vertex);
      find_slack();
    }
    settle();
  }

  // Moves to the optimum from any probabilities.
  void restart() {
    find_slack();
    settle();
  }

  // numbers -= A Z A' numbers, on the regularised parts: what is orthogonal to the affine hull remains.
  void remove_hull(double* numbers) {
    delta_.resize(size());
    for (std::int64_t i = 0; i < size(); ++i) delta_[i] = over_regularized(members_[i], numbers);
    project(delta_.data(), 0.0);
    for (std::int64_t i = 0; i < size(); ++i) {
      const Member& member = members_[i];
      for (std::int64_t e = 0; e < member.n_regularized; ++e) numbers[member.places[e]] -= delta_[i] * member.values[e];
    }
  }

 private:
  static constexpr double kNothing = 4 * std::numeric_limits<double>::epsilon();  // a probability of zero, rounded
  static constexpr double kDependent = 1e-10;  // a pivot of G, relative: the entries of vertices are small numbers

  void find_slack() {  // s - K p
    slack_.resize(size());
    algebra_.times(gram_.data(), room_, size(), p_.data(), slack_.data());
    for (std::int64_t i = 0; i < size(); ++i) slack_[i] = members_[i].score - slack_[i];
  }

  double over_regularized(const Member& member, const double* numbers) const {
    return algebra_.gather_dot(member.places.data(), member.values.data(), member.n_regularized, numbers);
  }

  // Writes the row of K and of the factor that a vertex would add; false if its pivot vanishes.
  bool measure(const Vertex& vertex) {
    make_room();
    const std::int64_t n = size();
    double* row = &gram_[n * room_];
    double own = 0;
    std::int64_t n_own = 0;
    for (; n_own < vertex.size && vertex.places[n_own] < n_regularized_; ++n_own) {
      hot_[vertex.places[n_own]] = vertex.values[n_own];
      own += vertex.values[n_own] * vertex.values[n_own];
    }
    for (std::int64_t i = 0; i < n; ++i) row[i] = over_regularized(members_[i], hot_.data());
    for (std::int64_t e = 0; e < n_own; ++e) hot_[vertex.places[e]] = 0;
    row[n] = own;
    for (std::int64_t i = 0; i <= n; ++i) factor_[n * room_ + i] = row[i] + 1;
    const double left = reduce(n);
    if (!(left > kDependent * (own + 1))) return false;
    factor_[n * room_ + n] = std::sqrt(left);
    return true;
  }

  // Turns row n of G, standing in the factor, into a row of the factor but for its pivot, whose square is returned.
  double reduce(std::int64_t n) {
    double* row = &factor_[n * room_];
    algebra_.solve_lower(factor_.data(), room_, n, row);
    double left = row[n];
    for (std::int64_t i = 0; i < n; ++i) left -= row[i] * row[i];
    return left;
  }

  void enter(const Vertex& vertex, double probability) {
    const std::int64_t n = size();
    for (std::int64_t i = 0; i < n; ++i) gram_[i * room_ + n] = gram_[n * room_ + i];
    Member member;
    member.places.assign(vertex.places, vertex.places + vertex.size);
    member.values.assign(vertex.values, vertex.values + vertex.size);
    member.score = algebra_.gather_dot(vertex.places, vertex.values, vertex.size, scores_);
    member.n_regularized = 0;
    while (member.n_regularized < vertex.size && vertex.places[member.n_regularized] < n_regularized_)
      ++member.n_regularized;
    double slack = member.score, lowered = 1;
    const double* gram = &gram_[n * room_];
    const double* factor = &factor_[n * room_];
    for (std::int64_t i = 0; i < n; ++i) slack -= gram[i] * p_[i], lowered -= factor[i] * lowered_[i];
    lowered_.push_back(lowered / factor[n]);
    slack_.push_back(slack - gram[n] * probability);
    members_.push_back(std::move(member));
    p_.push_back(probability);
  }

  // A vertex in the affine hull: along d with A d = 0, <1, d> = 0 the objective is linear, and it rises until a member
  // has nothing left. That one makes place for the vertex.
  void exchange(const Vertex& vertex) {
    const std::int64_t n = size();
    delta_.assign(&factor_[n * room_], &factor_[n * room_] + n);
    algebra_.solve_upper(factor_.data(), room_, n, delta_.data());
    std::int64_t blocking = -1;
    double step = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      if (!(delta_[i] > kDependent)) continue;
      const double ratio = p_[i] / delta_[i];
      if (ratio < step) step = ratio, blocking = i;
    }
    if (blocking < 0) return;
    for (std::int64_t i = 0; i < n; ++i) p_[i] -= step * delta_[i];
    drop(blocking);
    if (measure(vertex)) enter(vertex, step);
  }

  // Moves p to the optimum of the convex hull; members that lose all their probability leave.
  void settle() {
    for (;;) {
      correction();
      double step = 1.0;
      std::int64_t blocking = -1;
      for (std::int64_t i = 0; i < size(); ++i) {
        const double wanted = p_[i] + delta_[i];
        if (wanted > kNothing) continue;
        const double ratio = p_[i] > 0 ? std::min(1.0, p_[i] / (p_[i] - wanted)) : 0.0;
        if (blocking < 0 || ratio < step) step = ratio, blocking = i;
      }
      for (std::int64_t i = 0; i < size(); ++i) p_[i] += step * delta_[i];
      if (blocking >= 0) drop(blocking);
      find_slack();
      if (blocking < 0) return;
    }
  }

  // delta = Z slack + what p lacks to 1. With a = L^-1 slack, y = L^-1 1 it is L'^-1 (a + share y): one solve each way.
  void correction() {
    double missing = 1;
    for (double p : p_) missing -= p;
    delta_ = slack_;
    for (double& number : delta_) number -= slack_[0];  // scores may be large where their differences are small
    project(delta_.data(), missing);
  }

  // x = Z x + missing u / <1, u>.
  void project(double* x, double missing) {
    const std::int64_t n = size();
    algebra_.solve_lower(factor_.data(), room_, n, x);
    double along = 0, ones = 0;
    for (std::int64_t i = 0; i < n; ++i) along += lowered_[i] * x[i], ones += lowered_[i] * lowered_[i];
    const double share = (missing - along) / ones;
    for (std::int64_t i = 0; i < n; ++i) x[i] += share * lowered_[i];
    algebra_.solve_upper(factor_.data(), room_, n, x);
  }

  void lower_ones() {
    lowered_.assign(size(), 1.0);
    algebra_.solve_lower(factor_.data(), room_, size(), lowered_.data());
  }

  // Takes member `gone` out; rotations make the rows below it triangular again.
  void drop(std::int64_t gone) {
    const std::int64_t n = size();
    members_.erase(members_.begin() + gone);
    p_.erase(p_.begin() + gone);
    for (std::int64_t i = 0; i < n; ++i) {
      double* row = &gram_[i * room_];
      std::move(row + gone + 1, row + n, row + gone);
    }
    for (std::int64_t i = gone; i + 1 < n; ++i) {
      std::copy(&gram_[(i + 1) * room_], &gram_[(i + 1) * room_] + n, &gram_[i * room_]);
      std::copy(&factor_[(i + 1) * room_], &factor_[(i + 1) * room_] + i + 2, &factor_[i * room_]);
    }
    for (std::int64_t i = gone; i + 1 < n; ++i) {  // row i reaches one column too far
      const double a = factor_[i * room_ + i], b = factor_[i * room_ + i + 1];
      const double length = std::hypot(a, b), c = a / length, s = b / length;
      for (std::int64_t k = i; k + 1 < n; ++k) {
        double* row = &factor_[k * room_];
        const double left = row[i], right = row[i + 1];
        row[i] = c * left + s * right;
        row[i + 1] = c * right - s * left;
      }
    }
    lower_ones();
  }

  void make_room() {
    if (size() < room_) return;
    const std::int64_t room = std::max<std::int64_t>(16, 2 * room_);
    std::vector<double> gram(room * room), factor(room * room);
    for (std::int64_t i = 0; i < size(); ++i)
      for (std::int64_t j = 0; j < size(); ++j) {
        gram[i * room + j] = gram_[i * room_ + j];
        factor[i * room + j] = factor_[i * room_ + j];
      }
    gram_ = std::move(gram), factor_ = std::move(factor), room_ = room;
  }

  const DenseAlgebra& algebra_;
  const double* scores_;
  std::int64_t n_regularized_;
  std::int64_t room_ = 0;
  std::vector<Member> members_;
  std::vector<double> gram_, factor_;  // (room, room), row by row
  std::vector<double> hot_;            // (n_parts,): a vertex written out, otherwise zero
  std::vector<double> p_, slack_, delta_;
  std::vector<double> lowered_;  // L^-1 1
};

}  // namespace omegamax
