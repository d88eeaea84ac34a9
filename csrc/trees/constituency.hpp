// Binary trees with labelled spans (CKY), one item per call; charts of charts.hpp.
//
//     s[i, j] = max over k of v[i, k] + v[k + 1, j],   s[i, i] = 0
//     v[i, j] = max over l of score[i, j, l] + s[i, j]
//
// A maximum that is smoothed shifts with its scores, so the labels are solved on their own and added.
#pragma once

#include "core/problems.hpp"
#include "trees/charts.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr std::int64_t kConstituencyCharts = 5;  // v; what is kept of splits; what is kept of labels

template <class T>
struct ConstituencyCharts {
  T *value, *top_split, *scale_split, *top_label, *scale_label;
  ConstituencyCharts(T* memory, std::int64_t each)
      : value(memory), top_split(memory + each), scale_split(memory + 2 * each), top_label(memory + 3 * each),
        scale_label(memory + 4 * each) {}
};

template <class T>
struct Constituency {
  std::int64_t size, n, labels, stride, each;  // words of the batch, words of the item
  Constituency(std::int64_t size_, std::int64_t n_, std::int64_t labels_)
      : size(size_), n(n_), labels(labels_), stride(chart_stride(size_)), each(size_ * chart_stride(size_)) {}

  Pairs<T> splits(std::int64_t d, std::int64_t i) const { return {i, (d - 1) * stride + i + 1, stride, d, false}; }

  template <class F>
  void each_start(std::int64_t d, F f) const {
    for (std::int64_t i = 0; i + d < n; i += kLanes<T>) f(i);
  }
  std::int64_t lanes(std::int64_t d, std::int64_t i) const {
    const std::int64_t rest = n - d - i;
    return rest < kLanes<T> ? rest : kLanes<T>;
  }
  std::int64_t cell(std::int64_t d, std::int64_t i) const { return (i * size + i + d) * labels; }

  // The labels of neighbouring spans, transposed: kLanes per label.
  void read(const T* scores, std::int64_t d, std::int64_t i, T* x) const {
    const std::int64_t count = lanes(d, i);
    if (count < kLanes<T>) clear(x, labels * kLanes<T>);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const T* from = scores + cell(d, i + lane);
      for (std::int64_t l = 0; l < labels; ++l) x[l * kLanes<T> + lane] = from[l];
    }
  }
  void write(T* scores, std::int64_t d, std::int64_t i, const T* x) const {
    const std::int64_t count = lanes(d, i);
    for (std::int64_t lane = 0; lane < count; ++lane) {
      T* to = scores + cell(d, i + lane);
      for (std::int64_t l = 0; l < labels; ++l) to[l] = x[l * kLanes<T> + lane];
    }
  }
};

template <class Lanes, class T>
inline Vector<T> solve_labels(const Constituency<T>& p, const ConstituencyCharts<T>& c, const T* labels, T* x,
                              std::int64_t at) {
  if (p.labels == 1) {
    const Vector<T> only = load(labels);
    return only < splat(kInfinity<T>) ? only : splat(kNaN<T>);
  }
  Kept<T> kept;
  const Vector<T> value =
      Lanes::template solve<T>([&](std::int64_t l) { return load(labels + l * kLanes<T>); }, p.labels, x, kept);
  store(c.top_label + at, kept.top);
  store(c.scale_label + at, kept.scale);
  return value;
}

template <class Lanes, class T>
inline T constituency_value(const Constituency<T>& p, const T* scores, T* memory, T* labels, T* x) {
  const ConstituencyCharts<T> c(memory, p.each);
  clear(c.value, p.each);
  for (std::int64_t d = 0; d < p.n; ++d)
    p.each_start(d, [&](std::int64_t i) {
      const std::int64_t at = d * p.stride + i;
      p.read(scores, d, i, labels);
      Vector<T> value = solve_labels<Lanes>(p, c, labels, x, at);
      if (d > 0) value += solve_pairs<Lanes>(p.splits(d, i), c.value, c.value, x, c.top_split, c.scale_split, at);
      store(c.value + at, value);
    });
  return c.value[(p.n - 1) * p.stride];
}

template <class Lanes, class T>
inline void constituency_marginals(const Constituency<T>& p, const T* scores, T* memory, T* visits, T* labels,
                                   T* marginals) {
  const ConstituencyCharts<T> c(memory, p.each);
  clear(visits, p.each);
  clear(marginals, p.size * p.size * p.labels);
  const T value = c.value[(p.n - 1) * p.stride];
  visits[(p.n - 1) * p.stride] = value != value ? value : value > -kInfinity<T> ? T(1) : T(0);
  for (std::int64_t d = p.n - 1; d >= 0; --d)
    p.each_start(d, [&](std::int64_t i) {
      const std::int64_t at = d * p.stride + i;
      const Vector<T> here = load(visits + at);
      if (all_zero<T>(here)) return;
      if (p.labels == 1) {
        store(labels, here);
      } else {
        p.read(scores, d, i, labels);
        const Kept<T> kept = kept_at(c.top_label, c.scale_label, at);
        for (std::int64_t l = 0; l < p.labels; ++l) {
          const Vector<T> q = Lanes::weight(load(labels + l * kLanes<T>), l, kept);
          store(labels + l * kLanes<T>, zero_unless<T>(here, q * here));
        }
      }
      p.write(marginals, d, i, labels);
      if (d > 0)
        visit_pairs<Lanes>(p.splits(d, i), c.value, c.value, kept_at(c.top_split, c.scale_split, at), here, visits,
                           visits);
    });
}

