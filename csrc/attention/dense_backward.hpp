// The backward pass for blocks of queries of which most keys have weight: scores and weights are computed again, and
// all is dense. See backward.hpp for the formulas.
#pragma once

#include "attention/backward.hpp"
#include "attention/dense_block.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class DenseGradientTasks {
 public:
  explicit DenseGradientTasks(const AttentionDenseGradient<T>& problem)
      : p_(problem), shape_(problem.shape),
        buffer_(DenseBlock<T>::bytes(shape_) + Buffer::size<T>(transposed_size()) +
                Buffer::size<T>(kQueryBlock * shape_.keys) + Buffer::size<T>(kQueryBlock * kKeyGroup)),
        block_(buffer_, shape_), transposed_(buffer_.take<T>(transposed_size())),
        grads_(buffer_.take<T>(kQueryBlock * shape_.keys)), some_(buffer_.take<T>(kQueryBlock * kKeyGroup)) {}

  void run(std::int64_t task) {
    const std::int64_t kv_head = task / p_.n_parts, part = task % p_.n_parts, kv_heads = shape_.batch * shape_.kv_heads;
    const std::int64_t per_head = shape_.heads / shape_.kv_heads, blocks = shape_.query_blocks();
    const std::int64_t first_head = kv_head / shape_.kv_heads * shape_.heads + kv_head % shape_.kv_heads * per_head;
    grad_key_ = p_.grad_key + kv_head * shape_.keys * shape_.size;
    grad_value_ = p_.grad_value + kv_head * shape_.keys * shape_.value_size;
    if (part > 0) {
      grad_key_ = p_.parts + ((part - 1) * kv_heads + kv_head) * shape_.head_numbers();
      grad_value_ = grad_key_ + shape_.keys * shape_.size;
    }
    key_ = p_.key + kv_head * shape_.keys * shape_.size;
    bool begun = false;
    for (std::int64_t i = per_head * blocks * part / p_.n_parts; i < per_head * blocks * (part + 1) / p_.n_parts; ++i) {
      if (!p_.refused[first_head * blocks + i]) continue;
      if (!begun) {
        if (part > 0)
          for (std::int64_t j = 0; j < shape_.head_numbers(); ++j) grad_key_[j] = 0;
        transpose_groups(p_.value + kv_head * shape_.keys * shape_.value_size, shape_.keys, shape_.value_size,
                         transposed_);
      }
      begun = true;
      const std::int64_t first = i % blocks * kQueryBlock;
      add(first_head + i / blocks, first, first + kQueryBlock < shape_.queries ? kQueryBlock : shape_.queries - first);
    }
    p_.part_used[task] = begun;
  }

 private:
  std::int64_t transposed_size() const { return shape_.key_groups() * kKeyGroup * shape_.value_size; }

  // The gradients of one block of queries.
  void add(std::int64_t head, std::int64_t first, std::int64_t rows) {
    block_.find_scores(p_, head, first, rows);
    block_.solve(p_);
    const std::int64_t columns = block_.columns(), row = block_.row();
    const T* grad_output = p_.grad_output + row * shape_.value_size;
    block_.multiply_transposed(grad_output, shape_.value_size, transposed_, grads_);
    for (std::int64_t r = 0; r < rows; ++r) find_grad_scores(r);
    T* grad_query = p_.grad_query + row * shape_.size;
    block_.multiply_rows(grads_, key_, shape_.size, grad_query);
    for (std::int64_t i = 0; i < rows * shape_.size; ++i) grad_query[i] *= static_cast<T>(p_.scale);
    for (std::int64_t key = 0; key < columns; key += kKeyGroup) {
      const std::int64_t keys = columns - key < kKeyGroup ? columns - key : kKeyGroup;
      add_transposed(grads_ + key, keys, block_.scaled(), shape_.size, grad_key_ + key * shape_.size);
      add_transposed(block_.weights(0) + key, keys, grad_output, shape_.value_size,
                     grad_value_ + key * shape_.value_size);
    }
  }

  // Turns the gradients of the weights of a row into those of its scores, and drops weights.
  void find_grad_scores(std::int64_t r) {
    const std::int64_t n = block_.columns(), row = block_.row() + r;
    T *grads = grads_ + r * n, *weights = block_.weights(r), *product = block_.work();
    const DropoutFactors factors(p_.dropout, row, shape_.keys);
    if (factors.some()) factors.apply(grads, n);
    if (p_.along != nullptr) p_.along[row] = 0;
    if (is_one_cluster(r)) {
      for (std::int64_t j = 0; j < n; ++j) product[j] = 0;
    } else if (p_.op.kind == kOscarAttention) {
      omegamax::OMEGAMAX_ARCH::run(OscarmaxProduct<T>{weights, block_.labels(r), grads, product, n}, 0, 1);
    } else if (p_.op.kind == kFusedAttention) {
      omegamax::OMEGAMAX_ARCH::run(FusedmaxProduct<T>{weights, block_.joined(r), grads, product, n}, 0, 1);
    } else if (p_.along != nullptr) {
      entmax_pull_row(weights, grads, parameter_of(p_.op, row), product, p_.along + row, n);
    } else {
      entmax_product_row(weights, grads, parameter_of(p_.op, row), product, n,
                         Everywhere<T>{(n + kLanes<T> - 1) / kLanes<T>});
    }
    if (block_.limit(r) == 0)  // no weights, and a mean of nothing
      for (std::int64_t j = 0; j < n; ++j) product[j] = 0;
    __builtin_memcpy(grads, product, static_cast<std::size_t>(n) * sizeof(T));
    if (factors.some()) factors.apply(weights, n);
    if (p_.grad_scores == nullptr) return;
    T* out = p_.grad_scores + (row - p_.first_row) * shape_.keys;
    for (std::int64_t j = 0; j < shape_.keys; ++j) out[j] = j < n ? grads[j] : T(0);
  }

  // Whether all that has weight has the same, as in a constant row: then weights do not move.
  bool is_one_cluster(std::int64_t r) const {
    if (p_.op.kind != kOscarAttention && p_.op.kind != kFusedAttention) return false;
    const T* weights = block_.weights(r);
    const std::int64_t n = block_.columns();
    if (n == 0 || weights[0] != weights[0]) return false;
    std::int32_t clusters = 0;
    if (p_.op.kind == kOscarAttention) {
#pragma omp simd reduction(+ : clusters)
      for (std::int64_t j = 0; j < n; ++j) clusters += block_.labels(r)[j] > 0;
      return clusters == 0;
    }
#pragma omp simd reduction(+ : clusters)
    for (std::int64_t j = 0; j < n; ++j) clusters += (weights[j] > 0) & !block_.joined(r)[j];
    return clusters <= 1;
  }

  // out += x' y for some columns of x, which are first copied next to each other.
  void add_transposed(const T* x, std::int64_t keys, const T* y, std::int64_t size, T* out) const {
    for (std::int64_t r = 0; r < block_.rows(); ++r)
      __builtin_memcpy(some_ + r * kKeyGroup, x + r * block_.columns(), static_cast<std::size_t>(keys) * sizeof(T));
    multiply<T>({some_, 1, kKeyGroup, y, size, out, size, block_.rows(), true}, keys, size);
  }

  const AttentionDenseGradient<T>& p_;
  const AttentionShape& shape_;
  Buffer buffer_;
  DenseBlock<T> block_;
  T *transposed_, *grads_, *some_;
  T *grad_key_ = nullptr, *grad_value_ = nullptr;
  const T* key_ = nullptr;
};

