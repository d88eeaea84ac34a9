// Elimination of the words of a weighted graph, one by one, without subtraction (Grassmann, Taksar & Heyman 1985).
//
// w[h, m] is the weight of the arc from head h to modifier m. Read as a random walk from words to their heads, a word k
// that is taken out is replaced by what the walk does until it is elsewhere:
//
//     d_k = sum over h of w[h, k]        p[h] = w[h, k] / d_k        w[h, m] += w[k, m] p[h]
//
// over the nodes that remain; the loops w[m, m] that arise are left out, because the diagonal of the Laplacian is not
// stored but summed anew. The sum over all trees is the product of the d_k: this is Gaussian elimination on the
// Laplacian of the matrix-tree theorem, where the diagonal entry is the sum of the others.
//
// With a single root its arcs count to first order only (a tree has one of them): d_k is the sum over words, and row 0
// is carried along by the same update. A word that no remaining word can be the head of has no such sum: it must be the
// top of the tree, and is the root from then on ("crowned"): its d_k is w[0, k], and the arcs from the root to other
// words are dropped.
#pragma once

#include "arborescences/semifield.hpp"
#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline std::int64_t whole_vectors(std::int64_t count) { return (count + 7) / 8 * 8; }  // no vector is longer than 8

// A matrix of numbers, row by row: row 0 is the root, the others are words; column 0 is empty.
struct Weights {
  double* at;
  std::int64_t stride, plane;
  double* row(std::int64_t h) const { return at + h * stride; }

  // An odd number of cache lines: rows a power of two apart would compete for the same places in the cache.
  static std::int64_t stride_of(std::int64_t words) { return whole_vectors(words + 1) | 8; }
  static std::int64_t plane_of(std::int64_t words) { return (words + 1) * stride_of(words); }
};

template <class Field>
class Reduction {
 public:
  using Number = typename Field::template Of<double>;
  using Numbers = typename Field::template Of<Doubles>;

  explicit Reduction(std::int64_t words) : width_(whole_vectors(words + 1)), column_(Field::kPlanes * width_) {}

  static Number at(const double* x, std::int64_t plane) { return number_at(x, plane, Number{}); }
  static Numbers vector_at(const double* x, std::int64_t plane) { return number_at(x, plane, Numbers{}); }

  // How the elimination of a word ended.
  enum Outcome { kDone, kCrowned, kDead, kOutOfRange };

  // Takes out word k, the last of those that remain; row k then holds p. `grounded`: the arcs of the root count in d.
  // `extent` receives what the p lie between.
  Outcome eliminate(const Weights& w, std::int64_t k, bool& grounded, Number& d, Extent& extent) const {
    double* p = column_.get();
    const std::int64_t padded = whole_vectors(k);
    for (int part = 0; part < Field::kPlanes; ++part) {
      const double* from = w.at + part * w.plane + k;
      double* to = p + part * width_;
      for (std::int64_t h = 0; h < k; ++h) to[h] = from[h * w.stride];
      for (std::int64_t h = k; h < padded; ++h) to[h] = part == 0 ? Field::kZero : 0;
    }
    const Number root = at(p, width_);
    put(p, width_, Field::constant(Field::kZero));
    const Number words = sum(p, width_, padded);
    put(p, width_, root);
    const bool crowned = !grounded && words.x == Field::kZero;
    d = crowned ? root : grounded ? Field::plus(words, root) : words;
    if (d.x == Field::kZero) return kDead;
    for (std::int64_t h = 0; h < padded; h += kLanes<double>)
      put(p + h, width_, Field::over(vector_at(p + h, width_), everywhere(d)));
    const double* row = w.row(k);
    if (!Field::kLog) {
      Extent weights;
      double* edge = w.row(k);
      for (std::int64_t m = k; m < padded; ++m) edge[m] = 0;
      weights.add(row, padded);
      extent.add(p, padded);
      if (!extent.allows(weights)) return kOutOfRange;
    }
    if (crowned) {
      for (std::int64_t m = 0; m < k; ++m) put(w.at + m, w.plane, Field::constant(Field::kZero));
      grounded = true;
    }
    std::int64_t m = 0;
    for (; m + 4 * kLanes<double> <= padded; m += 4 * kLanes<double>) spread<4>(w, k, m);
    for (; m < padded; m += kLanes<double>) spread<1>(w, k, m);
    for (int part = 0; part < Field::kPlanes; ++part)
      __builtin_memcpy(w.row(k) + part * w.plane, p + part * width_, padded * sizeof(double));
    return crowned ? kCrowned : kDone;
  }

  // sum of x[0..padded), a whole number of vectors.
  static Number sum(const double* x, std::int64_t plane, std::int64_t padded) {
    return sum_of([=](std::int64_t i) { return vector_at(x + i, plane); }, padded);
  }

  // sum of x y.
  static Number dot(const double* x, std::int64_t x_plane, const double* y, std::int64_t y_plane, std::int64_t padded) {
    return sum_of([=](std::int64_t i) { return Field::times(vector_at(x + i, x_plane), vector_at(y + i, y_plane)); },
                  padded);
  }

 private:
  template <class F>
  static Number sum_of(F term, std::int64_t padded) {
    Sum<Field> total;
    if (total.kTwice)
      for (std::int64_t i = 0; i < padded; i += kLanes<double>) total.see(term(i));
    for (std::int64_t i = 0; i < padded; i += kLanes<double>) total.add(term(i));
    return Field::total(total.result());
  }

  // Adds the arcs through word k to those of its heads, for `Vectors` vectors of modifiers from m on.
  template <int Vectors>
  void spread(const Weights& w, std::int64_t k, std::int64_t m) const {
    Numbers through[Vectors];
    for (int v = 0; v < Vectors; ++v) through[v] = vector_at(w.row(k) + m + v * kLanes<double>, w.plane);
    const double* p = column_.get();
    for (std::int64_t h = 0; h < k; ++h) {
      if (Field::kLog && p[h] == Field::kZero) continue;
      const Numbers share = everywhere(at(p + h, width_));
      double* to = w.row(h) + m;
      for (int v = 0; v < Vectors; ++v, to += kLanes<double>)
        put(to, w.plane, Field::plus(vector_at(to, w.plane), Field::times(share, through[v])));
    }
  }

  std::int64_t width_;
  Scratch<double> column_;
};

// The sum over all trees, eliminating in place; its logarithm goes to `log_sum`.
template <class Field>
inline bool log_total(const Reduction<Field>& reduction, const Weights& w, std::int64_t words, bool grounded,
                      double& log_sum) {
  typename Reduction<Field>::Number d;
  log_sum = 0;
  for (std::int64_t k = words; k > 0; --k) {
    Extent extent;
    switch (k > 1 ? reduction.eliminate(w, k, grounded, d, extent) : Reduction<Field>::kDone) {
      case Reduction<Field>::kDead: log_sum = -kInfinity<double>; return true;
      case Reduction<Field>::kOutOfRange: return false;
      default: break;
    }
    if (k == 1) d = Reduction<Field>::at(w.at + 1, w.plane);
    log_sum += Field::kLog ? d.x : log_of<double>(d.x);
  }
  return true;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
