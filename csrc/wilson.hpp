// A random arborescence with probability proportional to the product of its weights (Wilson 1996).
//
// From each word in turn a walk goes to heads at random until it meets the tree, and its path without loops joins the
// tree. The loops may take for ever (two words that are each other's only likely heads), so the steps are limited; when
// they are used up, the heads are drawn one after the other instead, each from its distribution given those before
// (each_last.hpp). The two together stay exact: a walk may be read as popping cycles off stacks of arcs, and which cycles
// are popped is independent of the tree below them, hence the number of steps is independent of the tree.
#pragma once

#include "each_last.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// A stream of random numbers from a seed (splitmix64; Steele, Lea & Flood 2014).
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : state_(seed) {}
  double uniform() {  // in [0, 1)
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// The first place where the sums exceed `level` of their total: never one that adds nothing.
inline std::int64_t place_of(const double* sums, std::int64_t count, double level) {
  const double target = level * sums[count - 1];
  std::int64_t low = 0, high = count - 1;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (sums[middle] > target) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Draws the heads of words 1..words, one by one, each from its distribution given those before.
template <class Field>
struct DrawingLeaf {
  using Number = typename Field::template Of<double>;
  const Weights& w;
  std::int64_t words;
  const double* levels;  // one per word: how far up the distribution its head is taken
  double* sums;
  std::int64_t* drawn;   // of every word, a row

  bool operator()(std::int64_t m, Number, const double* u, bool) {
    double top = 0, total = 0;
    if (Field::kLog) {
      top = Field::kZero;
      for (std::int64_t h = 0; h <= words; ++h) top = larger(score(h, m, u), top);
      if (top == Field::kZero) return false;
    }
    for (std::int64_t h = 0; h <= words; ++h) {
      const double x = score(h, m, u);
      total += Field::kLog ? exp_of<double>(x - top) : x;
      sums[h] = total;
    }
    if (!(total > 0)) return false;
    drawn[m] = place_of(sums, words + 1, levels[m]);
    return true;
  }

  // The words first..first + count - 1 have their heads: they lead there, and nowhere else.
  void settled(EachLast<Field>& each, int level, const Weights& to, std::int64_t first, std::int64_t count,
               std::int64_t keep) {
    const std::int64_t n = count + keep;
    for (std::int64_t i = 1; i <= count; ++i) {
      const double* reached = each.first_reached(drawn[first + i - 1], level);
      to.at[keep + i] = reached[0];
      for (std::int64_t h = 1; h <= n; ++h) to.row(h)[keep + i] = reached[h <= keep ? h + count : h - keep];
    }
  }

 private:
  double score(std::int64_t h, std::int64_t m, const double* u) const {
    if (h == m) return Field::kZero;
    return Field::times(Number{w.row(h)[m]}, Number{u[h]}).x;
  }
};

class TreeSampler {
 public:
  explicit TreeSampler(std::int64_t size)
      : logs_(size - 1), memory_(Weights::plane_of(size - 1)), sums_(size), levels_(size), drawn_(size), next_(size),
        names_(size), linear_(size - 1), logarithmic_(size - 1) {}

  // Loop-erased walks that end in `root`; false when the steps are used up.
  bool walk(const double* sums, std::int64_t size, std::int64_t n, std::int64_t root, std::int64_t max_steps,
            Stream& stream, std::int64_t* heads) {
    std::int64_t* next = next_.get();
    for (std::int64_t m = 0; m <= n; ++m) heads[m] = -1;
    for (std::int64_t start = 1; start <= n; ++start) {
      std::int64_t at = start;
      while (at != root && heads[at] < 0) {
        if (max_steps-- <= 0) return false;
        at = next[at] = place_of(sums + at * size, n + 1, stream.uniform());
      }
      for (at = start; at != root && heads[at] < 0; at = next[at]) heads[at] = next[at];
    }
    return true;
  }

  // One head after the other, given those before.
  template <class T>
  bool draw(const T* scores, std::int64_t size, std::int64_t n, std::int64_t root, Stream& stream,
            std::int64_t* heads) {
    std::int64_t words = 0;
    std::int64_t* names = names_.get();
    names[0] = root;
    for (std::int64_t m = 1; m <= n; ++m)
      if (m != root) names[++words] = m;
    for (std::int64_t m = 0; m <= n; ++m) heads[m] = -1;
    if (words == 0) return true;
    for (std::int64_t m = 1; m <= words; ++m) levels_.get()[m] = stream.uniform();
    if (logs_.read_named(scores, size, names, words) != Kind::kUsual) return false;
    if (!(logs_.fits_linear() && draw_in(linear_, words)) && !draw_in(logarithmic_, words)) return false;
    for (std::int64_t m = 1; m <= words; ++m) heads[names[m]] = names[drawn_.get()[m]];
    return true;
  }

 private:
  template <class Field>
  bool draw_in(EachLast<Field>& each, std::int64_t words) {
    const Weights w = logs_.weights<Field, double>(memory_.get(), nullptr, 0);
    DrawingLeaf<Field> leaf{w, words, levels_.get(), sums_.get(), drawn_.get()};
    return each.run(w, words, true, leaf);
  }

  LogWeights logs_;
  Scratch<double> memory_, sums_, levels_;
  Scratch<std::int64_t> drawn_, next_, names_;
  EachLast<Linear> linear_;
  EachLast<Log> logarithmic_;
};

template <class T>
void run(const ArborescenceSample<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = problem.size;
  TreeSampler sampler(size);
  for (std::int64_t sample = begin; sample < end; ++sample) {
    const std::int64_t item = sample % problem.items, n = problem.lengths[item], root = problem.roots[sample];
    std::int64_t* heads = problem.heads + sample * size;
    for (std::int64_t m = 0; m < size; ++m) heads[m] = -1;
    if (root < 0) continue;
    Stream stream(static_cast<std::uint64_t>(problem.seeds[sample]));
    if (sampler.walk(problem.levels + item * size * size, size, n, root, problem.max_steps, stream, heads)) continue;
    if (!sampler.draw(problem.scores + item * size * size, size, n, root, stream, heads))
      for (std::int64_t m = 0; m < size; ++m) heads[m] = -1;
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
