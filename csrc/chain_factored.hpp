// Chains under Shannon's entropy in factored form: forward-backward as products of a matrix and a vector, exact in the
// log domain. With A = exp(b) (the largest b is 0), c the largest of each column of the transitions and W = exp(T - c),
//
//     s_j = sum_i A_i W_ij,      value of tag j = e_j + c_j + log s_j,      q_ij = A_i W_ij / s_j.
//
// Where s_j is faint, terms of it may have underflowed, and the column is summed again relative to its own best term.
// The state is log s: everything else follows from it without another product.
#pragma once

#include "chain_soft.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T> constexpr T kFaint = T(1e-26);
template <class T> constexpr T kLogFaint = T(-59.8672);
template <> inline constexpr double kFaint<double> = 1e-280;
template <> inline constexpr double kLogFaint<double> = -644.7238;

// to = sum over k of x_k matrix_k, for `blocks` vectors of columns; several sums at once hide the latency.
template <int kBlocks, int kWays, class T>
inline void combine_blocks(const T* x, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  Vector<T> sum[kWays][kBlocks] = {};
  std::int64_t k = 0;
  for (; k + kWays <= rows; k += kWays)
    for (int way = 0; way < kWays; ++way)
      for (int block = 0; block < kBlocks; ++block)
        sum[way][block] += x[k + way] * load(matrix + (k + way) * width + block * kLanes<T>);
  for (; k < rows; ++k)
    for (int block = 0; block < kBlocks; ++block) sum[0][block] += x[k] * load(matrix + k * width + block * kLanes<T>);
  for (int block = 0; block < kBlocks; ++block) {
    Vector<T> total = sum[0][block];
    for (int way = 1; way < kWays; ++way) total += sum[way][block];
    store(to + block * kLanes<T>, total);
  }
}

template <class T>
inline void combine(const T* x, const T* matrix, std::int64_t rows, std::int64_t width, T* to) {
  std::int64_t j = 0;
  for (; j + 4 * kLanes<T> <= width; j += 4 * kLanes<T>) combine_blocks<4, 2>(x, matrix + j, rows, width, to + j);
  for (; j + 2 * kLanes<T> <= width; j += 2 * kLanes<T>) combine_blocks<2, 4>(x, matrix + j, rows, width, to + j);
  for (; j < width; j += kLanes<T>) combine_blocks<1, 4>(x, matrix + j, rows, width, to + j);
}

// Numbers too small for full precision would slow the processor down, and weigh nothing.
template <class V>
inline V without_dust(V x) { return x < Format<typename Traits<V>::Number>::kTiny - V{} ? V{} : x; }

// The transitions of an item, prepared.
template <class T>
class SoftTransitions {
 public:
  SoftTransitions(std::int64_t tags, std::int64_t width)
      : tags_(tags), width_(width), memory_((3 * tags + 1) * width) {}
  void prepare(const T* transitions) {
    T *c = memory_.get(), *log_weights = c + width_, *w = log_weights + tags_ * width_, *turned = w + tags_ * width_;
    for (std::int64_t i = 0; i < tags_; ++i)
      read_row(log_weights + i * width_, transitions + i * tags_, tags_, -kInfinity<T>);
    fill(turned, tags_ * width_, T(0));
    for (std::int64_t j = 0; j < width_; j += kLanes<T>) {
      Vector<T> top = splat(-kInfinity<T>);
      for (std::int64_t i = 0; i < tags_; ++i) top = larger(load(log_weights + i * width_ + j), top);
      top = top > splat(-kInfinity<T>) ? top : Vector<T>{};
      store(c + j, top);
      for (std::int64_t i = 0; i < tags_; ++i) {
        const Vector<T> log_weight = load(log_weights + i * width_ + j) - top;
        store(log_weights + i * width_ + j, log_weight);
        store(w + i * width_ + j, without_dust(exp_of<Vector<T>>(log_weight)));
      }
    }
    turn(w, turned);
  }
  void turn(const T* matrix, T* turned) const {
    for (std::int64_t i = 0; i < tags_; ++i)
      for (std::int64_t j = 0; j < tags_; ++j) turned[j * width_ + i] = matrix[i * width_ + j];
  }
  const T* tops() const { return memory_.get(); }                           // c
  const T* logs() const { return tops() + width_; }                         // T - c
  const T* weights() const { return logs() + tags_ * width_; }              // W
  const T* turned() const { return weights() + tags_ * width_; }            // W transposed

