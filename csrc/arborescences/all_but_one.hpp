// Every word of a graph as the last one that elimination leaves, for the price of one inverse.
//
// Words are split in halves: one half is eliminated and the other one is treated alone, and so on down to one word.
// A visitor decides what is done with a word that is alone, and with what elimination left behind:
//
//     leaf(each, level, word)     the word is alone with the root; false to stop
//     settled(each, level)        the first half has been treated and is about to be eliminated
//     returned(each, level)       the words kept at this level have been treated; false to stop
#pragma once

#include "arborescences/tree_weights.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr int kMaxDepth = 64;

// One step of halving: `size` words from `first` on, of which `turn` have been moved from the front to the back. The
// first `keep` of the new order remain; row k of each other word holds its p.
struct Halved {
  Weights w;
  std::int64_t first, size, keep, turn;
  std::int64_t crown;  // the row of the word that became the top here; 0 where none did

  // The word in a row; row 0 is the root.
  std::int64_t word(std::int64_t row) const {
    return row == 0 ? 0 : first - 1 + row + (row <= size - turn ? turn : turn - size);
  }
};

template <class Field>
class AllButOne {
 public:
  using Number = typename Field::template Of<double>;

  explicit AllButOne(std::int64_t words)
      : reduction_(words), work_(total_size(words)), extents_(depth_of(words) * (words + 1)), room_(words + 1) {}

  // False where the numbers leave the range of the field.
  template <class Visitor>
  bool run(const Weights& original, std::int64_t words, bool grounded, Visitor& visitor) {
    std::int64_t n = words, offset = 0;
    for (int level = 0; level < kMaxDepth; ++level) {
      levels_[level].w = {work_.get() + offset, Weights::stride_of(n), Weights::plane_of(n)};
      offset += Field::kPlanes * Weights::plane_of(n);
      if (n <= 1) break;
      n = (n + 1) / 2;
    }
    return split(0, original, words, 1, grounded, visitor);
  }

  const Halved& level(int number) const { return levels_[number]; }
  const Extent& extent(int level, std::int64_t row) const { return extents_.get()[level * room_ + row]; }

 private:
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

  template <class Visitor>
  bool split(int level, const Weights& given, std::int64_t n, std::int64_t first, bool grounded, Visitor& visitor) {
    if (n == 1) return visitor.leaf(*this, level, first);
    const std::int64_t half = n / 2;
    return treat(level, given, n, half, 0, first, grounded, visitor) &&
           treat(level, given, n, n - half, half, first, grounded, visitor);
  }

  template <class Visitor>
  bool treat(int level, const Weights& given, std::int64_t n, std::int64_t keep, std::int64_t turn, std::int64_t first,
             bool grounded, Visitor& visitor) {
    Halved& at = levels_[level];
    at.first = first, at.size = n, at.keep = keep, at.turn = turn, at.crown = 0;
    copy(given, at);
    if (turn > 0) visitor.settled(*this, level);
    Number d;
    for (std::int64_t k = n; k > keep; --k) {
      Extent& extent = extents_.get()[level * room_ + k] = Extent{};
      const auto outcome = reduction_.eliminate(at.w, k, grounded, d, extent);
      if (outcome == Reduction<Field>::kDead || outcome == Reduction<Field>::kOutOfRange) return false;
      if (outcome == Reduction<Field>::kCrowned) at.crown = k;
    }
    return split(level + 1, at.w, keep, first + turn, grounded, visitor) && visitor.returned(*this, level);
  }

  static void copy(const Weights& from, const Halved& to) {
    const std::int64_t n = to.size, turn = to.turn, rest = n - turn;
    for (int part = 0; part < Field::kPlanes; ++part)
      for (std::int64_t h = 0; h <= n; ++h) {
        const double* x = from.row(h == 0 ? 0 : h <= rest ? h + turn : h - rest) + part * from.plane;
        double* y = to.w.row(h) + part * to.w.plane;
        const double zero = part == 0 ? Field::kZero : 0;
        y[0] = zero;
        for (std::int64_t m = 1; m <= rest; ++m) y[m] = x[m + turn];
        for (std::int64_t m = 1; m <= turn; ++m) y[rest + m] = x[m];
        for (std::int64_t m = n + 1; m < to.w.stride; ++m) y[m] = zero;
      }
  }

  Reduction<Field> reduction_;
  Scratch<double> work_;
  Scratch<Extent> extents_;
  std::int64_t room_;
  Halved levels_[kMaxDepth];
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
