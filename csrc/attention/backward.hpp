// The backward pass of sparse attention, on the support only. With weights p = argmax(s), s = scale q.k + bias:
//
//     dp = dO V'           on the support (times the factors of dropout)
//     ds = J dp            J is the Jacobian of the operator, zero off the support
//     dq = scale sum ds k,    dk = scale sum ds q,    dv = sum p dO
//
// Gradients of queries are sums over keys, each computed by one task. Those of keys and values are sums over queries: a
// task owns a range of keys and goes over the rows in their order, so the sums do not depend on the number of threads.
#pragma once

#include "attention/forward.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// The mean of the direction over each segment or cluster, minus its mean over the support.
template <class T>
inline void clustered_product_row(const T* direction, const std::int32_t* labels, std::int64_t n, double* sums,
                                  std::int32_t* sizes, T* out) {
  std::int32_t most = -1;
  for (std::int64_t i = 0; i < n; ++i) most = labels[i] > most ? labels[i] : most;
  for (std::int32_t label = 0; label <= most; ++label) sums[label] = sizes[label] = 0;
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sums[labels[i]] += direction[i];
    ++sizes[labels[i]];
    total += direction[i];
  }
  const double mean = total / static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(sums[labels[i]] / static_cast<double>(sizes[labels[i]]) - mean);
}

template <class T>
void run(const AttentionRowGradient<T>& p, std::int64_t begin, std::int64_t end) {
  const AttentionShape& shape = p.shape;
  const bool labelled = p.support.labels != nullptr;
  Buffer buffer(Buffer::size<T>(shape.keys) + Buffer::size<double>(shape.keys) +
                Buffer::size<std::int32_t>(shape.keys));
  T* grads = buffer.take<T>(shape.keys);
  double* sums = buffer.take<double>(shape.keys);
  std::int32_t* sizes = buffer.take<std::int32_t>(shape.keys);
  const std::int64_t blocks = shape.query_blocks();
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t head = task / blocks, kv_head = shape.kv_head(head), first = task % blocks * kQueryBlock;
    const std::int64_t last = first + kQueryBlock < shape.queries ? first + kQueryBlock : shape.queries;
    const T* key = p.key + kv_head * shape.keys * shape.size;
    const T* value = p.value + kv_head * shape.keys * shape.value_size;
    for (std::int64_t row = head * shape.queries + first; row < head * shape.queries + last; ++row) {
      const std::int64_t at = p.support.offsets[row], n = p.support.offsets[row + 1] - at;
      T* grad_query = p.grad_query + row * shape.size;
      if (p.along != nullptr) p.along[row] = 0;
      if (n == 0) {
        for (std::int64_t f = 0; f < shape.size; ++f) grad_query[f] = 0;
        continue;
      }
      const std::int32_t* indices = p.support.indices + at;
      const T* weights = p.support.weights + at;
      T* grad_scores = p.grad_scores + at;
      if (weights[0] != weights[0]) {  // the row has no answer
        grad_scores[0] = kNaN<T>;
        for (std::int64_t f = 0; f < shape.size; ++f) grad_query[f] = kNaN<T>;
        if (p.along != nullptr) p.along[row] = kNaN<T>;
        continue;
      }
      gathered_products(p.grad_output + row * shape.value_size, value, shape.value_size, indices, n, grads);
      const DropoutFactors factors(p.dropout, row, shape.keys);
      if (factors.some())
        for (std::int64_t i = 0; i < n; ++i) grads[i] *= static_cast<T>(factors.at(indices[i]));
      if (labelled) {
        clustered_product_row(grads, p.support.labels + at, n, sums, sizes, grad_scores);
      } else if (p.op.kind == kTopAttention) {
        softmax_product_row(weights, grads, grad_scores, n);
      } else if (p.along != nullptr) {
        entmax_pull_row(weights, grads, parameter_of(p.op, row), grad_scores, p.along + row, n);
      } else {
        entmax_product_row(weights, grads, parameter_of(p.op, row), grad_scores, n,
                           Everywhere<T>{(n + kLanes<T> - 1) / kLanes<T>});
      }
      gathered_sum(grad_scores, key, shape.size, indices, n, grad_query);
      const T scale = static_cast<T>(p.scale);
      for (std::int64_t f = 0; f < shape.size; ++f) grad_query[f] *= scale;
    }
  }
}

// Tasks are ranges of keys of every head of keys.
template <class T>
void run(const AttentionKeyGradient<T>& p, std::int64_t begin, std::int64_t end) {
  const AttentionShape& shape = p.shape;
  const std::int64_t ranges = shape.key_ranges(), per_head = shape.heads / shape.kv_heads;
  const T scale = static_cast<T>(p.scale);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t kv_head = task / ranges, from = task % ranges * kKeyRange;
    const std::int64_t to = from + kKeyRange < shape.keys ? from + kKeyRange : shape.keys;
    T* grad_key = p.grad_key + kv_head * shape.keys * shape.size;
    T* grad_value = p.grad_value + kv_head * shape.keys * shape.value_size;
    for (std::int64_t i = from * shape.size; i < to * shape.size; ++i) grad_key[i] = 0;
    for (std::int64_t i = from * shape.value_size; i < to * shape.value_size; ++i) grad_value[i] = 0;
    const std::int64_t first_head = kv_head / shape.kv_heads * shape.heads + kv_head % shape.kv_heads * per_head;
    for (std::int64_t row = first_head * shape.queries; row < (first_head + per_head) * shape.queries; ++row) {
      std::int64_t i = p.support.offsets[row], end_of_row = p.support.offsets[row + 1];
      if (from > 0)  // keys of a row are in order
        for (std::int64_t rest = end_of_row - i; rest > 0;) {
          const std::int64_t half = rest / 2;
          if (p.support.indices[i + half] < from) i += half + 1, rest -= half + 1;
          else rest = half;
        }
      const T* query = p.query + row * shape.size;
      const T* grad_output = p.grad_output + row * shape.value_size;
      const DropoutFactors factors(p.dropout, row, shape.keys);
      for (; i < end_of_row && p.support.indices[i] < to; ++i) {
        const std::int64_t key = p.support.indices[i];
        T weight = p.support.weights[i];
        if (factors.some()) weight *= static_cast<T>(factors.at(key));
        add_scaled(grad_key + key * shape.size, p.grad_scores[i] * scale, query, shape.size);
        add_scaled(grad_value + key * shape.value_size, weight, grad_output, shape.value_size);
      }
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
