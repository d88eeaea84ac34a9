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

#include "buffer.hpp"
#include "problems.hpp"
#include "simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class BestArborescence {
 public:
  explicit BestArborescence(std::int64_t size)
      : memory_(Buffer::size<double>(size * size) + Buffer::size<std::int32_t>(size * size) +
                Buffer::size<double>(2 * size) + 8 * Buffer::size<std::int32_t>(2 * size + 2) +
                Buffer::size<signed char>(size)),
        stride_(size),
        gain_(memory_.take<double>(size * size)),
        arc_(memory_.take<std::int32_t>(size * size)),
        taken_(memory_.take<double>(2 * size)),
        node_(take(size)), state_(memory_.take<signed char>(size)),
        path_(take(size)), up_(take(size)), first_(take(size)), next_(take(size)), enters_(take(size)),
        stack_(take(size)), active_(take(size)) {}

  // The best head of every word 1..n, from scores [head * size + modifier]; false where there is no tree. Ties go to the
  // lowest node, and a contracted node counts as the lowest of its nodes.
  template <class T>
  bool solve(const T* scores, std::int64_t size, std::int64_t n, bool single_root, std::int32_t* heads) {
    prepare(scores, size, n);
    n_active_ = n;
    width_ = n + 1;
    std::int32_t made = static_cast<std::int32_t>(n + 1);
    bool root_is_taken = false;
    for (std::int32_t start = 1; start <= n; ++start) {
      if (state_[start] != kFree) continue;
      std::int64_t length = 0;
      path_[length++] = start;
      state_[start] = kOnPath;
      while (length > 0) {
        const std::int32_t slot = path_[length - 1];
        const std::int32_t head = best_head(slot, single_root);
        if (head < 0) return false;
        const std::int32_t node = node_[slot];
        taken_[node] = row(slot)[head];
        enters_[node] = arcs(slot)[head];
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

  std::int32_t* take(std::int64_t size) { return memory_.take<std::int32_t>(2 * size + 2); }
  double* row(std::int64_t slot) const { return gain_ + slot * stride_; }
  std::int32_t* arcs(std::int64_t slot) const { return arc_ + slot * stride_; }

  template <class T>
  void prepare(const T* scores, std::int64_t size, std::int64_t n) {
    for (std::int64_t m = 1; m <= n; ++m) {
      double* gains = row(m);
      std::int32_t* names = arcs(m);
      for (std::int64_t h = 0; h <= n; ++h) {
        gains[h] = static_cast<double>(scores[h * size + m]);
        names[h] = static_cast<std::int32_t>(h * size + m);
      }
      gains[m] = -kInfinity<double>;
      node_[m] = static_cast<std::int32_t>(m);
      state_[m] = kFree;
      active_[m - 1] = static_cast<std::int32_t>(m);
    }
    for (std::int64_t node = 0; node < 2 * n + 2; ++node) up_[node] = first_[node] = next_[node] = -1;
  }

  // Among words first, where the root is single; -1 where nothing is left.
  std::int32_t best_head(std::int32_t slot, bool single_root) const {
    const double* gains = row(slot);
    double best = single_root ? -kInfinity<double> : gains[0];
    std::int32_t head = best > -kInfinity<double> ? 0 : -1;
    for (std::int64_t i = 0; i < n_active_; ++i) {
      const std::int32_t other = active_[i];
      if (gains[other] > best) {  // its own entry is -inf
        best = gains[other];
        head = other;
      }
    }
    if (head < 0 && gains[0] > -kInfinity<double>) head = 0;
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
    }
    // Arcs out of it: the best of its nodes'.
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n_active_; ++i) {
      const std::int32_t other = active_[i];
      if (state_[other] == kInside) {
        if (other == slot) active_[kept++] = other;
        continue;
      }
      active_[kept++] = other;
      double* gains = row(other);
      for (std::int64_t j = begin; j < length; ++j) {
        if (gains[path_[j]] > gains[slot]) {
          gains[slot] = gains[path_[j]];
          arcs(other)[slot] = arcs(other)[path_[j]];
        }
      }
    }
    n_active_ = kept;
    into[slot] = -kInfinity<double>;
    node_[slot] = made;
    taken_[made] = 0;
    state_[slot] = kOnPath;
    path_[begin] = slot;
    return begin + 1;
  }

  // From the outermost nodes in: the arc into a node replaces that of the cycle into the same word, at every depth.
  void expand(std::int32_t* heads) {
    std::int64_t waiting = 0;
    for (std::int64_t i = 0; i < n_active_; ++i) stack_[waiting++] = node_[active_[i]];
    while (waiting > 0) {
      const std::int32_t outer = stack_[--waiting];
      const std::int32_t word = static_cast<std::int32_t>(enters_[outer] % stride_);
      heads[word] = static_cast<std::int32_t>(enters_[outer] / stride_);
      for (std::int32_t inner = word; inner != outer; inner = up_[inner])
        for (std::int32_t other = first_[up_[inner]]; other >= 0; other = next_[other])
          if (other != inner) stack_[waiting++] = other;
    }
  }

  Buffer memory_;
  std::int64_t stride_, width_ = 0, n_active_ = 0;
  double* gain_;       // [slot][head]: what the best arc from one node to the other gains
  std::int32_t* arc_;  // and which it is
  double* taken_;      // of every node, contracted ones behind the words: the gain of the arc that it chose
  std::int32_t* node_;  // the node in each slot
  signed char* state_;
  std::int32_t *path_, *up_, *first_, *next_, *enters_, *stack_, *active_;
};

template <class T>
void run(const ArborescenceBest<T>& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t size = problem.size;
  BestArborescence best(size);
  const Scratch<std::int32_t> heads(size);
  for (std::int64_t item = begin; item < end; ++item) {
    const T* scores = problem.scores + item * size * size;
    T* arcs = problem.arcs + item * size * size;
    const std::int64_t n = problem.lengths[item];
    bool numbers = true;
    for (std::int64_t h = 0; h <= n; ++h)
      for (std::int64_t m = 1; m <= n; ++m) numbers &= h == m || scores[h * size + m] < kInfinity<T>;
    for (std::int64_t i = 0; i < size * size; ++i) arcs[i] = numbers ? T(0) : kNaN<T>;
    if (!numbers) {
      problem.value[item] = kNaN<T>;
    } else if (!best.solve(scores, size, n, problem.single_root != 0, heads.get())) {
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
