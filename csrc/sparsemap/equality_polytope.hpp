// The nearest point of a polytope that is known by its equations, B mu = b, mu >= 0:
//
//     minimise over mu   1/2 ||mu - scores||^2
//
// Paths of a graph are such a polytope (what flows into a node flows out), and so are derivations of a hypergraph and
// matchings. It has one equation per node and one number per edge, so the dual problem is small:
//
//     minimise over y   1/2 ||(scores + B' y)_+||^2 - <b, y>           mu = (scores + B' y)_+
//
// It is convex and piecewise quadratic. Newton's method on it, with a line search, ends after a few steps on the piece
// that holds the optimum. Nodes in topological order couple with near ones only: the matrix B D B' has an envelope.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/interruption.hpp"

namespace omegamax {

// Column by column; columns are parts of the structure.
struct EqualitySystem {
  std::vector<double> right;        // b
  std::vector<std::int32_t> parts;  // of each column
  std::vector<std::int64_t> first;  // entry of each column, and their number
  std::vector<std::int32_t> rows;
  std::vector<double> values;

  EqualitySystem() : first{0} {}
  void begin(std::int32_t part) { parts.push_back(part); }
  void put(std::int64_t row, double value) { rows.push_back(static_cast<std::int32_t>(row)), values.push_back(value); }
  void end() { first.push_back(static_cast<std::int64_t>(rows.size())); }
};

// A symmetric matrix, of each row the entries from its first to the diagonal, and its Cholesky factor in their place.
class Envelope {
 public:
  explicit Envelope(const EqualitySystem& system) : begin_(system.right.size()), offset_(system.right.size() + 1, 0) {
    const std::int64_t n = size();
    for (std::int64_t i = 0; i < n; ++i) begin_[i] = i;
    for (std::size_t column = 0; column < system.parts.size(); ++column) {
      std::int64_t least = n;
      for (std::int64_t e = system.first[column]; e < system.first[column + 1]; ++e)
        least = std::min<std::int64_t>(least, system.rows[e]);
      for (std::int64_t e = system.first[column]; e < system.first[column + 1]; ++e)
        begin_[system.rows[e]] = std::min(begin_[system.rows[e]], least);
    }
    for (std::int64_t i = 0; i < n; ++i) offset_[i + 1] = offset_[i] + i - begin_[i] + 1;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(begin_.size()); }
  double work() const {  // multiplications of a factorisation, about
    double total = 0;
    for (std::int64_t i = 0; i < size(); ++i) total += static_cast<double>(i - begin_[i]) * (i - begin_[i]);
    return total;
  }
  void clear() { entries_.assign(offset_.back(), 0.0); }
  double& at(std::int64_t i, std::int64_t j) { return entries_[offset_[i] + j - begin_[i]]; }  // j <= i

  // In place, with a little added to the diagonal: equations may depend on each other, or see no column at all.
  void factor() {
    double largest = 0;
    for (std::int64_t i = 0; i < size(); ++i) largest = std::max(largest, at(i, i));
    const double shift = largest > 0 ? kShift * largest : 1;
    for (std::int64_t i = 0; i < size(); ++i) {
      double* row = &at(i, begin_[i]);
      for (std::int64_t j = begin_[i]; j < i; ++j) {
        const std::int64_t from = std::max(begin_[i], begin_[j]);
        row[j - begin_[i]] = (row[j - begin_[i]] - inner(i, j, from)) / at(j, j);
      }
      at(i, i) = std::sqrt(std::max(at(i, i) + shift - inner(i, i, begin_[i]), shift));
    }
  }

  void solve(std::vector<double>& x) {
    for (std::int64_t i = 0; i < size(); ++i) {
      const double* row = &at(i, begin_[i]);
      for (std::int64_t j = begin_[i]; j < i; ++j) x[i] -= row[j - begin_[i]] * x[j];
      x[i] /= at(i, i);
    }
    for (std::int64_t i = size() - 1; i >= 0; --i) {
      const double* row = &at(i, begin_[i]);
      x[i] /= at(i, i);
      for (std::int64_t j = begin_[i]; j < i; ++j) x[j] -= row[j - begin_[i]] * x[i];
    }
  }

 private:
  static constexpr double kShift = 1e-10;

  double inner(std::int64_t i, std::int64_t j, std::int64_t from) {  // of the columns from..j
    const double *a = &at(i, begin_[i]) + (from - begin_[i]), *b = &at(j, begin_[j]) + (from - begin_[j]);
    double total = 0;
    for (std::int64_t k = 0; k < j - from; ++k) total += a[k] * b[k];
    return total;
  }

