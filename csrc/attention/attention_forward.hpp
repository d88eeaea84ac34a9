// The forward pass of sparse attention for blocks of queries: screen, solve on the candidates, average their values.
#pragma once

#include <cstdlib>

#include "candidate_solver.hpp"
#include "gathered_rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline double parameter_of(const AttentionOperator& op, std::int64_t row) {
  return op.parameters != nullptr ? op.parameters[row] : op.parameter;
}

template <class T>
inline void append(SupportBlock<T>& block, std::int64_t row, const typename CandidateSolver<T>::Support& found,
                   bool labelled) {
  if (block.size + found.count > block.capacity) {
    const std::int64_t capacity = 2 * block.capacity + found.count + 1024;
    const auto grow = [&](auto*& array) {
      void* larger_array = std::realloc(array, static_cast<std::size_t>(capacity) * sizeof(*array));
      if (larger_array == nullptr) throw std::bad_alloc();
      array = static_cast<std::remove_reference_t<decltype(array)>>(larger_array);
    };
    grow(block.indices);
    grow(block.weights);
    if (labelled) grow(block.labels);
    block.capacity = capacity;
  }
  const std::size_t n = static_cast<std::size_t>(found.count);
  if (n > 0) {
    __builtin_memcpy(block.indices + block.size, found.indices, n * sizeof(std::int32_t));
    __builtin_memcpy(block.weights + block.size, found.weights, n * sizeof(T));
    if (labelled) __builtin_memcpy(block.labels + block.size, found.labels, n * sizeof(std::int32_t));
  }
  block.size += found.count;
  block.counts[row] = static_cast<std::int32_t>(found.count);
}

template <class T>
inline void release(SupportBlock<T>& block) {
  std::free(block.indices);
  std::free(block.weights);
  std::free(block.labels);
  block = SupportBlock<T>{};
}

template <class T>
class ForwardTasks {
 public:
  explicit ForwardTasks(const AttentionForward<T>& problem)
      : p_(problem), shape_(problem.shape), fine_(problem.keys.fine != 0 && has_vnni()),
        padded_(shape_.key_groups() * kKeyGroup), row_bytes_(4 * shape_.quads()),
        buffer_(Screening::bytes(shape_.keys) + CandidateSolver<T>::bytes(shape_.keys) +
                Buffer::size<float>(kTile * padded_) + Buffer::size<std::uint8_t>(kTile * row_bytes_) +
                Buffer::size<std::int8_t>(row_bytes_) + Buffer::size<T>(kTile * shape_.size) +
                Buffer::size<T>(shape_.keys)),
        screening_(buffer_, shape_.keys), solver_(buffer_, shape_.keys), y_(buffer_.take<float>(kTile * padded_)),
        levels_(buffer_.take<std::uint8_t>(kTile * row_bytes_)), row_levels_(buffer_.take<std::int8_t>(row_bytes_)),
        scaled_(buffer_.take<T>(kTile * shape_.size)), dropped_(buffer_.take<T>(shape_.keys)) {
    for (std::int64_t i = 0; i < kTile * row_bytes_; ++i) levels_[i] = 0;
    for (std::int64_t i = 0; i < row_bytes_; ++i) row_levels_[i] = 0;
  }

  void run(std::int64_t task) {
    const std::int64_t blocks = shape_.query_blocks();
    head_ = task / blocks;
    kv_head_ = shape_.kv_head(head_);
    const std::int64_t first = task % blocks * kQueryBlock;
    const std::int64_t last = first + kQueryBlock < shape_.queries ? first + kQueryBlock : shape_.queries;
    block_ = p_.blocks != nullptr ? p_.blocks + task : nullptr;
    find_longest();
    p_.refused[task] = 0;
    std::int64_t crowded = 0;
    for (std::int64_t query = first; query < last; query += kTile) {
      const std::int64_t rows = query + kTile < last ? std::int64_t(kTile) : last - query;
      crowded += answer(query, rows, first);
      const std::int64_t done = query + rows - first;
      const bool too_much = block_ != nullptr && block_->size > p_.budget * (last - first);
      if (p_.may_refuse != 0 && (2 * crowded > done || too_much)) {
        p_.refused[task] = 1;
        if (block_ != nullptr) release(*block_);
        return;
      }
    }
  }

