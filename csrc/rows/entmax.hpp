// Entmax rows of any order alpha >= 1 (Tsallis regularization; Blondel, Martins & Niculae, 2019).
#pragma once

#include "core/problems.hpp"
#include "rows/centred.hpp"
#include "rows/entmax_above_two.hpp"
#include "rows/entmax_below_two_panel.hpp"
#include "rows/panel.hpp"
#include "rows/softmax.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Sparsemax is the threshold problem of order one.
template <class T>
void run(const Sparsemax<T>& problem, std::int64_t begin, std::int64_t end) {
  threshold_rows<Linear>(problem.scores, problem.weights, problem.value, problem.columns, begin, end);
}

// Centres the direction on the support: a slope of one.
template <class T>
void run(const SparsemaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  centred_rows(problem, begin, end, UnitSlope());
}

template <class T>
inline void entmax_row(const T* x, double alpha, T* weights, T* value, std::int64_t n, T* peaks, T* candidates) {
  if (!(alpha >= 1) || alpha == kInfinity<double>) return fill_unusual(true, weights, value, n);
  const double e = alpha - 1;
  if (e == 0) softmax_row(x, weights, value, n, peaks);
  else if (e == 0.5) threshold_row<Square>(x, weights, value, n, peaks, candidates);
  else if (e < 1) below_two_row(x, e, weights, value, n, peaks, candidates);
  else if (e == 1) threshold_row<Linear>(x, weights, value, n, peaks, candidates);
  else above_two_row(x, e, weights, value, n, peaks, candidates);
}

template <class T>
void run(const Entmax<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  if (problem.alphas == nullptr && problem.alpha == 1.5)
    return threshold_rows<Square>(problem.scores, problem.weights, problem.value, n, begin, end);
  if (problem.alphas == nullptr && problem.alpha == 2)
    return threshold_rows<Linear>(problem.scores, problem.weights, problem.value, n, begin, end);
  Buffer buffer(Buffer::size<T>(peaks_size<T>(n)) + Buffer::size<T>(candidates_size<T>(n) + peaks_size<T>(n)));
  T* peaks = buffer.take<T>(peaks_size<T>(n));
  T* candidates = buffer.take<T>(candidates_size<T>(n) + peaks_size<T>(n));
  const auto alpha_of = [&](std::int64_t row) {
    return problem.alphas != nullptr ? problem.alphas[row] : problem.alpha;
  };
  const auto one_row = [&](std::int64_t row) {
    T unwanted, *value = problem.value != nullptr ? problem.value + row : &unwanted;
    entmax_row(problem.scores + row * n, alpha_of(row), problem.weights + row * n, value, n, peaks, candidates);
  };
  if (!kHasPanels || n > kPanelColumns) {
    for (std::int64_t row = begin; row < end; ++row) one_row(row);
    return;
  }
  // Which rows are solved in lockstep depends on their own order only, not on their neighbours; and a row of order
  // 1.5 or 2 is solved in the same way as where all rows have that order.
  const auto in_panel = [](double alpha) { return alpha > 1 && alpha < 2 && alpha != 1.5; };
  EntmaxPanel<T> panel(n);
  for (std::int64_t first = begin; first < end; first += kLanes<T>) {
    const std::int64_t count = end - first < kLanes<T> ? end - first : std::int64_t(kLanes<T>);
    double es[kLanes<T>];
    bool any = false;
    for (std::int64_t lane = 0; lane < kLanes<T>; ++lane) {
      const double alpha = lane < count ? alpha_of(first + lane) : 1;
      es[lane] = in_panel(alpha) ? alpha - 1 : 0.25;
      any |= in_panel(alpha);
    }
    if (any)
      panel.run(problem.scores + first * n, problem.weights + first * n,
                problem.value != nullptr ? problem.value + first : nullptr, count, es);
    for (std::int64_t row = first; row < first + count; ++row) {
      const double alpha = alpha_of(row);
      if (alpha == 1.5) threshold_rows<Square>(problem.scores, problem.weights, problem.value, n, row, row + 1);
      else if (alpha == 2) threshold_rows<Linear>(problem.scores, problem.weights, problem.value, n, row, row + 1);
      else if (!in_panel(alpha)) one_row(row);
    }
  }
}

template <class T>
struct PowerSlope {
  static constexpr bool kCheap = false;
  Vector<T> order;
  Vector<T> operator()(Vector<T> weights) const { return Good::power(weights, order); }
};

// J = diag(s) - s s'/(1's), s = p^(2 - alpha) on the support.
template <class T, class Support>
inline void entmax_product_row(const T* p, const T* v, double alpha, T* out, std::int64_t n, Support support) {
  if (!(alpha >= 1) || alpha == kInfinity<double>) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = kNaN<T>;
  } else if (alpha == 1) {
    softmax_product_row(p, v, out, n);
  } else if (alpha == 1.5) {
    centred_row(p, v, out, n, support, RootSlope());
  } else if (alpha == 2) {
    centred_row(p, v, out, n, support, UnitSlope());
  } else if (alpha < 2) {
    centred_row(p, v, out, n, support, PowerSlope<T>{splat(static_cast<T>(2 - alpha))});
  } else {
    above_two_product_row(p, v, alpha, out, n);
  }
}

template <class T>
void run(const EntmaxProduct<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = problem.columns;
  if (problem.alphas == nullptr && problem.alpha == 1.5) return centred_rows(problem, begin, end, RootSlope());
  if (problem.alphas == nullptr && problem.alpha == 2) return centred_rows(problem, begin, end, UnitSlope());
  if (problem.alphas == nullptr && problem.alpha > 1 && problem.alpha < 2)
    return centred_rows(problem, begin, end, PowerSlope<T>{splat(static_cast<T>(2 - problem.alpha))});
  Supports<T> supports(n);
  supports.each(problem.weights, problem.direction, problem.product, begin, end, [&](std::int64_t row, auto support) {
    entmax_product_row(problem.weights + row * n, problem.direction + row * n,
                       problem.alphas != nullptr ? problem.alphas[row] : problem.alpha, problem.product + row * n, n,
                       support);
  });
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
