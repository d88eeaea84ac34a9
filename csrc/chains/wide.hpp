// Chains of floats whose scores are so large that a float has no digits left for the small ones beside them: such an
// item is copied, swept in double, and its weights are rounded. Everything is decided item by item, so that the result
// of one does not depend on the others.
#pragma once

#include "chains/item.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {
namespace chains {

// The first number of an item's state is NaN where the sweep up has found it large: the sweeps that follow need not
// look at its scores again.
template <class Problem>
inline auto* first_of_state(const Problem& p, std::int64_t item, const ChainItem<float>& chain) {
  return (p.values ? p.values : p.levels) + item * chain.state_row(p.n_places);
}

// The parts of an item, or its weights, in double; only the places that are kept.
class WideParts {
 public:
  WideParts(std::int64_t tags, std::int64_t length, bool dense)
      : tags_(tags), length_(length), dense_(dense), first_(length * tags * (dense ? tags : 1)),
        transitions_(dense ? 1 : tags * tags), start_(tags), end_(tags) {}

  void read(const ChainItem<float>& chain) {
    for (std::int64_t place = 0; place < length_; ++place)
      copy(chain.at(place), chain.per_place, first_.get() + place * chain.per_place);
    if (dense_) return;
    copy(chain.transitions, tags_ * tags_, transitions_.get());
    copy(chain.start, tags_, start_.get());
    copy(chain.end, tags_, end_.get());
  }
  void write(ChainOutput<float>& out) const {
    for (std::int64_t place = 0; place < length_; ++place)
      copy(first_.get() + place * out.per_place, out.per_place, out.at(place));
    out.nothing_from(length_);
    if (dense_) return;
    copy(transitions_.get(), tags_ * tags_, out.transitions);
    copy(start_.get(), tags_, out.start);
    copy(end_.get(), tags_, out.end);
  }
  ChainParts<double> parts() const {
    if (dense_) return {first_.get(), nullptr, nullptr, nullptr, 0, 0, 0, 0};
    return {first_.get(), transitions_.get(), start_.get(), end_.get(), 0, 0, 0, 0};
  }
  ChainPointers<double> weights() const {
    if (dense_) return {first_.get(), nullptr, nullptr, nullptr};
    return {first_.get(), transitions_.get(), start_.get(), end_.get()};
  }

 private:
  template <class From, class To>
  static void copy(const From* from, std::int64_t n, To* to) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
  }

  std::int64_t tags_, length_;
  bool dense_;
  Scratch<double> first_, transitions_, start_, end_;
};

// One item in double: its parts, and the state that the first sweep leaves for the others.
class WideItem {
 public:
  template <class Problem>
  WideItem(const Problem& p, const ChainItem<float>& chain)
      : omega_(p.omega), tags_(p.n_tags), length_(chain.length), parts_(tags_, length_, chain.dense()),
        values_(p.values ? length_ * tags_ : 1), levels_(p.levels ? length_ * tags_ : 1),
        at_(p.values ? values_.get() : nullptr), level_(p.levels ? levels_.get() : nullptr) {
    parts_.read(chain);
  }
  ChainValue<double> value() {
    return {parts_.parts(), &length_, nullptr, omega_, length_, tags_, &value_, &total_, at_, level_, 0};
  }
  ChainMarginals<double> marginals(const WideParts& weights) const {
    return {parts_.parts(), &length_, nullptr, &total_, at_, level_, omega_, length_, tags_, weights.weights(), 0};
  }
  ChainTangent<double> tangent(const WideParts& along, const WideParts& weights) const {
    return {parts_.parts(), &length_, nullptr, &total_, at_, level_, along.parts(), omega_, length_,
            tags_, weights.weights(), 0};
  }
  double found() const { return value_; }

 private:
  Omega omega_;
  std::int64_t tags_, length_;
  WideParts parts_;
  Scratch<double> values_, levels_;
  double *at_, *level_, value_ = 0, total_ = 0;
};

// Calls sweep(begin, end) for stretches of items that are not large, and wide(item, chain) for each one that is.
template <class Problem, class Sweep, class Wide>
inline void each_stretch(const Problem& p, std::int64_t begin, std::int64_t end, Sweep sweep, Wide wide) {
  std::int64_t from = begin;
  for (std::int64_t item = begin; item < end; ++item) {
    const ChainItem<float> chain = chain_of(p, item);
    const float mark = *first_of_state(p, item, chain);
    if (mark == mark) continue;
    if (from < item) sweep(from, item);
    wide(item, chain);
    from = item + 1;
  }
  if (from < end) sweep(from, end);
}

}  // namespace chains
}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
