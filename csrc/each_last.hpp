// Every word of a graph as the last one that elimination leaves, for the price of one inverse.
//
// Words are split in halves: one half is eliminated and the other one is treated alone, and so on down to one word. At
// each of them the probabilities u[h] that the walk from h reaches the root before this word follow from the p of the
// eliminated words, the last one first: u[k] = sum over h of p_k[h] u[h], with u[0] = 1 and u[word] = 0.
#pragma once

#include "tree_weights.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr int kMaxDepth = 64;

// Visits every word when it is the last one left; `Leaf` is called as leaf(word, final weight, u, crowned) and returns
// false to stop. Where it draws a head it says so, and the word is then eliminated with this head alone.
template <class Field>
class EachLast {
 public:
  using Number = typename Field::template Of<double>;

  explicit EachLast(std::int64_t words)
      : reduction_(words),
        width_(whole_vectors(words + 1)),
        reached_(Field::kPlanes * width_),
        turned_(Field::kPlanes * width_),
        spare_(width_),
        work_(total_size(words)),
        extents_(depth_of(words) * (words + 1)) {}

  // False where the numbers leave the range of the field.
  template <class Leaf>
  bool run(const Weights& original, std::int64_t words, bool grounded, Leaf& leaf) {
    std::int64_t n = words, offset = 0;
    for (int level = 0; level < kMaxDepth; ++level) {
      levels_[level].w = {work_.get() + offset, Weights::stride_of(n), Weights::plane_of(n)};
      offset += Field::kPlanes * Weights::plane_of(n);
      if (n <= 1) break;
      n = (n + 1) / 2;
    }
    words_ = words;
    return split(0, original, words, 1, grounded, {}, leaf);
  }

  // Where a word goes first among the nodes of `level` (as its weights were given) and the root, if it starts in `node`
  // (0..words): adds up to one.
  const double* first_reached(std::int64_t node, int level) {
    double* c = turned_.get();
    fill(c, Field::kZero);
    put(c + node, width_, Field::constant(Field::kOne));
    for (int l = 0; l < level; ++l) {
      const Level& at = levels_[l];
      rotate(c, at.size, at.turn);
      for (std::int64_t k = at.size; k > at.keep; --k) {
        const Number weight = Reduction<Field>::at(c + k, width_);
        put(c + k, width_, Field::constant(Field::kZero));
        if (weight.x == Field::kZero) continue;
        for (std::int64_t h = 0; h < k; ++h)
          put(c + h, width_, Field::plus(Reduction<Field>::at(c + h, width_),
                                         Field::times(weight, Reduction<Field>::at(at.w.row(k) + h, at.w.plane))));
      }
    }
    return c;
  }
  std::int64_t width() const { return width_; }

 private:
  struct Level {
    Weights w;
    std::int64_t size, keep, turn;  // `turn` words have been moved from the front to the back
  };
  struct Crown {
    int level = -1;  // where the top of a tree with a single root was found, if it was
    std::int64_t position = 0;
  };

  static int depth_of(std::int64_t words) {
    int depth = 1;
    for (std::int64_t n = words; n > 1; n = (n + 1) / 2) ++depth;
    return depth;
  }
  static std::int64_t total_size(std::int64_t words) {
    std::int64_t total = 0, n = words;
    for (int level = 0; level < kMaxDepth; ++level) {
      total += Field::kPlanes * Weights::plane_of(n);
      if (n <= 1) break;
      n = (n + 1) / 2;
    }
    return total;
  }

  void fill(double* x, double value) const {
    for (std::int64_t i = 0; i < width_; ++i) x[i] = value;
    for (std::int64_t i = width_; i < Field::kPlanes * width_; ++i) x[i] = 0;
  }

  // Moves the first `turn` of the words 1..size behind the others.
  void rotate(double* x, std::int64_t size, std::int64_t turn) const {
    if (turn == 0) return;
    for (int part = 0; part < Field::kPlanes; ++part, x += width_) {
      double* other = spare_.get();
      for (std::int64_t i = 1; i <= size; ++i) other[i] = x[1 + (i - 1 + turn) % size];
      for (std::int64_t i = 1; i <= size; ++i) x[i] = other[i];
    }
  }