 private:
  std::int64_t tags_, width_;
  Scratch<T> memory_;
};

// Node values b and A = exp(b) of a place, from the state.
template <class T>
inline T read_nodes(const ChainItem<T>& chain, const T* tops, const T* levels, std::int64_t place, T* b, T* a) {
  if (place == 0) {
    chain.first_scores(b, -kInfinity<T>);
  } else {
    const T *e = chain.emissions(place), *level = levels + place * chain.n_tags;
    each_vector<T>(chain.n_tags, [&](std::int64_t j, std::int64_t lanes) {
      store<T>(b + j, load_lanes(e + j, lanes, T(0)) + (load(tops + j) + load_lanes(level + j, lanes, -kInfinity<T>)));
    });
  }
  const T top = recentre(b, chain.width);
  for (std::int64_t j = 0; j < chain.width; j += kLanes<T>) store(a + j, without_dust(exp_of<Vector<T>>(load(b + j))));
  return top;
}

template <class T>
void factored_value(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  SoftTransitions<T> transitions(tags, width);
  Scratch<T> rows(3 * width);
  T *b = rows.get(), *a = b + width, *s = a + width;
  const T* prepared = nullptr;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain(p.parts, item, tags, p.lengths[item]);
    T* levels = p.levels + item * p.n_places * tags;
    if (chain.bad()) {
      p.value[item] = p.total[item] = kNaN<T>;
      continue;
    }
    if (prepared != chain.transitions && chain.length > 1) transitions.prepare(prepared = chain.transitions);
    double total = read_nodes<T>(chain, nullptr, nullptr, 0, b, a);
    for (std::int64_t place = 1; place < chain.length && total > -kInfinity<double>; ++place) {
      combine(a, transitions.weights(), tags, width, s);
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> sum = load(s + j), faint = splat(kFaint<T>);
        Vector<T> level = log_normal(larger(sum, faint));
        if (where_greater(sum, faint) != kAllLanes<T>) {
          const Vector<T> exact = soft_block(b, transitions.logs() + j, tags, width);
          level = sum > faint ? level : exact;
        }
        store_lanes<T>(levels + place * tags + j, lanes, level);
      });
      total += read_nodes<T>(chain, transitions.tops(), levels, place, b, a);
    }
    chain.last_scores(b, s);
    total += SoftLocal::last<T>(s, width);
    p.value[item] = p.total[item] = static_cast<T>(total);
  }
}

// A sum of outer products left ⊗ right, added up a few at a time.
template <class T>
class OuterSum {
 public:
  OuterSum(std::int64_t tags, std::int64_t width)
      : tags_(tags), width_(width), sums_(tags * width), left_(kDepth * width), right_(kDepth * width) {}
  void begin() {
    fill(sums_.get(), tags_ * width_, T(0));
    held_ = 0;
  }
  void add(const T* left, const T* right) {
    for (std::int64_t i = 0; i < width_; ++i) {
      left_.get()[i * kDepth + held_] = left[i];
      right_.get()[held_ * width_ + i] = right[i];
    }
    if (++held_ == kDepth) flush();
  }
  void flush() {
    for (; held_ < kDepth; ++held_)
      for (std::int64_t i = 0; i < width_; ++i) left_.get()[i * kDepth + held_] = right_.get()[held_ * width_ + i] = 0;
    const T *left = left_.get(), *right = right_.get();
    for (std::int64_t j = 0; j < width_; j += kLanes<T>) {
      Vector<T> r[kDepth];
      for (int k = 0; k < kDepth; ++k) r[k] = load(right + k * width_ + j);
      for (std::int64_t i = 0; i < tags_; ++i) {
        T* to = sums_.get() + i * width_ + j;
        Vector<T> sum = load(to);
        for (int k = 0; k < kDepth; ++k) sum += left[i * kDepth + k] * r[k];
        store(to, sum);
      }
    }
    held_ = 0;
  }
  const T* sums() const { return sums_.get(); }