 private:
  const T* keys() const { return p_.key + kv_head_ * shape_.keys * shape_.size; }

  // The longest vectors of levels and residuals among the keys: where a query could make a float overflow with them,
  // it is not screened.
  void find_longest() {
    const std::int64_t groups = shape_.key_groups();
    longest_ = 0;
    for (std::int64_t g = kv_head_ * groups; g < (kv_head_ + 1) * groups; ++g)
      longest_ = larger(p_.keys.length[g] + p_.keys.residual[g], longest_);
    any_wild_ = false;
    for (std::int64_t g = kv_head_ * groups; g < (kv_head_ + 1) * groups; ++g) any_wild_ |= p_.keys.wild[g] != 0;
  }

  Allowed allowed_for(std::int64_t query) const {
    std::int64_t limit = shape_.keys;
    if (p_.lengths != nullptr && p_.lengths[head_] < limit) limit = p_.lengths[head_];
    const std::int64_t seen = shape_.keys - shape_.queries + query + 1;
    if (p_.causal != 0 && seen < limit) limit = seen > 0 ? seen : 0;
    return {limit, row_of(p_.mask, query), p_.mask.key_stride};
  }

  template <class U>
  const U* row_of(const Broadcast<U>& scores, std::int64_t query) const {
    if (scores.first == nullptr) return nullptr;
    return scores.first + head_ / shape_.heads * scores.batch_stride + head_ % shape_.heads * scores.head_stride +
           query * scores.query_stride;
  }

  BiasRow<T> bias_for(std::int64_t query) const {
    return {row_of(p_.bias, query), p_.bias.key_stride};
  }

  bool sees_wild(const Allowed& allowed) const {
    if (!any_wild_) return false;
    const std::int64_t groups = shape_.key_groups();
    for (std::int64_t g = 0; g * kKeyGroup < allowed.limit; ++g)
      for (std::uint64_t bits = p_.keys.wild[kv_head_ * groups + g]; bits != 0; bits &= bits - 1)
        if (allowed.at(g * kKeyGroup + __builtin_ctzll(bits))) return true;
    return false;
  }