// `scratch`: the derivative of values and of visits, then the centres of splits and of labels.
template <class Lanes, class T>
inline void constituency_tangent(const Constituency<T>& p, const T* scores, T* memory, const T* visits,
                                 const T* direction, T* scratch, T* labels, T* along, T* product) {
  const ConstituencyCharts<T> c(memory, p.each);
  T *moves = scratch, *back = scratch + p.each, *centres = scratch + 2 * p.each, *label_centres = scratch + 3 * p.each;
  clear(scratch, 2 * p.each);
  clear(product, p.size * p.size * p.labels);
  for (std::int64_t d = 0; d < p.n; ++d)
    p.each_start(d, [&](std::int64_t i) {
      const std::int64_t at = d * p.stride + i;
      if (all_zero<T>(load(visits + at))) return;  // what is never visited does not matter
      p.read(direction, d, i, along);
      Vector<T> value = load(along);
      if (p.labels > 1) {
        p.read(scores, d, i, labels);
        const Kept<T> kept = kept_at(c.top_label, c.scale_label, at);
        const Moved<T> moved = Lanes::template moved<T>(
            [&](std::int64_t l) { return Lanes::weight(load(labels + l * kLanes<T>), l, kept); },
            [&](std::int64_t l) { return load(along + l * kLanes<T>); }, p.labels);
        store(label_centres + at, moved.centre);
        value = moved.value;
      }
      if (d > 0) {
        const Moved<T> moved =
            move_pairs<Lanes>(p.splits(d, i), c.value, c.value, kept_at(c.top_split, c.scale_split, at), moves, moves);
        store(centres + at, moved.centre);
        value += moved.value;
      }
      store(moves + at, value);
    });
  for (std::int64_t d = p.n - 1; d >= 0; --d)
    p.each_start(d, [&](std::int64_t i) {
      const std::int64_t at = d * p.stride + i;
      const Vector<T> here = load(visits + at), moved_here = load(back + at);
      if (all_zero<T>(here)) return;
      if (p.labels == 1) {
        store(labels, moved_here);
      } else {
        p.read(scores, d, i, labels);
        p.read(direction, d, i, along);
        const Kept<T> kept = kept_at(c.top_label, c.scale_label, at);
        const Vector<T> centre = load(label_centres + at);
        for (std::int64_t l = 0; l < p.labels; ++l) {
          const Vector<T> q = Lanes::weight(load(labels + l * kLanes<T>), l, kept);
          const Vector<T> moved = Lanes::template moved_weight<T>(q, load(along + l * kLanes<T>), centre);
          store(labels + l * kLanes<T>, zero_unless<T>(here, moved * here + q * moved_here));
        }
      }
      p.write(product, d, i, labels);
      if (d > 0)
        revisit_pairs<Lanes>(p.splits(d, i), c.value, c.value, kept_at(c.top_split, c.scale_split, at), here,
                             moved_here, load(centres + at), moves, moves, back, back);
    });
}

template <class T>
void run(const ConstituencyValue<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t longest = problem.size > problem.labels ? problem.size : problem.labels;
  const Scratch<T> labels(problem.labels * kLanes<T>), x(longest * kLanes<T>);
  for (std::int64_t item = begin; item < end; ++item) {
    const Constituency<T> p(problem.size, problem.lengths[item], problem.labels);
    with_omega(problem.omega, [&](auto omega) {
      problem.value[item] = constituency_value<decltype(omega)>(p, problem.scores + item * p.size * p.size * p.labels,
                                                                problem.charts + item * kConstituencyCharts * p.each,
                                                                labels.get(), x.get());
    });
  }
}

template <class T>
void run(const ConstituencyMarginals<T>& problem, std::int64_t begin, std::int64_t end) {
  const Scratch<T> labels(problem.labels * kLanes<T>);
  for (std::int64_t item = begin; item < end; ++item) {
    const Constituency<T> p(problem.size, problem.lengths[item], problem.labels);
    const std::int64_t cells = item * p.size * p.size * p.labels;
    with_omega(problem.omega, [&](auto omega) {
      constituency_marginals<decltype(omega)>(p, problem.scores + cells,
                                              problem.charts + item * kConstituencyCharts * p.each,
                                              problem.visits + item * p.each, labels.get(), problem.marginals + cells);
    });
  }
}

template <class T>
void run(const ConstituencyTangent<T>& problem, std::int64_t begin, std::int64_t end) {
  const Scratch<T> labels(problem.labels * kLanes<T>), along(problem.labels * kLanes<T>);
  const Scratch<T> scratch(4 * problem.size * chart_stride(problem.size));
  for (std::int64_t item = begin; item < end; ++item) {
    const Constituency<T> p(problem.size, problem.lengths[item], problem.labels);
    const std::int64_t cells = item * p.size * p.size * p.labels;
    with_omega(problem.omega, [&](auto omega) {
      constituency_tangent<decltype(omega)>(p, problem.scores + cells,
                                            problem.charts + item * kConstituencyCharts * p.each,
                                            problem.visits + item * p.each, problem.direction + cells, scratch.get(),
                                            labels.get(), along.get(), problem.product + cells);
    });
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
