// A random arborescence with probability proportional to the product of its weights (Wilson 1996).
//
// From each word in turn a walk goes to heads at random until it meets the tree, and its path without loops joins the
// tree. The loops may take for ever (two words that are each other's only likely heads), so the steps are limited; when
// they are used up, the heads are drawn one after the other instead, each from its distribution given those before
// (all_but_one.hpp). The two together stay exact: a walk may be read as popping cycles off stacks of arcs, and which
// cycles are popped is independent of the tree below them, hence the number of steps is independent of the tree.
#pragma once

#include "arborescences/all_but_one.hpp"

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
class Drawing {
 public:
  using Number = typename Field::template Of<double>;

  explicit Drawing(std::int64_t words)
      : width_(whole_vectors(words + 1)), reached_(width_), passed_(width_), spare_(width_), sums_(width_) {}

  // `levels`: how far up its distribution the head of each word is taken; `drawn` receives the heads.
  void start(const Weights& w, std::int64_t words, const double* levels, std::int64_t* drawn) {
    w_ = w, words_ = words, levels_ = levels, drawn_ = drawn;
  }

  bool leaf(const AllButOne<Field>& each, int depth, std::int64_t word) {
    if (!reach(each, depth)) return false;
    double top = 0, total = 0;
    if (Field::kLog) {
      top = Field::kZero;
      for (std::int64_t h = 0; h <= words_; ++h) top = larger(score(h, word), top);
      if (top == Field::kZero) return false;
    }
    for (std::int64_t h = 0; h <= words_; ++h) {
      const double x = score(h, word);
      total += Field::kLog ? exp_of<double>(x - top) : x;
      sums_.get()[h] = total;
    }
    if (!(total > 0)) return false;
    drawn_[word] = place_of(sums_.get(), words_ + 1, levels_[word]);
    return true;
  }

  // The words of the first half have heads now: a walk goes from each to its head, and nowhere else.
  void settled(const AllButOne<Field>& each, int level) {
    const Halved& at = each.level(level);
    for (std::int64_t k = at.keep + 1; k <= at.size; ++k) {
      pass(each, level, drawn_[at.word(k)]);
      for (std::int64_t h = 0; h <= at.size; ++h) at.w.row(h)[k] = passed_.get()[at.word(h)];
    }
  }

  bool returned(const AllButOne<Field>&, int) { return true; }

 private:
  double score(std::int64_t h, std::int64_t m) const {
    return h == m ? Field::kZero : Field::times(Number{w_.row(h)[m]}, Number{reached_.get()[h]}).x;
  }

  // u of every node: the probability to reach the root before the word that is left. Indexed by words; a level sees
  // them through its order.
  bool reach(const AllButOne<Field>& each, int depth) {
    double *u = reached_.get(), *local = spare_.get();
    for (std::int64_t i = 0; i < width_; ++i) u[i] = Field::kZero;
    u[0] = Field::kOne;
    Extent extent;
    extent.add(1, 1);
    for (int level = depth - 1; level >= 0; --level) {
      const Halved& at = each.level(level);
      for (std::int64_t h = 0; h < whole_vectors(at.size + 1); ++h)
        local[h] = h <= at.keep ? u[at.word(h)] : Field::kZero;
      for (std::int64_t k = at.keep + 1; k <= at.size; ++k) {
        if (!Field::kLog && !each.extent(level, k).allows(extent)) return false;
        const Number found = Reduction<Field>::dot(at.w.row(k), 0, local, 0, whole_vectors(k));
        u[at.word(k)] = local[k] = found.x;
        if (!Field::kLog && found.x != 0) extent.add(found.x, found.x);
      }
    }
    return true;
  }

  // Where a walk from `node` comes first, among the words of this level and the root; indexed by words.
  void pass(const AllButOne<Field>& each, int level, std::int64_t node) {
    double* c = passed_.get();
    for (std::int64_t i = 0; i < width_; ++i) c[i] = Field::kZero;
    c[node] = Field::kOne;
    for (int above = 0; above < level; ++above) {
      const Halved& at = each.level(above);
      for (std::int64_t k = at.size; k > at.keep; --k) {
        double& here = c[at.word(k)];
        const Number weight{here};
        here = Field::kZero;
        if (weight.x == Field::kZero) continue;
        for (std::int64_t h = 0; h < k; ++h) {
          double& there = c[at.word(h)];
          there = Field::plus(Number{there}, Field::times(weight, Number{at.w.row(k)[h]})).x;
        }
      }
    }
  }

  std::int64_t width_, words_ = 0;
  Scratch<double> reached_, passed_, spare_, sums_;
  Weights w_{};
  const double* levels_ = nullptr;
  std::int64_t* drawn_ = nullptr;
};

class TreeSampler {
 public:
  explicit TreeSampler(std::int64_t size)
      : logs_(size - 1), memory_(Weights::plane_of(size - 1)), levels_(size), drawn_(size), next_(size), names_(size),
        linear_(size - 1), logarithmic_(size - 1), in_linear_(size - 1), in_logs_(size - 1) {}

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
    if (!(logs_.fits_linear() && draw_in(linear_, in_linear_, words)) && !draw_in(logarithmic_, in_logs_, words))
      return false;
    for (std::int64_t m = 1; m <= words; ++m) heads[names[m]] = names[drawn_.get()[m]];
    return true;
  }

 private:
  template <class Field>
  bool draw_in(AllButOne<Field>& each, Drawing<Field>& drawing, std::int64_t words) {
    const Weights w = logs_.weights<Field, double>(memory_.get(), nullptr, 0);
    drawing.start(w, words, levels_.get(), drawn_.get());
    return each.run(w, words, true, drawing);
  }

  LogWeights logs_;
  Scratch<double> memory_, levels_;
  Scratch<std::int64_t> drawn_, next_, names_;
  AllButOne<Linear> linear_;
  AllButOne<Log> logarithmic_;
  Drawing<Linear> in_linear_;
  Drawing<Log> in_logs_;
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
