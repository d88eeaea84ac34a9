// Chains under Shannon's entropy in factored form: forward-backward as products of a matrix and a vector, exact in the
// log domain. With A = exp(b) (the largest b is 0), c the largest of each column of the transitions and W = exp(T - c),
//
//     s_j = sum_i A_i W_ij,      value of tag j = e_j + c_j + log s_j,      q_ij = A_i W_ij / s_j.
//
// Where s_j is faint, terms of it may have underflowed, and the column is summed again relative to its own best term.
// The state is log s: everything else follows from it without another product. (Where it is left out, with one.)
#pragma once

#include "chains/products.hpp"
#include "chains/soft.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

template <class T>
constexpr T kFaint = T(1e-26);
template <class T>
constexpr T kLogFaint = T(-59.8672);
template <>
inline constexpr double kFaint<double> = 1e-280;
template <>
inline constexpr double kLogFaint<double> = -644.7238;

// Sets numbers below the smallest normal one to zero: they would slow the processor down, and are too small to matter.
template <class V>
inline V without_dust(V x) {
  return x < Format<typename Traits<V>::Number>::kTiny - V{} ? V{} : x;
}

// The transitions of an item, prepared.
template <class T>
class SoftTransitions {
 public:
  SoftTransitions(std::int64_t tags, std::int64_t width)
      : tags_(tags), width_(width), memory_((3 * tags + 1) * width) {}
  void prepare(const T* transitions) {
    T *c = memory_.get(), *log_weights = c + width_, *w = log_weights + tags_ * width_,
      *transposed = w + tags_ * width_;
    for (std::int64_t i = 0; i < tags_; ++i)
      read_row(log_weights + i * width_, transitions + i * tags_, tags_, -kInfinity<T>);
    fill(transposed, tags_ * width_, T(0));
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
    transpose(w, transposed);
  }
  void transpose(const T* matrix, T* transposed) const {
    for (std::int64_t i = 0; i < tags_; ++i)
      for (std::int64_t j = 0; j < tags_; ++j) transposed[j * width_ + i] = matrix[i * width_ + j];
  }
  const T* tops() const { return memory_.get(); }                     // c
  const T* logs() const { return tops() + width_; }                   // T - c
  const T* weights() const { return logs() + tags_ * width_; }        // W
  const T* transposed() const { return weights() + tags_ * width_; }  // W transposed

 private:
  std::int64_t tags_, width_;
  Scratch<T> memory_;
};

// The nodes of an item, place by place: log s, and the values b and A = exp(b) that follow from it.
template <class T>
class SoftNodes {
 public:
  SoftNodes(std::int64_t tags, std::int64_t width) : transitions(tags, width), rows_(4 * width) {}

  // `state` holds log s, but not of all places. An item must not move while it is being read.
  void of(const ChainItem<T>& chain, const T* state) {
    chain_ = &chain;
    state_ = state;
    held_ = 0;
    if (chain.length > 1 && prepared_ != chain.transitions) transitions.prepare(prepared_ = chain.transitions);
  }
  const T* level(std::int64_t place) {
    T *b = rows_.get() + chain_->width, *a = b + chain_->width;
    if (!chain_->keeps(place) && held_ != place) read(place - 1, b, a);
    return level(place, b, a);
  }
  // The same for a caller that knows the place before.
  const T* level(std::int64_t place, const T* b, const T* a) {
    if (chain_->keeps(place)) return state_ + chain_->state_row(place);
    if (held_ != place) climb(b, a, rows_.get());
    held_ = place;
    return rows_.get();
  }
  // Returns the value that b, whose largest is 0, is relative to.
  T read(std::int64_t place, T* b, T* a) { return read(place, place == 0 ? nullptr : level(place), b, a); }
  T read(std::int64_t place, const T* level, T* b, T* a) const {
    if (place == 0) {
      chain_->first_scores(b, -kInfinity<T>);
    } else {
      const T *e = chain_->emissions(place), *tops = transitions.tops();
      each_vector<T>(chain_->n_tags, [&](std::int64_t j, std::int64_t lanes) {
        const Vector<T> u = load(tops + j) + load_lanes(level + j, lanes, -kInfinity<T>);
        store<T>(b + j, load_lanes(e + j, lanes, T(0)) + u);
      });
    }
    const T top = recentre(b, chain_->width);
    for (std::int64_t j = 0; j < chain_->width; j += kLanes<T>)
      store(a + j, without_dust(exp_of<Vector<T>>(load(b + j))));
    return top;
  }
  // log s of the next place.
  void climb(const T* b, const T* a, T* level) const {
    const std::int64_t tags = chain_->n_tags, width = chain_->width;
    T* s = rows_.get() + 3 * width;
    combine(a, transitions.weights(), tags, width, s);
    each_vector<T>(tags, [&](std::int64_t j, std::int64_t lanes) {
      const Vector<T> sum = load(s + j), faint = splat(kFaint<T>);
      Vector<T> log = log_normal(larger(sum, faint));
      if (where_greater(sum, faint) != kAllLanes<T>) {
        const Vector<T> exact = soft_block(b, transitions.logs() + j, tags, width);
        log = sum > faint ? log : exact;
      }
      store_lanes<T>(level + j, lanes, log);
    });
  }

  SoftTransitions<T> transitions;

 private:
  Scratch<T> rows_;
  const ChainItem<T>* chain_ = nullptr;
  const T *state_ = nullptr, *prepared_ = nullptr;
  std::int64_t held_ = 0;  // the place whose level was computed again last
};

template <class T>
void factored_value(const ChainValue<T>& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t tags = p.n_tags, width = padded<T>(tags);
  SoftNodes<T> nodes(tags, width);
  Scratch<T> rows(3 * width);
  T *b = rows.get(), *a = b + width, *other = a + width;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<T> chain = chain_of(p, item);
    T* state = p.levels + item * chain.state_row(p.n_places);
    if (const int found = chain.look()) {
      p.value[item] = p.total[item] = chain.special(found);
      continue;
    }
    nodes.of(chain, state);
    double total = nodes.read(0, nullptr, b, a);
    for (std::int64_t place = 1; place < chain.length && total > -kInfinity<double>; ++place) {
      T* level = chain.keeps(place) ? state + chain.state_row(place) : other;
      nodes.climb(b, a, level);
      total += nodes.read(place, level, b, a);
    }
    chain.last_scores(b, other);
    total += SoftLocal<T>::last(other, width);
    p.value[item] = p.total[item] = total;
  }
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
