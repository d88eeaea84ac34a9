// The best arborescence of a dense graph, in O(n^2): Chu & Liu (1965), Edmonds (1967), in the form of Gabow, Galil,
// Spencer & Tarjan (1986) that grows one path.
//
// From a word that is not attached yet the path goes to its best head, on to the head's best head, and so on. It ends
// where it meets the root or what is attached to it: all of it is then attached. Where it meets itself, the cycle is
// contracted to one node, and the arcs into it are rescored by what they gain over the cycle's own arc into the same
// node. A contraction of c nodes costs O(c n), and all contractions together take fewer than 2n nodes.
//
// With a single root, the number of its arcs is made small first, and the score large second: a node takes an arc of
// the root only where no other node can be its head (Gabow & Tarjan 1984; Zmigrod, Vieira & Cotterell 2020). This is
// exact: no constant stands for "very bad". If two nodes must take one, there is no tree.
#pragma once

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class BestArborescence {
 public:
  explicit BestArborescence(std::int64_t size)
      : size_(size), stride_((size + 7) / 8 * 8),
        memory_(Buffer::size<double>(size * stride_) + Buffer::size<std::int32_t>(size * stride_) +
                Buffer::size<double>(size) + Buffer::size<double>(2 * size) + Buffer::size<signed char>(size) +
                8 * Buffer::size<std::int32_t>(2 * size)),
        gain_(memory_.take<double>(size * stride_)), arc_(memory_.take<std::int32_t>(size * stride_)),
        root_gain_(memory_.take<double>(size)), taken_(memory_.take<double>(2 * size)),
        state_(memory_.take<signed char>(size)), root_arc_(take()), node_(take()), path_(take()), active_(take()),
        up_(take()), first_(take()), next_(take()), enters_(take()) {}

  // The best head of every word 1..n, from scores [head * size + modifier]; false where there is no tree. Ties go to
  // the lowest node, and a contracted node counts as the lowest of its nodes.
  template <class T>
  bool solve(const T* scores, std::int64_t n, bool single_root, std::int32_t* heads) {
    prepare(scores, n);
    std::int32_t made = static_cast<std::int32_t>(n + 1);
    bool root_is_taken = false;
    for (std::int32_t start = 1; start <= n; ++start) {
      if (state_[start] != kFree) continue;
      std::int64_t length = 0;
      path_[length++] = start;
      state_[start] = kOnPath;
      while (length > 0) {
        const std::int32_t slot = path_[length - 1], head = best_head(slot, single_root), node = node_[slot];
        if (head < 0) return false;
        taken_[node] = head == 0 ? root_gain_[slot] : row(slot)[head];
        enters_[node] = head == 0 ? root_arc_[slot] : arcs(slot)[head];
        if (head == 0 && single_root) {
          if (root_is_taken) return false;
          root_is_taken = true;
        }
        if (head == 0 || state_[head] == kAttached) {
          while (length > 0) state_[path_[--length]] = kAttached;
        } else if (state_[head] == kFree) {
          state_[head] = kOnPath;
          path_[length++] = head;
        } else {
          length = contract(head, length, made++);
        }
      }
    }
    expand(heads);
    return true;
  }

 private:
  enum : signed char { kFree, kOnPath, kAttached, kInside };

  std::int32_t* take() { return memory_.take<std::int32_t>(2 * size_); }
  double* row(std::int64_t slot) const { return gain_ + slot * stride_; }
  std::int32_t* arcs(std::int64_t slot) const { return arc_ + slot * stride_; }

  template <class T>
  void prepare(const T* scores, std::int64_t n) {
    n_active_ = n;
    width_ = (n + 8) / 8 * 8;
    for (std::int64_t m = 1; m <= n; ++m) {
      double* gains = row(m);
      std::int32_t* names = arcs(m);
      for (std::int64_t h = 1; h <= n; ++h) gains[h] = static_cast<double>(scores[h * size_ + m]);
      for (std::int64_t h = 0; h < width_; ++h) names[h] = static_cast<std::int32_t>(h * size_ + m);
      gains[0] = gains[m] = -kInfinity<double>;
      for (std::int64_t h = n + 1; h < width_; ++h) gains[h] = -kInfinity<double>;
      root_gain_[m] = static_cast<double>(scores[m]);
      root_arc_[m] = node_[m] = active_[m - 1] = static_cast<std::int32_t>(m);
      state_[m] = kFree;
    }
    for (std::int64_t node = 0; node < 2 * size_; ++node) up_[node] = first_[node] = next_[node] = -1;
  }

  // Among words first, where the root is single; -1 where nothing is left.
  std::int32_t best_head(std::int32_t slot, bool single_root) const {
    const double* gains = row(slot);
    Doubles tops = -kInfinity<double> - Doubles{};
    for (std::int64_t h = 0; h < width_; h += kLanes<double>) tops = larger(load(gains + h), tops);
    const double top = largest_lane<double>(tops), root = root_gain_[slot];
    const bool words = top > -kInfinity<double>;
    if (root > -kInfinity<double> && (single_root ? !words : root >= top)) return 0;
    if (!words) return -1;
    std::int32_t head = 1;
    while (gains[head] != top) ++head;
    return head;
  }

  // The end of the path, from `head` on, becomes one node in the lowest slot; returns the length of the path.
  std::int64_t contract(std::int32_t head, std::int64_t length, std::int32_t made) {
    std::int64_t begin = length - 1;
    while (path_[begin] != head) --begin;
    std::int32_t slot = head;
    for (std::int64_t i = begin; i < length; ++i) slot = path_[i] < slot ? path_[i] : slot;
    for (std::int64_t i = begin; i < length; ++i) {
      const std::int32_t node = node_[path_[i]];
      up_[node] = made;
      next_[node] = first_[made];
      first_[made] = node;
      state_[path_[i]] = kInside;
    }
    // Arcs into the cycle: what they gain over its own.
    double* into = row(slot);
    std::int32_t* names = arcs(slot);
    const double own = taken_[node_[slot]];
    for (std::int64_t h = 0; h < width_; ++h) into[h] -= own;
    root_gain_[slot] -= own;
    for (std::int64_t i = begin; i < length; ++i) {
      if (path_[i] == slot) continue;
      const double* other = row(path_[i]);
      const std::int32_t* other_names = arcs(path_[i]);
      const double lost = taken_[node_[path_[i]]];
      for (std::int64_t h = 0; h < width_; ++h) {
        const double gain = other[h] - lost;
        const bool better = gain > into[h];
        names[h] = better ? other_names[h] : names[h];
        into[h] = better ? gain : into[h];
      }
      if (root_gain_[path_[i]] - lost > root_gain_[slot]) {
        root_gain_[slot] = root_gain_[path_[i]] - lost;
        root_arc_[slot] = root_arc_[path_[i]];
      }
    }
    for (std::int64_t i = begin; i < length; ++i) into[path_[i]] = -kInfinity<double>;
    // Arcs out of it: the best of its nodes'. What is attached has chosen already.
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n_active_; ++i) {
      const std::int32_t other = active_[i];
      if (state_[other] == kInside && other != slot) continue;
      active_[kept++] = other;
      if (other == slot || state_[other] == kAttached) continue;
      double* gains = row(other);
      double best = gains[slot];
      std::int32_t best_arc = arcs(other)[slot];
      for (std::int64_t j = begin; j < length; ++j) {
        const double gain = gains[path_[j]];
        gains[path_[j]] = -kInfinity<double>;
        if (gain > best) best = gain, best_arc = arcs(other)[path_[j]];
      }
      gains[slot] = best;
      arcs(other)[slot] = best_arc;
    }
    n_active_ = kept;
    node_[slot] = made;
    state_[slot] = kOnPath;
    path_[begin] = slot;
    return begin + 1;
  }

  // From the outermost nodes in: the arc into a node replaces that of the cycle into the same word, at every depth.
  void expand(std::int32_t* heads) {
    std::int32_t* waiting = path_;  // which is empty now
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n_active_; ++i) waiting[count++] = node_[active_[i]];
    while (count > 0) {
      const std::int32_t outer = waiting[--count];
      const std::int32_t word = static_cast<std::int32_t>(enters_[outer] % size_);
      heads[word] = static_cast<std::int32_t>(enters_[outer] / size_);
      for (std::int32_t inner = word; inner != outer; inner = up_[inner])
        for (std::int32_t other = first_[up_[inner]]; other >= 0; other = next_[other])
          if (other != inner) waiting[count++] = other;
    }
  }

  std::int64_t size_, stride_, width_ = 0, n_active_ = 0;
  Buffer memory_;
  double* gain_;       // [slot][head]: what the best arc from one node to the other gains; -inf from slots given up
  std::int32_t* arc_;  // and which it is
  double* root_gain_;  // the same from the root
  double* taken_;      // of every node, contracted ones behind the words: the gain of the arc that it chose
  signed char* state_;
  std::int32_t *root_arc_, *node_, *path_, *active_;  // of slots
  std::int32_t *up_, *first_, *next_, *enters_;       // of nodes: the cycle around, the nodes inside, the arc
};