  // Rows query .. query + rows; returns how many of them had many candidates.
  std::int64_t answer(std::int64_t query, std::int64_t rows, std::int64_t first) {
    Quantised quantised[kTile];
    std::int64_t most = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* q = p_.query + (head_ * shape_.queries + query + r) * shape_.size;
      T* scaled = scaled_ + r * shape_.size;
      for (std::int64_t f = 0; f < shape_.size; ++f) scaled[f] = q[f] * static_cast<T>(p_.scale);
      quantised[r] = quantise(scaled, shape_.size, query_levels(fine_), row_levels_);
      for (std::int64_t f = 0; f < row_bytes_; ++f)
        levels_[r * row_bytes_ + f] = static_cast<std::uint8_t>(row_levels_[f] + query_offset(fine_));
      const std::int64_t limit = allowed_for(query + r).limit;
      most = limit > most ? limit : most;
    }
    const std::int64_t groups = shape_.key_groups(), at = kv_head_ * groups;
    if (most > 0)
      integer_product({levels_, p_.keys.levels + at * shape_.quads() * kKeyGroup * 4, p_.keys.start + at * kKeyGroup,
                       p_.keys.scale + at * kKeyGroup, shape_.quads(), (most + kKeyGroup - 1) / kKeyGroup, y_, padded_},
                      rows, fine_);
    std::int64_t crowded = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      crowded += answer_row(query + r, query + r - first, scaled_ + r * shape_.size, quantised[r], y_ + r * padded_);
    return crowded;
  }

  bool answer_row(std::int64_t query, std::int64_t place, const T* scaled, const Quantised& quantised, float* x) {
    const std::int64_t row = head_ * shape_.queries + query, groups = shape_.key_groups();
    const Allowed allowed = allowed_for(query);
    const BiasRow<T> bias = bias_for(query);
    double parameter = parameter_of(p_.op, row);
    std::int64_t n_allowed = allowed.limit;
    if (p_.op.kind == kOscarAttention) n_allowed = count_allowed(allowed, bias);
    if (p_.op.kind == kOscarAttention && n_allowed > 0) {
      const double most = p_.op.most / static_cast<double>(n_allowed);
      if (parameter > most) parameter = most;
    }
    std::int32_t* indices = screening_.indices();
    std::int64_t count = 0;
    const bool screens = quantised.finite && quantised.length * longest_ < 1e36f && !sees_wild(allowed);
    const auto found = !screens ? Screening::Found::kUnknown
                                : screening_.prepare(x, allowed, bias, quantised, p_.keys.residual + kv_head_ * groups,
                                                     p_.keys.length + kv_head_ * groups);
    if (found == Screening::Found::kSome) {
      count = screening_.list(x, p_.op, parameter, n_allowed);
    } else if (found == Screening::Found::kUnknown) {
      for (std::int64_t j = 0; j < allowed.limit; ++j)
        if (allowed.at(j)) indices[count++] = static_cast<std::int32_t>(j);
    }
    const bool crowded = count > 64 && 4 * count > allowed.limit;
    gathered_products(scaled, keys(), shape_.size, indices, count, solver_.scores());
    if (bias.some())
      for (std::int64_t i = 0; i < count; ++i) solver_.scores()[i] += bias.at(indices[i]);
    const std::int32_t first_candidate = count > 0 ? indices[0] : 0;
    typename CandidateSolver<T>::Support support =
        solver_.solve(indices, count, p_.op.kind, parameter, allowed.limit, [&](std::int64_t j) {
          return found == Screening::Found::kSome ? x[j] == -kInfinity<float> : true;
        });
    write(row, place, support, first_candidate);
    return crowded && found != Screening::Found::kUnknown;
  }

  // Scores of -inf are out of the row as masked ones are.
  std::int64_t count_allowed(const Allowed& allowed, const BiasRow<T>& bias) const {
    if (allowed.mask == nullptr && !bias.some()) return allowed.limit;
    std::int64_t count = 0;
    for (std::int64_t j = 0; j < allowed.limit; ++j) count += allowed.at(j) && !(bias.some() && bias.at(j) == -kInfinity<T>);
    return count;
  }

  void write(std::int64_t row, std::int64_t place, typename CandidateSolver<T>::Support& support,
             std::int32_t first_candidate) {
    T* output = p_.output + row * shape_.value_size;
    const bool labelled = p_.op.kind == kOscarAttention || p_.op.kind == kFusedAttention;
    if (support.bad) {
      for (std::int64_t f = 0; f < shape_.value_size; ++f) output[f] = kNaN<T>;
      const T nan = kNaN<T>;
      const std::int32_t label = 0;
      if (block_ != nullptr) append(*block_, place, {&first_candidate, &nan, &label, 1, true}, labelled);
      return;
    }
    const T* weights = support.weights;
    const DropoutFactors factors(p_.dropout, row, shape_.keys);
    if (factors.some()) {
      for (std::int64_t i = 0; i < support.count; ++i)
        dropped_[i] = support.weights[i] * static_cast<T>(factors.at(support.indices[i]));
      weights = dropped_;
    }
    gathered_sum(weights, p_.value + kv_head_ * shape_.keys * shape_.value_size, shape_.value_size, support.indices,
                 support.count, output);
    if (block_ != nullptr) append(*block_, place, support, labelled);
  }

  const AttentionForward<T>& p_;
  const AttentionShape& shape_;
  const bool fine_;
  const std::int64_t padded_, row_bytes_;
  Buffer buffer_;
  Screening screening_;
  CandidateSolver<T> solver_;
  float* y_;
  std::uint8_t* levels_;
  std::int8_t* row_levels_;
  T *scaled_, *dropped_;
  std::int64_t head_ = 0, kv_head_ = 0;
  SupportBlock<T>* block_ = nullptr;
  float longest_ = 0;
  bool any_wild_ = false;
};

template <class T>
void run(const AttentionForward<T>& problem, std::int64_t begin, std::int64_t end) {
  ForwardTasks<T> tasks(problem);
  for (std::int64_t task = begin; task < end; ++task) tasks.run(task);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
