// Lo to hi of n entries under a smoothed maximum: sweeps over (position, count), vectors over the counts.
//
//     v[t, c] = max over Omega of (v[t - 1, c], v[t - 1, c - 1] + score of entry t)        v[0, 0] = 0
//
// Each local problem has two candidates, so its solution is one number, `taken`. Counts that cannot reach lo by the
// end, or that exceed the position, are left out. The caller applies Omega to the counts at the end. All sums are in
// double precision: scores of 1e4 add up over many positions.
#pragma once

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

struct Decided {
  Doubles value, taken;
};

struct ShannonOfTwo {
  static Decided decide(Doubles skip, Doubles take) {
    const Doubles nothing = splat(-kInfinity<double>), top = larger(take, skip), low = take < skip ? take : skip;
    const Doubles apart = top > nothing ? low - top : Doubles{};
    const Doubles small = exp_of(apart), total = 1.0 + small;
    const Doubles value = top > nothing ? top + log1p_normal(small) : top;
    return {value, (take < skip ? small : splat(1.0)) / total};
  }
  static Doubles slope(Doubles taken) { return taken * (1.0 - taken); }
};

struct SquaredNormOfTwo {
  static Decided decide(Doubles skip, Doubles take) {
    const Doubles nothing = splat(-kInfinity<double>), top = larger(take, skip), low = take < skip ? take : skip;
    const Doubles apart = top > nothing ? low - top : splat(-1.0);
    const Doubles small = larger(0.5 * (1.0 + apart), Doubles{});  // what the smaller one gets
    // <p, x> - 1/2 (|p|^2 - 1) at p = (1 - small, small)
    const Doubles gain = small > Doubles{} ? small * apart + small * (1.0 - small) : Doubles{};
    return {top + gain, take < skip ? small : 1.0 - small};
  }
  static Doubles slope(Doubles taken) {
    const Doubles half = splat(0.5), none{};
    return taken > none ? (taken < splat(1.0) ? half : none) : none;
  }
};

template <class F>
inline void with_omega_of_two(Omega omega, F f) {
  if (omega == Omega::kShannon) f(ShannonOfTwo{});
  else f(SquaredNormOfTwo{});
}

// Counts of one item at each position, in whole vectors.
struct Counts {
  static constexpr std::int64_t kWide = kLanes<double>;
  static constexpr std::int64_t kTogether = 8;  // what the sweeps leave is laid out alike for every instruction set
  std::int64_t n, lo, hi, stride;
  Counts(std::int64_t length, std::int64_t lo_, std::int64_t hi_) : n(length), lo(lo_), hi(hi_), stride(padded(hi_)) {}
  // Numbers per position, and of an array over counts with one vector of room on both sides.
  static std::int64_t padded(std::int64_t hi) { return (hi + kTogether) / kTogether * kTogether; }
  static std::int64_t roomy(std::int64_t hi) { return padded(hi) + 2 * kWide; }

  // The first and the last vector after `position` entries.
  std::int64_t first(std::int64_t position) const {
    const std::int64_t least = lo - (n - position);
    return least > 0 ? least / kWide * kWide : 0;
  }
  std::int64_t last(std::int64_t position) const { return (position < hi ? position : hi) / kWide * kWide; }
};

template <class T>
void run(const BudgetUp<T>& problem, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals rounded;
  const std::int64_t roomy = Counts::roomy(problem.hi);
  const Scratch<double> scratch(roomy);
  double* values = scratch.get() + Counts::kWide;
  for (std::int64_t item = begin; item < end; ++item) {
    const Counts counts(problem.lengths[item], problem.lo, problem.hi);
    const T* scores = problem.scores + item * problem.width;
    double* taken = problem.taken + item * problem.width * counts.stride;
    for (std::int64_t c = 0; c < roomy; ++c) scratch.get()[c] = -kInfinity<double>;
    values[0] = 0;
    bool fine = true;
    with_omega_of_two(problem.omega, [&](auto omega) {
      for (std::int64_t t = 0; t < counts.n; ++t) {
        const double score = static_cast<double>(scores[t]);
        fine &= score < kInfinity<double>;
        for (std::int64_t c = counts.last(t + 1); c >= counts.first(t + 1); c -= Counts::kWide) {
          const Decided decided = omega.decide(load(values + c), load(values + c - 1) + score);
          store(values + c, decided.value);
          store(taken + t * counts.stride + c, decided.taken);
        }
      }
    });
    for (std::int64_t c = 0; c <= problem.hi; ++c)
      problem.last[item * (problem.hi + 1) + c] = !fine            ? kNaN<double>
                                                  : c < problem.lo ? -kInfinity<double>
                                                                   : values[c];
  }
}

