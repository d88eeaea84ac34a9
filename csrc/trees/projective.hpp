// Projective dependency trees (Eisner, 1996), one item per call. Positions 0..n, 0 is the root; charts of charts.hpp.
//
//     B[s, t] = max over k of R[s, k] + L[k + 1, t]           both halves under an arc that joins s and t
//     R[s, t] = max over k of A[s, k] + R[k, t]               A = B + score of the arc s -> k
//     L[s, t] = max over k of L[s, k] + Z[k, t]               Z = B + score of the arc t -> k
#pragma once

#include "core/problems.hpp"
#include "trees/charts.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// One array each for R, L, A and Z, one after the other: values, visits, or their derivatives.
template <class T>
struct ArcCharts {
  T *right, *left, *arc_right, *arc_left;
  ArcCharts(T* memory, std::int64_t each)
      : right(memory), left(memory + each), arc_right(memory + 2 * each), arc_left(memory + 3 * each) {}
};

// Values, and what is kept of the local problems.
template <class T>
struct ProjectiveCharts : ArcCharts<T> {
  T *top_both, *scale_both, *top_right, *scale_right, *top_left, *scale_left;
  ProjectiveCharts(T* memory, std::int64_t each)
      : ArcCharts<T>(memory, each), top_both(memory + 4 * each), scale_both(memory + 5 * each),
        top_right(memory + 6 * each), scale_right(memory + 7 * each), top_left(memory + 8 * each),
        scale_left(memory + 9 * each) {}
};
constexpr std::int64_t kProjectiveCharts = 10, kProjectiveVisits = 4;

template <class T>
struct Projective {
  std::int64_t size, n, stride, each;  // positions of the batch, words of the item
  bool single_root;
  Projective(std::int64_t size_, std::int64_t n_, bool single)
      : size(size_), n(n_), stride(chart_stride(size_)), each(size_ * chart_stride(size_)), single_root(single) {}

  Pairs<T> both(std::int64_t d, std::int64_t s) const {
    return {s, (d - 1) * stride + s + 1, stride, d, single_root && s == 0};
  }
  Pairs<T> right(std::int64_t d, std::int64_t s) const {
    return {stride + s, (d - 1) * stride + s + 1, stride, d, false};
  }
  Pairs<T> left(std::int64_t d, std::int64_t s) const { return {s, d * stride + s, stride, d, false}; }

  // Calls f(s) for each vector of spans s..s + d within the sentence.
  template <class F>
  void each_start(std::int64_t d, F f) const {
    for (std::int64_t s = 0; s + d <= n; s += kLanes<T>) f(s);
  }
  std::int64_t lanes(std::int64_t d, std::int64_t s) const {
    const std::int64_t rest = n - d - s + 1;
    return rest < kLanes<T> ? rest : kLanes<T>;
  }

  // Arcs s -> s + d and back, of neighbouring s. Nothing points to the root.
  void arcs(const T* scores, std::int64_t d, std::int64_t s, Vector<T>& to_right, Vector<T>& to_left) const {
    T ahead[kLanes<T>] = {}, back[kLanes<T>] = {};
    const std::int64_t count = lanes(d, s);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const std::int64_t at = s + lane;
      ahead[lane] = scores[at * size + at + d];
      back[lane] = at > 0 ? scores[(at + d) * size + at] : -kInfinity<T>;
    }
    to_right = load(ahead);
    to_left = load(back);
  }
  void write_arcs(T* scores, std::int64_t d, std::int64_t s, Vector<T> to_right, Vector<T> to_left) const {
    const std::int64_t count = lanes(d, s);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const std::int64_t at = s + lane;
      scores[at * size + at + d] = to_right[lane];
      if (at > 0) scores[(at + d) * size + at] = to_left[lane];
    }
  }
};

template <class Lanes, class T>
inline T projective_value(const Projective<T>& p, const T* scores, T* memory, T* x) {
  const ProjectiveCharts<T> c(memory, p.each);
  clear(memory, 4 * p.each);
  for (std::int64_t d = 1; d <= p.n; ++d) {
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      Vector<T> to_right, to_left;
      p.arcs(scores, d, s, to_right, to_left);
      const Vector<T> value = solve_pairs<Lanes>(p.both(d, s), c.right, c.left, x, c.top_both, c.scale_both, at);
      store(c.arc_right + at, value + to_right);
      store(c.arc_left + at, value + to_left);
    });
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      store(c.right + at, solve_pairs<Lanes>(p.right(d, s), c.arc_right, c.right, x, c.top_right, c.scale_right, at));
      store(c.left + at, solve_pairs<Lanes>(p.left(d, s), c.left, c.arc_left, x, c.top_left, c.scale_left, at));
    });
  }
  return c.right[p.n * p.stride];
}

// `visits`: R, L, A, Z.
template <class Lanes, class T>
inline void projective_marginals(const Projective<T>& p, T* memory, T* visits, T* marginals) {
  const ProjectiveCharts<T> c(memory, p.each);
  const ArcCharts<T> v(visits, p.each);
  clear(visits, kProjectiveVisits * p.each);
  clear(marginals, p.size * p.size);
  v.right[p.n * p.stride] = 1;
  for (std::int64_t d = p.n; d > 0; --d) {
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      const Vector<T> to_right = load(v.right + at), to_left = load(v.left + at);
      if (!all_zero<T>(to_right))
        visit_pairs<Lanes>(p.right(d, s), c.arc_right, c.right, kept_at(c.top_right, c.scale_right, at), to_right,
                           v.arc_right, v.right);
      if (!all_zero<T>(to_left))
        visit_pairs<Lanes>(p.left(d, s), c.left, c.arc_left, kept_at(c.top_left, c.scale_left, at), to_left, v.left,
                           v.arc_left);
    });
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      const Vector<T> to_right = load(v.arc_right + at), to_left = load(v.arc_left + at), here = to_right + to_left;
      if (all_zero<T>(here)) return;
      p.write_arcs(marginals, d, s, to_right, to_left);
      visit_pairs<Lanes>(p.both(d, s), c.right, c.left, kept_at(c.top_both, c.scale_both, at), here, v.right, v.left);
    });
  }
}