template <class T>
void run(const AttentionDenseGradient<T>& problem, std::int64_t begin, std::int64_t end) {
  DenseGradientTasks<T> tasks(problem);
  for (std::int64_t task = begin; task < end; ++task) tasks.run(task);
}

// Tasks are ranges of keys of every head of keys.
template <class T>
void run(const AttentionPartSum<T>& p, std::int64_t begin, std::int64_t end) {
  const AttentionShape& shape = p.shape;
  const std::int64_t ranges = shape.key_ranges(), kv_heads = shape.batch * shape.kv_heads;
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t kv_head = task / ranges, from = task % ranges * kKeyRange;
    const std::int64_t keys = from + kKeyRange < shape.keys ? kKeyRange : shape.keys - from;
    for (std::int64_t part = 1; part < p.n_parts; ++part) {
      if (!p.part_used[kv_head * p.n_parts + part]) continue;
      const T* of_keys = p.parts + ((part - 1) * kv_heads + kv_head) * shape.head_numbers();
      const T* of_values = of_keys + shape.keys * shape.size;
      add_scaled(p.grad_key + (kv_head * shape.keys + from) * shape.size, T(1), of_keys + from * shape.size,
                 keys * shape.size);
      add_scaled(p.grad_value + (kv_head * shape.keys + from) * shape.value_size, T(1),
                 of_values + from * shape.value_size, keys * shape.value_size);
    }
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