template <class T>
void run(const BudgetDown<T>& problem, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals rounded;
  const std::int64_t roomy = Counts::roomy(problem.hi);
  const Scratch<double> scratch(2 * roomy);
  double *visits = scratch.get() + Counts::kWide, *flow = visits + roomy;
  for (std::int64_t item = begin; item < end; ++item) {
    const Counts counts(problem.lengths[item], problem.lo, problem.hi);
    const double* taken = problem.taken + item * problem.width * counts.stride;
    T* marginals = problem.marginals + item * problem.width;
    for (std::int64_t c = 0; c < 2 * roomy; ++c) scratch.get()[c] = 0;
    for (std::int64_t c = 0; c <= problem.hi; ++c) visits[c] = problem.goal[item * (problem.hi + 1) + c];
    for (std::int64_t t = counts.n; t < problem.width; ++t) marginals[t] = 0;
    for (std::int64_t t = counts.n - 1; t >= 0; --t) {
      const std::int64_t first = counts.first(t + 1), last = counts.last(t + 1);
      Doubles total{};
      for (std::int64_t c = first; c <= last; c += Counts::kWide) {
        const Doubles here = load(taken + t * counts.stride + c) * load(visits + c);
        store(flow + c, here);
        total += here;
      }
      store(flow + last + Counts::kWide, Doubles{});
      marginals[t] = static_cast<T>(sum_lanes<double>(total));
      // A count below the first vector is entered from it only.
      if (first > 0) visits[first - 1] = flow[first];
      for (std::int64_t c = first; c <= last; c += Counts::kWide)
        store(visits + c, (load(visits + c) - load(flow + c)) + load(flow + c + 1));
    }
  }
}

template <class T>
void run(const BudgetMoveUp<T>& problem, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals rounded;
  const std::int64_t roomy = Counts::roomy(problem.hi);
  const Scratch<double> scratch(roomy);
  double* values = scratch.get() + Counts::kWide;
  for (std::int64_t item = begin; item < end; ++item) {
    const Counts counts(problem.lengths[item], problem.lo, problem.hi);
    const T* direction = problem.direction + item * problem.width;
    const double* taken = problem.taken + item * problem.width * counts.stride;
    double* moved = problem.moved + item * problem.width * counts.stride;
    for (std::int64_t c = 0; c < roomy; ++c) scratch.get()[c] = 0;
    with_omega_of_two(problem.omega, [&](auto omega) {
      for (std::int64_t t = 0; t < counts.n; ++t) {
        const double along = static_cast<double>(direction[t]);
        for (std::int64_t c = counts.last(t + 1); c >= counts.first(t + 1); c -= Counts::kWide) {
          const Doubles q = load(taken + t * counts.stride + c), skip = load(values + c);
          const Doubles apart = load(values + c - 1) + along - skip;
          store(values + c, skip + q * apart);
          store(moved + t * counts.stride + c, omega.slope(q) * apart);
        }
      }
    });
    for (std::int64_t c = 0; c <= problem.hi; ++c)
      problem.last[item * (problem.hi + 1) + c] = c < problem.lo ? 0 : values[c];
  }
}

template <class T>
void run(const BudgetMoveDown<T>& problem, std::int64_t begin, std::int64_t end) {
  const WithoutDenormals rounded;
  const std::int64_t roomy = Counts::roomy(problem.hi);
  const Scratch<double> scratch(4 * roomy);
  double *visits = scratch.get() + Counts::kWide, *flow = visits + roomy;
  double *moved_visits = flow + roomy, *moved_flow = moved_visits + roomy;
  for (std::int64_t item = begin; item < end; ++item) {
    const Counts counts(problem.lengths[item], problem.lo, problem.hi);
    const std::int64_t before = item * problem.width * counts.stride;
    T* product = problem.product + item * problem.width;
    for (std::int64_t c = 0; c < 4 * roomy; ++c) scratch.get()[c] = 0;
    for (std::int64_t c = 0; c <= problem.hi; ++c) {
      visits[c] = problem.goal[item * (problem.hi + 1) + c];
      moved_visits[c] = problem.moved_goal[item * (problem.hi + 1) + c];
    }
    for (std::int64_t t = counts.n; t < problem.width; ++t) product[t] = 0;
    for (std::int64_t t = counts.n - 1; t >= 0; --t) {
      const std::int64_t first = counts.first(t + 1), last = counts.last(t + 1);
      Doubles total{};
      for (std::int64_t c = first; c <= last; c += Counts::kWide) {
        const Doubles q = load(problem.taken + before + t * counts.stride + c), here = load(visits + c);
        const Doubles moved = load(problem.moved + before + t * counts.stride + c) * here + q * load(moved_visits + c);
        store(flow + c, q * here);
        store(moved_flow + c, moved);
        total += moved;
      }
      store(flow + last + Counts::kWide, Doubles{});
      store(moved_flow + last + Counts::kWide, Doubles{});
      product[t] = static_cast<T>(sum_lanes<double>(total));
      if (first > 0) {
        visits[first - 1] = flow[first];
        moved_visits[first - 1] = moved_flow[first];
      }
      for (std::int64_t c = first; c <= last; c += Counts::kWide) {
        store(visits + c, (load(visits + c) - load(flow + c)) + load(flow + c + 1));
        store(moved_visits + c, (load(moved_visits + c) - load(moved_flow + c)) + load(moved_flow + c + 1));
      }
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
