// What the rows of scores are made of beside products: which keys a query may see, what is added to its scores, and
// what its weights are multiplied by. `Problem` is AttentionForward or AttentionDenseGradient.
#pragma once

#include "attention/included.hpp"
#include "attention/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// The bias of one row of scores: a row of numbers, one number (a stride of 0), or nothing.
template <class T>
struct BiasRow {
  const T* first;
  std::int64_t stride;

  bool some() const { return first != nullptr; }
  T at(std::int64_t key) const { return first[key * stride]; }
};

// What a row may attend to: the first `limit` keys, and of those the ones that a mask allows.
struct Allowed {
  std::int64_t limit;
  const bool* mask;  // or null
  std::int64_t stride;

  bool at(std::int64_t key) const { return key < limit && (mask == nullptr || mask[key * stride]); }
};

inline double parameter_of(const AttentionOperator& op, std::int64_t row) {
  return op.parameters != nullptr ? op.parameters[row] : op.parameter;
}

template <class U>
inline const U* row_of(const Broadcast<U>& scores, const AttentionShape& shape, std::int64_t head, std::int64_t query) {
  if (scores.first == nullptr) return nullptr;
  return scores.first + head / shape.heads * scores.batch_stride + head % shape.heads * scores.head_stride +
         query * scores.query_stride;
}

template <class Problem>
inline Allowed allowed_for(const Problem& p, std::int64_t head, std::int64_t query) {
  std::int64_t limit = p.shape.keys;
  if (p.lengths != nullptr && p.lengths[head] < limit) limit = p.lengths[head];
  const std::int64_t seen = p.shape.keys - p.shape.queries + query + 1;
  if (p.causal != 0 && seen < limit) limit = seen > 0 ? seen : 0;
  return {limit, row_of(p.mask, p.shape, head, query), p.mask.key_stride};
}

template <template <class> class Problem, class T>
inline BiasRow<T> bias_for(const Problem<T>& p, std::int64_t head, std::int64_t query) {
  return {row_of(p.bias, p.shape, head, query), p.bias.key_stride};
}

// What a weight is multiplied by: 0 where it is dropped. A hash of its place, so the backward pass finds the same.
class DropoutFactors {
 public:
  DropoutFactors(const AttentionDropout& dropout, std::int64_t row, std::int64_t keys)
      : some_(dropout.share > 0), share_(dropout.share), seed_(dropout.seed),
        first_(static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(keys)) {}

  bool some() const { return some_; }
  double at(std::int64_t key) const {
    std::uint64_t z = seed_ + (first_ + static_cast<std::uint64_t>(key) + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53 < share_ ? 0.0 : 1 / (1 - share_);
  }
  template <class T>
  void apply(T* weights, std::int64_t n) const {
    for (std::int64_t j = 0; j < n; ++j) weights[j] *= static_cast<T>(at(j));
  }

 private:
  bool some_;
  double share_;
  std::uint64_t seed_, first_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