// Whether all scores that a tree could use are numbers or -inf.
template <class T>
inline bool all_numbers(const T* scores, std::int64_t size, std::int64_t n) {
  bool numbers = true;
  for (std::int64_t h = 0; h <= n; ++h)
    for (std::int64_t m = 1; m <= n; ++m) numbers &= scores[h * size + m] < kInfinity<T> || h == m;
  return numbers;
}

template <class T>
void run(const ArborescenceBest<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = problem.size;
  BestArborescence best(size);
  const Scratch<std::int32_t> heads(size);
  for (std::int64_t item = begin; item < end; ++item) {
    const T* scores = problem.scores + item * size * size;
    T* arcs = problem.arcs + item * size * size;
    const std::int64_t n = problem.lengths[item];
    const bool numbers = all_numbers(scores, size, n);
    for (std::int64_t i = 0; i < size * size; ++i) arcs[i] = numbers ? T(0) : kNaN<T>;
    if (!numbers) {
      problem.value[item] = kNaN<T>;
    } else if (!best.solve(scores, n, problem.single_root != 0, heads.get())) {
      problem.value[item] = -kInfinity<T>;
    } else {
      double total = 0;
      for (std::int64_t m = 1; m <= n; ++m) {
        const std::int64_t at = heads.get()[m] * size + m;
        total += static_cast<double>(scores[at]);
        arcs[at] = T(1);
      }
      problem.value[item] = static_cast<T>(total);
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