  std::vector<std::int64_t> begin_, offset_;
  std::vector<double> entries_;
};

class EqualityPolytope {
 public:
  // Scores of all parts; -inf forbids. Columns of forbidden parts take no part.
  EqualityPolytope(const EqualitySystem& system, const double* scores) : system_(system), matrix_(system) {
    for (std::size_t column = 0; column < system.parts.size(); ++column)
      if (scores[system.parts[column]] > -std::numeric_limits<double>::infinity()) {
        columns_.push_back(static_cast<std::int64_t>(column));
        scores_.push_back(scores[system.parts[column]]);
      }
  }

  double work() const { return matrix_.work(); }

  // Writes the nearest point into `mean`, of all parts, which is zero before; false where Newton's method gives up.
  bool nearest(double* mean, Interruption* interruption) {
    constexpr int kMostSteps = 200;
    y_.assign(system_.right.size(), 0.0);
    active_.assign(columns_.size(), true);
    for (int step = 0; step < kMostSteps; ++step) {
      if (interruption != nullptr) interruption->check();
      const bool whole = newton(step == 0);
      if (!whole && !(slope_ < 0)) return false;
      if (settled_ && residual() <= kResidual) {
        for (std::size_t c = 0; c < columns_.size(); ++c)
          mean[system_.parts[columns_[c]]] = std::max(0.0, reduced(c, y_));
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr double kResidual = 1e-9;  // of the equations: the active set corrects what is left

  double reduced(std::size_t c, const std::vector<double>& y) const {
    double total = scores_[c];
    for (std::int64_t e = system_.first[columns_[c]]; e < system_.first[columns_[c] + 1]; ++e)
      total += system_.values[e] * y[system_.rows[e]];
    return total;
  }

  double objective(const std::vector<double>& y) const {
    double total = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const double number = std::max(0.0, reduced(c, y));
      total += 0.5 * number * number;
    }
    for (std::size_t i = 0; i < y.size(); ++i) total -= system_.right[i] * y[i];
    return total;
  }

  // b - B mu, with mu of the active columns.
  std::vector<double> missing(bool all) const {
    std::vector<double> found = system_.right;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const double number = all ? reduced(c, y_) : std::max(0.0, reduced(c, y_));
      for (std::int64_t e = system_.first[columns_[c]]; e < system_.first[columns_[c] + 1]; ++e)
        found[system_.rows[e]] -= system_.values[e] * number;
    }
    return found;
  }
  double residual() const {
    double largest = 0;
    for (const double number : missing(false)) largest = std::max(largest, std::abs(number));
    return largest;
  }

  // One step; `all` columns count as active in the first, which finds the solution that may be negative. True where
  // the whole step was taken.
  bool newton(bool all) {
    matrix_.clear();
    settled_ = true;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const bool active = all || reduced(c, y_) > 0;
      settled_ &= active == active_[c] && !all;
      active_[c] = active;
      if (!active) continue;
      const std::int64_t from = system_.first[columns_[c]], to = system_.first[columns_[c] + 1];
      for (std::int64_t e = from; e < to; ++e)
        for (std::int64_t f = from; f < to; ++f)
          if (system_.rows[f] <= system_.rows[e])
            matrix_.at(system_.rows[e], system_.rows[f]) += system_.values[e] * system_.values[f];
    }
    matrix_.factor();
    std::vector<double> direction = missing(all);
    const std::vector<double> downhill = direction;
    matrix_.solve(direction);
    slope_ = 0;
    for (std::size_t i = 0; i < y_.size(); ++i) slope_ -= downhill[i] * direction[i];
    if (all || settled_) {
      for (std::size_t i = 0; i < y_.size(); ++i) y_[i] += direction[i];
      return true;
    }
    const double before = objective(y_);
    std::vector<double> there(y_.size());
    for (double length = 1; length > 1e-10; length *= 0.5) {
      for (std::size_t i = 0; i < y_.size(); ++i) there[i] = y_[i] + length * direction[i];
      if (objective(there) > before + 1e-4 * length * slope_ + 1e-15 * std::abs(before)) continue;
      y_ = there;
      return length == 1;
    }
    slope_ = 0;
    return false;
  }

  const EqualitySystem& system_;
  Envelope matrix_;
  std::vector<std::int64_t> columns_;
  std::vector<double> scores_, y_;
  std::vector<bool> active_;
  double slope_ = 0;
  bool settled_ = false;
};

}  // namespace omegamax