 private:
  static constexpr int kDepth = 8;
  std::int64_t tags_, width_;
  int held_ = 0;
  Scratch<T> sums_, left_, right_;
};

// 1 / s where it is not faint, and whether there are faint columns with visits in a vector of them.
template <class T>
struct Inverse {
  Vector<T> usual, faint_visits;
  bool any_faint;
  Inverse(Vector<T> level, Vector<T> visits) {
    const Vector<T> zero{}, limit = splat(kLogFaint<T>);
    usual = level >= limit ? exp_of<Vector<T>>(-level) : zero;
    faint_visits = level >= limit ? zero : (level > splat(-kInfinity<T>) ? visits : zero);
    any_faint = where_greater(faint_visits, zero) != 0;
  }
};

// Sums over the lanes of vectors that are stored one per row.
template <class T>
inline void add_lanes(T* to, const T* vectors, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i) to[i] += sum_lanes<T>(load(vectors + i * kLanes<T>));
}

template <class T>
void factored_marginals(const ChainMarginals<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  SoftTransitions<T> transitions(tags, width);
  OuterSum<T> pairs(tags, width);
  Scratch<T> rows(5 * width), faint(tags * width), block(tags * kLanes<T>);
  T *b = rows.get(), *a = b + width, *visits = a + width, *before = visits + width, *shares = before + width;
  const T* prepared = nullptr;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain(p.parts, item, tags, p.lengths[item]);
    ChainOutput<T> out(p.weights, item, tags, p.n_places);
    if (!usual(p.total[item])) {
      out.unusual(p.total[item], chain.length);
      continue;
    }
    if (prepared != chain.transitions && chain.length > 1) transitions.prepare(prepared = chain.transitions);
    const T* levels = p.levels + item * p.n_places * tags;
    pairs.begin();
    bool any_faint = false;
    read_nodes(chain, transitions.tops(), levels, chain.length - 1, b, a);
    chain.last_scores(b, visits);
    weigh_softly(visits, width);
    write_row(out.end, visits, tags);
    for (std::int64_t place = chain.length - 1; place > 0; --place) {
      write_row(out.first + place * tags, visits, tags);
      read_nodes(chain, transitions.tops(), levels, place - 1, b, a);
      bool faint_here = false;
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const Inverse<T> inverse(load_lanes(levels + place * tags + j, lanes, T(0)), load(visits + j));
        store<T>(shares + j, load(visits + j) * inverse.usual);
        faint_here |= inverse.any_faint;
      });
      combine(shares, transitions.turned(), tags, width, before);
      for (std::int64_t i = 0; i < width; i += kLanes<T>) store<T>(before + i, load(before + i) * load(a + i));
      pairs.add(a, shares);
      if (faint_here) {
        if (!any_faint) fill(faint.get(), tags * width, T(0));
        any_faint = true;
        each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
          const Inverse<T> inverse(load_lanes(levels + place * tags + j, lanes, T(0)), load(visits + j));
          if (!inverse.any_faint) return;
          T* powers = block.get();
          const Vector<T> share =
              weigh_block(b, transitions.logs() + j, tags, width, powers) * inverse.faint_visits;
          for (std::int64_t i = 0; i < tags; ++i) {
            const Vector<T> flow = load(powers + i * kLanes<T>) * share;
            store(powers + i * kLanes<T>, flow);
            T* to = faint.get() + i * width + j;
            store<T>(to, load(to) + flow);
          }
          add_lanes(before, powers, tags);
        });
      }
      exchange(before, visits);
    }
    out.begin(visits);
    out.nothing_from(chain.length);
    pairs.flush();
    for (std::int64_t i = 0; i < tags; ++i)
      each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
        const std::int64_t at = i * width + j;
        Vector<T> sum = chain.length > 1 ? load(transitions.weights() + at) * load(pairs.sums() + at) : Vector<T>{};
        if (any_faint) sum += load(faint.get() + at);
        store_lanes<T>(out.transitions + i * tags + j, lanes, sum);
      });
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
