// The scores and weights of all keys, for a block of queries of which most keys can have weight.
#pragma once

#include "attention/dense_product.hpp"
#include "attention/row_inputs.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr std::int64_t kProductKeys = 128;  // keys or values that stay in the nearest cache during a product

template <class T>
class DenseBlock {
 public:
  DenseBlock(Buffer& buffer, const AttentionShape& shape)
      : shape_(shape), scaled_(buffer.take<T>(kQueryBlock * shape.size)), panels_(buffer.take<T>(panels(shape))),
        scores_(buffer.take<T>(kQueryBlock * shape.keys)), apart_(buffer.take<T>(kQueryBlock * shape.keys)),
        labels_(buffer.take<std::int32_t>(kQueryBlock * shape.keys)), peaks_(buffer.take<T>(peaks_size<T>(shape.keys))),
        work_(buffer.take<T>(work_size(shape.keys))) {}
  static std::int64_t bytes(const AttentionShape& shape) {
    return Buffer::size<T>(kQueryBlock * shape.size) + Buffer::size<T>(panels(shape)) +
           2 * Buffer::size<T>(kQueryBlock * shape.keys) + Buffer::size<std::int32_t>(kQueryBlock * shape.keys) +
           Buffer::size<T>(peaks_size<T>(shape.keys)) + Buffer::size<T>(work_size(shape.keys));
  }

  // Numbers of keys transposed for `multiply`.
  static std::int64_t panels(const AttentionShape& shape) { return shape.key_groups() * kKeyGroup * shape.size; }

  // Scores of queries first .. first + rows, -inf where a key is not allowed.
  template <template <class> class Problem>
  void find_scores(const Problem<T>& p, std::int64_t head, std::int64_t first, std::int64_t rows) {
    head_ = head, first_ = first, rows_ = rows, columns_ = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* query = p.query + (head * shape_.queries + first + r) * shape_.size;
      for (std::int64_t f = 0; f < shape_.size; ++f) scaled_[r * shape_.size + f] = query[f] * static_cast<T>(p.scale);
      limits_[r] = allowed_for(p, head, first + r).limit;
      columns_ = limits_[r] > columns_ ? limits_[r] : columns_;
    }
    const std::int64_t kv_head = shape_.kv_head(head);
    if (kv_head != transposed_head_)
      transpose_groups(p.key + kv_head * shape_.keys * shape_.size, shape_.keys, shape_.size, panels_);
    transposed_head_ = kv_head;
    multiply_transposed(scaled_, shape_.size, panels_, scores_);
    for (std::int64_t r = 0; r < rows; ++r) adjust(p, r);
  }

  // out = x times the transposed keys (or values).
  void multiply_transposed(const T* x, std::int64_t size, const T* transposed, T* out) const {
    for (std::int64_t key = 0; key < columns_; key += kKeyGroup)
      multiply<T>({x, size, 1, transposed + key * size, kKeyGroup, out + key, columns_, size, false}, rows_,
                  columns_ - key < kKeyGroup ? columns_ - key : kKeyGroup);
  }

  // out = x times rows of keys (or values).
  void multiply_rows(const T* x, const T* of_keys, std::int64_t size, T* out) const {
    for (std::int64_t i = 0; columns_ == 0 && i < rows_ * size; ++i) out[i] = 0;
    for (std::int64_t key = 0; key < columns_; key += kProductKeys)
      multiply<T>({x + key, columns_, 1, of_keys + key * size, size, out, size,
                   columns_ - key < kProductKeys ? columns_ - key : kProductKeys, key > 0},
                  rows_, size);
  }

  // Turns the scores into weights. They may take the place of the scores.
  template <template <class> class Problem>
  void solve(const Problem<T>& p) {
    const std::int64_t row = head_ * shape_.queries + first_;
    const double* parameters = p.op.parameters != nullptr ? p.op.parameters + row : nullptr;
    T values[kQueryBlock];
    weights_ = apart_;
    if (columns_ == 0) return;
    if (p.op.kind == kOscarAttention) {
      run(Oscarmax<T>{scores_, parameters, p.op.parameter, p.op.most, apart_, values, labels_, columns_}, 0, rows_);
    } else if (p.op.kind == kFusedAttention) {
      run(Fusedmax<T>{scores_, parameters, p.op.parameter, apart_, values, joined(0), columns_}, 0, rows_);
    } else {
      weights_ = scores_;
      for (std::int64_t r = 0; r < rows_; ++r) {
        T* const weights = scores_ + r * columns_;
        if (limits_[r] > 0)
          entmax_row(weights, parameter_of(p.op, row + r), weights, values + r, limits_[r], peaks_, work_);
        for (std::int64_t j = limits_[r]; j < columns_; ++j) weights[j] = 0;
      }
    }
  }

  std::int64_t columns() const { return columns_; }  // keys that some query of the block may see
  std::int64_t rows() const { return rows_; }
  std::int64_t row() const { return head_ * shape_.queries + first_; }  // the first, counted over all heads
  std::int64_t limit(std::int64_t r) const { return limits_[r]; }
  const T* scaled() const { return scaled_; }
  T* scores(std::int64_t r) const { return scores_ + r * columns_; }
  T* weights(std::int64_t r) const { return weights_ + r * columns_; }
  bool* joined(std::int64_t r) const { return reinterpret_cast<bool*>(labels_) + r * columns_; }  // of fusedmax
  const std::int32_t* labels(std::int64_t r) const { return labels_ + r * columns_; }             // of oscarmax
  T* work() const { return work_; }                                                               // a row, and more

 private:
  static std::int64_t work_size(std::int64_t keys) { return 2 * candidates_size<T>(keys) + peaks_size<T>(keys); }

  template <template <class> class Problem>
  void adjust(const Problem<T>& p, std::int64_t r) const {
    T* const x = scores(r);
    const Allowed allowed = allowed_for(p, head_, first_ + r);
    const BiasRow<T> bias = bias_for(p, head_, first_ + r);
    if (bias.some())
      for (std::int64_t j = 0; j < allowed.limit; ++j) x[j] += bias.at(j);
    if (allowed.mask != nullptr)
      for (std::int64_t j = 0; j < allowed.limit; ++j) x[j] = allowed.at(j) ? x[j] : -kInfinity<T>;
    for (std::int64_t j = allowed.limit; j < columns_; ++j) x[j] = -kInfinity<T>;
  }

  const AttentionShape& shape_;
  T *scaled_, *panels_, *scores_, *apart_, *weights_ = nullptr;
  std::int32_t* labels_;
  T *peaks_, *work_;
  std::int64_t head_ = 0, first_ = 0, rows_ = 0, columns_ = 0;
  std::int64_t transposed_head_ = -1;  // the head whose keys are in the panels
  std::int64_t limits_[kQueryBlock];
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