template <class Lanes, class T>
inline void projective_tangent(const Projective<T>& p, T* memory, T* visits, const T* direction, T* scratch,
                               T* product) {
  const ProjectiveCharts<T> c(memory, p.each);
  const ArcCharts<T> v(visits, p.each);
  clear(scratch, 8 * p.each);
  const ArcCharts<T> moves(scratch, p.each), back(scratch + 4 * p.each, p.each);
  T *centre_both = scratch + 8 * p.each, *centre_right = scratch + 9 * p.each, *centre_left = scratch + 10 * p.each;
  clear(product, p.size * p.size);
  for (std::int64_t d = 1; d <= p.n; ++d) {
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      if (all_zero<T>(load(v.arc_right + at) + load(v.arc_left + at))) return;  // what is never visited does not matter
      Vector<T> to_right, to_left;
      p.arcs(direction, d, s, to_right, to_left);
      const Moved<T> moved = move_pairs<Lanes>(p.both(d, s), c.right, c.left, kept_at(c.top_both, c.scale_both, at),
                                               moves.right, moves.left);
      store(centre_both + at, moved.centre);
      store(moves.arc_right + at, moved.value + to_right);
      store(moves.arc_left + at, moved.value + to_left);
    });
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      if (!all_zero<T>(load(v.right + at))) {
        const Moved<T> moved = move_pairs<Lanes>(p.right(d, s), c.arc_right, c.right,
                                                 kept_at(c.top_right, c.scale_right, at), moves.arc_right, moves.right);
        store(centre_right + at, moved.centre);
        store(moves.right + at, moved.value);
      }
      if (!all_zero<T>(load(v.left + at))) {
        const Moved<T> moved = move_pairs<Lanes>(p.left(d, s), c.left, c.arc_left,
                                                 kept_at(c.top_left, c.scale_left, at), moves.left, moves.arc_left);
        store(centre_left + at, moved.centre);
        store(moves.left + at, moved.value);
      }
    });
  }
  for (std::int64_t d = p.n; d > 0; --d) {
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      const Vector<T> to_right = load(v.right + at), to_left = load(v.left + at);
      if (!all_zero<T>(to_right))
        revisit_pairs<Lanes>(p.right(d, s), c.arc_right, c.right, kept_at(c.top_right, c.scale_right, at), to_right,
                             load(back.right + at), load(centre_right + at), moves.arc_right, moves.right,
                             back.arc_right, back.right);
      if (!all_zero<T>(to_left))
        revisit_pairs<Lanes>(p.left(d, s), c.left, c.arc_left, kept_at(c.top_left, c.scale_left, at), to_left,
                             load(back.left + at), load(centre_left + at), moves.left, moves.arc_left, back.left,
                             back.arc_left);
    });
    p.each_start(d, [&](std::int64_t s) {
      const std::int64_t at = d * p.stride + s;
      const Vector<T> here = load(v.arc_right + at) + load(v.arc_left + at);
      if (all_zero<T>(here)) return;
      const Vector<T> to_right = load(back.arc_right + at), to_left = load(back.arc_left + at);
      p.write_arcs(product, d, s, to_right, to_left);
      revisit_pairs<Lanes>(p.both(d, s), c.right, c.left, kept_at(c.top_both, c.scale_both, at), here,
                           to_right + to_left, load(centre_both + at), moves.right, moves.left, back.right, back.left);
    });
  }
}

template <class T>
void run(const ProjectiveValue<T>& problem, std::int64_t begin, std::int64_t end) {
  const Scratch<T> x(problem.size * kLanes<T>);
  for (std::int64_t item = begin; item < end; ++item) {
    const Projective<T> p(problem.size, problem.lengths[item], problem.single_root);
    with_omega(problem.omega, [&](auto omega) {
      problem.value[item] = projective_value<decltype(omega)>(
          p, problem.scores + item * p.size * p.size, problem.charts + item * kProjectiveCharts * p.each, x.get());
    });
  }
}

template <class T>
void run(const ProjectiveMarginals<T>& problem, std::int64_t begin, std::int64_t end) {
  for (std::int64_t item = begin; item < end; ++item) {
    const Projective<T> p(problem.size, problem.lengths[item], problem.single_root);
    with_omega(problem.omega, [&](auto omega) {
      projective_marginals<decltype(omega)>(p, problem.charts + item * kProjectiveCharts * p.each,
                                            problem.visits + item * kProjectiveVisits * p.each,
                                            problem.marginals + item * p.size * p.size);
    });
  }
}

template <class T>
void run(const ProjectiveTangent<T>& problem, std::int64_t begin, std::int64_t end) {
  const Scratch<T> scratch(11 * problem.size * chart_stride(problem.size));
  for (std::int64_t item = begin; item < end; ++item) {
    const Projective<T> p(problem.size, problem.lengths[item], problem.single_root);
    with_omega(problem.omega, [&](auto omega) {
      projective_tangent<decltype(omega)>(
          p, problem.charts + item * kProjectiveCharts * p.each, problem.visits + item * kProjectiveVisits * p.each,
          problem.direction + item * p.size * p.size, scratch.get(), problem.product + item * p.size * p.size);
    });
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