  template <class Leaf>
  bool split(int level, const Weights& given, std::int64_t n, std::int64_t first, bool grounded, Crown crown,
             Leaf& leaf) {
    if (n == 1) {
      if (!reach(level, crown)) return false;
      return leaf(first, Reduction<Field>::at(given.at + 1, given.plane), reached_.get(), crown.level >= 0);
    }
    const std::int64_t half = n / 2;
    return treat(level, given, n, half, 0, first, grounded, crown, leaf) &&
           treat(level, given, n, n - half, half, first, grounded, crown, leaf);
  }

  // Keeps `keep` words from `first + turn` on, eliminates the others, and goes on with those kept.
  template <class Leaf>
  bool treat(int level, const Weights& given, std::int64_t n, std::int64_t keep, std::int64_t turn,
             std::int64_t first, bool grounded, Crown crown, Leaf& leaf) {
    Level& at = levels_[level];
    at.size = n, at.keep = keep, at.turn = turn;
    copy(given, at);
    if (turn > 0) leaf.settled(*this, level, at.w, first, turn, keep);
    Number d;
    for (std::int64_t k = n; k > keep; --k) {
      Extent& extent = extents_.get()[level * (words_ + 1) + k] = Extent{};
      const auto outcome = reduction_.eliminate(at.w, k, grounded, d, extent);
      if (outcome == Reduction<Field>::kDead || outcome == Reduction<Field>::kOutOfRange) return false;
      if (outcome == Reduction<Field>::kCrowned) crown = {level, k};
    }
    return split(level + 1, at.w, keep, first + turn, grounded, crown, leaf);
  }

  void copy(const Weights& from, const Level& to) const {
    const std::int64_t n = to.size, turn = to.turn, rest = n - turn;
    for (int part = 0; part < Field::kPlanes; ++part)
      for (std::int64_t h = 0; h <= n; ++h) {
        const double* x = from.row(h == 0 ? 0 : h <= rest ? h + turn : h - rest) + part * from.plane;
        double* y = to.w.row(h) + part * to.w.plane;
        const double zero = part == 0 ? Field::kZero : 0;
        y[0] = zero;
        __builtin_memcpy(y + 1, x + 1 + turn, rest * sizeof(double));
        __builtin_memcpy(y + 1 + rest, x + 1, turn * sizeof(double));
        for (std::int64_t m = n + 1; m < to.w.stride; ++m) y[m] = zero;
      }
  }

  // u of every word, the path of halves down to the last word being known.
  bool reach(int depth, const Crown& crown) {
    double* u = reached_.get();
    fill(u, Field::kZero);
    put(u, width_, Field::constant(Field::kOne));
    Extent extent;
    extent.add(1, 1);
    for (int level = depth - 1; level >= 0; --level) {
      const Level& at = levels_[level];
      for (std::int64_t k = at.keep + 1; k <= at.size; ++k) {
        double* p = at.w.row(k);
        // Before the top was found the root was out of reach: to first order, its share is none.
        const bool early = crown.level > level || (crown.level == level && k > crown.position);
        const Number root = Reduction<Field>::at(p, at.w.plane);
        if (early) put(p, at.w.plane, Field::constant(Field::kZero));
        const Number found = Reduction<Field>::dot(p, at.w.plane, u, width_, whole_vectors(k));
        put(p, at.w.plane, root);
        put(u + k, width_, found);
        if (!Field::kLog) {
          if (!extents_.get()[level * (words_ + 1) + k].allows(extent)) return false;
          if (found.x != Field::kZero) extent.add(found.x, found.x);
        }
      }
      rotate(u, at.size, at.turn == 0 ? 0 : at.size - at.turn);
    }
    return true;
  }

  Reduction<Field> reduction_;
  std::int64_t width_, words_ = 0;
  Scratch<double> reached_, turned_, spare_, work_;
  Scratch<Extent> extents_;
  Level levels_[kMaxDepth];
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
