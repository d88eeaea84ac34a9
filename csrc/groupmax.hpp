// Groupmax rows: weights in which whole groups are zero. One unknown, the multiplier of the simplex.
#pragma once

#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "candidates.hpp"
#include "problems.hpp"
#include "tv1d.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// What a group's positive parts u = (x - tau)_+ add up to.
struct GroupSums {
  double count, sum, squares;
};

// sum p = sum_g s (1 - strength / r)_+ decreases in tau (s and r the sum and norm of u_g), so its crossing of 1 is found
// by Newton's method kept inside a bracket. At tau = max - 1 - strength the largest score alone makes it at least 1:
// nothing below that level can receive weight.
class GroupRoot {
 public:
  GroupRoot(const double* x, const std::int32_t* group, std::int64_t n, GroupSums* sums, std::int32_t groups,
            double strength)
      : x_(x), group_(group), n_(n), sums_(sums), groups_(groups), strength_(strength) {}

  double find() {
    double low = -1 - strength_, high = 0, tau = low;
    for (int step = 0; step < 200; ++step) {
      double slope;
      const double excess = total(tau, slope) - 1;
      (excess >= 0 ? low : high) = tau;
      double next = tau - excess / slope;
      if (!(slope < 0) || !(next >= low && next <= high)) next = (low + high) / 2;
      const double change = next > tau ? next - tau : tau - next;
      tau = next;
      if (excess == 0 || change <= 1e-16 * (tau < 0 ? -tau : tau)) break;
    }
    double slope;
    total(tau, slope);  // leaves the sums of the final tau
    return tau;
  }

  // By how much a group's u is shrunk.
  double factor(std::int32_t g) const {
    const double r = __builtin_sqrt(sums_[g].squares);
    return r > strength_ ? (r - strength_) / r : 0;
  }

 private:
  double total(double tau, double& slope) {
    std::memset(sums_, 0, groups_ * sizeof(GroupSums));
    for (std::int64_t i = 0; i < n_; ++i) {
      const double u = x_[i] > tau ? x_[i] - tau : 0;
      GroupSums& own = sums_[group_[i]];
      own.count += u > 0;
      own.sum += u;
      own.squares += u * u;
    }
    double mass = 0;
    slope = 0;
    for (std::int32_t g = 0; g < groups_; ++g) {
      const double r = __builtin_sqrt(sums_[g].squares);
      if (!(r > strength_)) continue;
      const double keep = (r - strength_) / r;
      mass += sums_[g].sum * keep;
      slope -= sums_[g].count * keep + strength_ * sums_[g].sum * sums_[g].sum / (r * r * r);
    }
    return mass;
  }

  const double* x_;
  const std::int32_t* group_;
  std::int64_t n_;
  GroupSums* sums_;
  std::int32_t groups_;
  double strength_;
};

template <class T>
void run(const Groupmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<T>(n + kSlack) + 2 * Buffer::size<std::int32_t>(n + kSlack) + Buffer::size<double>(n) +
                Buffer::size<GroupSums>(n) + Buffer::size<std::int32_t>(n));
  T* found = buffer.take<T>(n + kSlack);
  std::int32_t* position = buffer.take<std::int32_t>(n + kSlack);
  std::int32_t* group = buffer.take<std::int32_t>(n + kSlack);
  double* x = buffer.take<double>(n);
  GroupSums* sums = buffer.take<GroupSums>(n);
  std::int32_t* number = buffer.take<std::int32_t>(n);  // of a group among those with candidates; -1 for none
  for (std::int64_t i = 0; i < n; ++i) number[i] = -1;
  for (std::int64_t row = begin; row < end; ++row) {
    const T* scores = problem.scores + row * n;
    T* weights = problem.weights + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const Extent<T> whole = extent(scores, n);
    if (fill_degenerate(whole, !valid_strength(strength), weights, problem.value + row, n)) continue;
    // A little slack: the level is rounded, and a candidate too many costs nothing.
    const T level = static_cast<T>((-1 - strength) * 1.000001);
    const std::int64_t m = gather_above(scores, n, whole.top, level, found, position);
    std::int32_t groups = 0;
    for (std::int64_t i = 0; i < m; ++i) {
      std::int32_t& own = number[problem.groups[position[i]]];
      if (own < 0) own = groups++;
      group[i] = own;
      x[i] = found[i];
    }
    for (std::int64_t i = 0; i < m; ++i) number[problem.groups[position[i]]] = -1;

    GroupRoot root(x, group, m, sums, groups, strength);
    const double tau = root.find();
    double value = 0.5;
    if (m < n) std::memset(weights, 0, n * sizeof(T));
    for (std::int64_t i = 0; i < m; ++i) {
      const double p = x[i] > tau ? (x[i] - tau) * root.factor(group[i]) : 0;
      value += p * (x[i] - p / 2);
      weights[position[i]] = static_cast<T>(p);
    }
    for (std::int32_t g = 0; g < groups; ++g) {
      const double r = __builtin_sqrt(sums[g].squares);
      value -= r > strength ? strength * (r - strength) : 0;  // ||p_g|| = r - strength
    }
    problem.value[row] = static_cast<T>(whole.top + value);
  }
}

// J v = M v - M 1 (1'M v)/(1'M 1) with M_g = (n/r) I + strength/(r n^2) p_g p_g', n = ||p_g||, r = n + strength.
template <class T>
void run(const GroupmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  struct Moments {
    double squares, sum, along;  // of p, of p, and of p v
  };
  const std::int64_t n = problem.columns;
  Buffer buffer(Buffer::size<std::int32_t>(n + kSlack) + Buffer::size<Moments>(n) + 2 * Buffer::size<double>(n));
  std::int32_t* support = buffer.take<std::int32_t>(n + kSlack);
  Moments* moments = buffer.take<Moments>(n);
  double* along = buffer.take<double>(n);  // M v on the support
  double* ones = buffer.take<double>(n);   // M 1
  for (std::int64_t row = begin; row < end; ++row) {
    const T* p = problem.weights + row * n;
    const T* v = problem.direction + row * n;
    T* out = problem.product + row * n;
    const double strength = problem.strengths ? problem.strengths[row] : problem.strength;
    const std::int64_t size = gather_support(p, n, support);
    std::memset(out, 0, n * sizeof(T));
    for (std::int64_t k = 0; k < size; ++k) moments[problem.groups[support[k]]] = {0, 0, 0};
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      Moments& own = moments[problem.groups[i]];
      const double weight = p[i];
      own.squares += weight * weight;
      own.sum += weight;
      own.along += weight * v[i];
    }
    double total_along = 0, total_ones = 0;
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int32_t i = support[k];
      const Moments& own = moments[problem.groups[i]];
      const double norm = __builtin_sqrt(own.squares), r = norm + strength;
      const double pull = strength / (r * own.squares) * p[i];
      along[k] = norm / r * v[i] + pull * own.along;
      ones[k] = norm / r + pull * own.sum;
      total_along += along[k];
      total_ones += ones[k];
    }
    const double centre = size > 0 ? total_along / total_ones : 0;
    for (std::int64_t k = 0; k < size; ++k) out[support[k]] = static_cast<T>(along[k] - ones[k] * centre);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
