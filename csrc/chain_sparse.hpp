// Chains under the squared norm (q = 1) and Tsallis' entropy of order 1.5 (q = 2): every node solves the threshold
// problem of threshold.hpp over the tags before it,
//
//     p = (y - tau)_+^q,  sum p = 1,      y_i = (b_i + matrix_ij - top_j)/q.
//
// The first sweep solves a vector of columns in lockstep. So do the others where every place has a matrix of its own
// (chain_sparse_dense.hpp); where all share one (chain_sparse_factored.hpp) they visit few nodes, each as a row.
#pragma once

#include "chain_item.hpp"
#include "threshold.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// max_Omega from the dual function, whose slope is zero at tau: an error in tau hardly matters.
template <class Power, class V>
inline V dual_value(V top, V tau, V moment) {
  using T = typename Traits<V>::Number;
  constexpr T q = T(Power::kOrder);
  return top + (q * tau + (moment + q) * T(q / (q + 1)));
}

// A row of scores: top, tau and the value.
template <class Power, class T>
struct SparseRow {
  T top, tau, value;

  SparseRow(const T* y, std::int64_t width) : top(largest_of_row(y, width)), tau(-1), value(top) {
    if (!(top > -kInfinity<T>)) return;
    constexpr T scale = T(1 / Power::kOrder);
    const Vector<T> one = splat(T(1));
    for (;;) {
      Vector<T> sum{}, slope{}, moment{};
      for (std::int64_t i = 0; i < width; i += kLanes<T>) {
        const Vector<T> z = larger((load(y + i) - top) * scale - tau, Vector<T>{});
        sum += Power::weight(z);
        slope += Power::slope(z, one);
        moment += Power::weight(z) * z;
      }
      const T step = Power::step(sum_lanes<T>(sum), sum_lanes<T>(slope));
      value = dual_value<Power>(top, tau, sum_lanes<T>(moment));
      tau += step;
      if (!(step > 2 * std::numeric_limits<T>::epsilon() * -tau)) return;
    }
  }
};

// The K largest of each lane, in order.
template <class T, int K>
struct Best {
  Vector<T> rank[K];
  Best() {
    for (int k = 0; k < K; ++k) rank[k] = splat(-kInfinity<T>);
  }
  void add(Vector<T> y) {
    for (int k = 0; k < K; ++k) {
      const Vector<T> above = larger(rank[k], y);
      if (k + 1 < K) y = smaller(rank[k], y);
      rank[k] = above;
    }
  }
  static Vector<T> smaller(Vector<T> a, Vector<T> b) {
#if defined(__AVX512F__)  // the compiler does not find this instruction in a choice between vectors
    if constexpr (sizeof(T) == 4) return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
    else return (Doubles)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
    else return (Doubles)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    return a < b ? a : b;
#endif
  }
};

template <class Power>
struct SparseLocal {
  template <class T>
  static void solve(const T* b, const T* matrix, std::int64_t tags, std::int64_t width, T* u, T* level) {
    for (std::int64_t j = 0; j < width; j += kLanes<T>)
      solve_block(b, matrix + j, tags, width, u + j, level + j);
  }
  template <class T>
  static T last(const T* y, std::int64_t width) { return SparseRow<Power, T>(y, width).value; }

 private:
  // Some of the scores have a threshold below that of all of them. The few largest usually are the support, and then
  // it is the same; Newton's method does the rest.
  template <class T>
  static void solve_block(const T* b, const T* matrix, std::int64_t tags, std::int64_t width, T* u, T* level) {
    constexpr bool linear = Power::kOrder == 1;
    constexpr int kBest = linear ? 6 : 1;
    constexpr T scale = T(1 / Power::kOrder);
    Best<T, kBest> best;
    for (std::int64_t i = 0; i < tags; ++i) best.add(b[i] + load(matrix + i * width));
    const Vector<T> zero{}, one = splat(T(1)), top = best.rank[0];
    const Vector<T> safe = top > splat(-kInfinity<T>) ? top : zero;
    Vector<T> tau = -one, moment{};
    if constexpr (linear) {
      Vector<T> sum = -one;
      for (int k = 1; k < kBest; ++k) {
        sum += best.rank[k] - safe;
        tau = larger(sum * T(1.0 / (k + 1)), tau);
      }
      for (int k = 0; k < kBest; ++k) {
        const Vector<T> z = larger((k ? best.rank[k] - safe : zero) - tau, zero);
        moment += z * z;
      }
    }
    if (!linear || where_greater(best.rank[kBest - 1] - safe, tau) != 0) {
      for (;;) {
        Vector<T> sum{}, slope{};
        moment = zero;
        for (std::int64_t i = 0; i < tags; ++i) {
          const Vector<T> z = larger(((b[i] + load(matrix + i * width)) - safe) * scale - tau, zero);
          sum += Power::weight(z);
          slope += Power::slope(z, one);
          moment += Power::weight(z) * z;
        }
        const Vector<T> step = Power::step(sum, slope);  // NaN where there is nothing to choose
        const unsigned moves = where_greater(step, 2 * std::numeric_limits<T>::epsilon() * -tau);
        tau = step == step ? tau + step : tau;
        if (moves == 0) break;
      }
    }
    store(u, dual_value<Power>(top, tau, moment));
    store(level, tau);
  }
};

// The local weights of a row of scores b + column, and s, the slopes of the weights: J = diag(s) - s s' / sum s.
template <class Power, class T>
inline void weigh_row(const T* b, const T* column, T tau, std::int64_t width, T* p, T* s) {
  constexpr T scale = T(1 / Power::kOrder);
  const Vector<T> one = splat(T(1));
  Vector<T> tops = splat(-kInfinity<T>);
  for (std::int64_t i = 0; i < width; i += kLanes<T>) {
    const Vector<T> y = load(b + i) + load(column + i);
    store(p + i, y);
    tops = larger(y, tops);
  }
  const T top = largest_lane<T>(tops);
  for (std::int64_t i = 0; i < width; i += kLanes<T>) {
    Vector<T> z = larger((load(p + i) - top) * scale - tau, Vector<T>{});
    if (!(top > -kInfinity<T>)) z = Vector<T>{};
    store(p + i, Power::weight(z));
    if (s) store(s + i, Power::slope(z, one));
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
