// The forward pass of sparse attention for blocks of queries: screen, solve on the candidates, average their values.
#pragma once

#include "attention/dense_block.hpp"
#include "attention/gathered_rows.hpp"
#include "attention/support_block.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
class ForwardTasks {
 public:
  explicit ForwardTasks(const AttentionForward<T>& problem)
      : p_(problem), shape_(problem.shape), fine_(problem.keys.fine != 0 && has_vnni()),
        stride_(shape_.key_groups() * kKeyGroup + kApart), peaks_stride_(shape_.key_groups() * kLanes<float> + kApart),
        row_bytes_(4 * shape_.quads()),
        buffer_(Screening::bytes(shape_.keys) + CandidateSolver<T>::bytes(shape_.keys) + DenseBlock<T>::bytes(shape_) +
                Buffer::size<float>(kTile * stride_) + Buffer::size<float>(kTile * peaks_stride_) +
                Buffer::size<std::uint8_t>(kTile * row_bytes_) + Buffer::size<std::int8_t>(row_bytes_) +
                Buffer::size<T>(kTile * shape_.size) + Buffer::size<T>(shape_.keys) +
                Buffer::size<std::int32_t>(shape_.keys)),
        screening_(buffer_, shape_.keys), solver_(buffer_, shape_.keys), dense_(buffer_, shape_),
        y_(buffer_.take<float>(kTile * stride_)),
        peaks_(buffer_.take<float>(kTile * peaks_stride_)), levels_(buffer_.take<std::uint8_t>(kTile * row_bytes_)),
        row_levels_(buffer_.take<std::int8_t>(row_bytes_)), scaled_(buffer_.take<T>(kTile * shape_.size)),
        dropped_(buffer_.take<T>(shape_.keys)), listed_labels_(buffer_.take<std::int32_t>(shape_.keys)) {
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
      crowded += answer(query, rows, first, query == first);
      const std::int64_t done = query + rows - first;
      const bool too_much = p_.may_refuse != 0 && block_ != nullptr && block_->size > p_.budget * (last - first);
      if (2 * crowded > done || too_much) {
        if (block_ != nullptr) release(*block_);
        p_.refused[task] = answer_densely(first, last - first);
        return;
      }
    }
  }

 private:
  const T* keys() const { return p_.key + kv_head_ * shape_.keys * shape_.size; }

  const T* values() const { return p_.value + kv_head_ * shape_.keys * shape_.value_size; }

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

  bool sees_wild(const Allowed& allowed) const {
    if (!any_wild_) return false;
    const std::int64_t groups = shape_.key_groups();
    for (std::int64_t g = 0; g * kKeyGroup < allowed.limit; ++g)
      for (std::uint64_t bits = p_.keys.wild[kv_head_ * groups + g]; bits != 0; bits &= bits - 1)
        if (allowed.at(g * kKeyGroup + __builtin_ctzll(bits))) return true;
    return false;
  }

  // Rows query .. query + rows; returns how many of them had many candidates. Where the first rows are a sample, and
  // most of them had many, the answer is left out: the task will be refused.
  std::int64_t answer(std::int64_t query, std::int64_t rows, std::int64_t first, bool samples) {
    multiply(query, rows);
    std::int64_t crowded = 0, row = 0;
    const std::int64_t sample = !samples ? 0 : rows < kSample ? rows : std::int64_t(kSample);
    for (; row < sample; ++row) {
      screen(query + row, row);
      if (is_crowded()) break;
      finish(query + row, query + row - first, row);
    }
    if (row < sample) {
      crowded = 1;
      for (std::int64_t r = row + 1; r < sample; ++r) {
        screen(query + r, r);
        crowded += is_crowded();
      }
      if (2 * crowded > sample) return rows;
      crowded = 0;
      multiply(query, rows);  // screening may have changed the products
    }
    for (; row < rows; ++row) {
      screen(query + row, row);
      crowded += is_crowded();
      finish(query + row, query + row - first, row);
    }
    return crowded;
  }

  // Approximate products of the queries with all keys that one of them may see.
  void multiply(std::int64_t query, std::int64_t rows) {
    std::int64_t most = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* q = p_.query + (head_ * shape_.queries + query + r) * shape_.size;
      T* scaled = scaled_ + r * shape_.size;
      for (std::int64_t f = 0; f < shape_.size; ++f) scaled[f] = q[f] * static_cast<T>(p_.scale);
      quantised_[r] = quantise(scaled, shape_.size, query_levels(fine_), row_levels_);
      for (std::int64_t f = 0; f < row_bytes_; ++f)
        levels_[r * row_bytes_ + f] = static_cast<std::uint8_t>(row_levels_[f] + query_offset(fine_));
      const std::int64_t limit = allowed_for(p_, head_, query + r).limit;
      most = limit > most ? limit : most;
    }
    const std::int64_t at = kv_head_ * shape_.key_groups();
    if (most > 0)
      integer_product({levels_, p_.keys.levels + at * shape_.quads() * kKeyGroup * 4, p_.keys.start + at * kKeyGroup,
                       p_.keys.scale + at * kKeyGroup, shape_.quads(), (most + kKeyGroup - 1) / kKeyGroup, y_, stride_,
                       peaks_, peaks_stride_},
                      rows, fine_);
  }

  // What screening tells about a row; the candidates are in screening_.indices().
  struct Screened {
    Allowed allowed;
    BiasRow<T> bias;
    double parameter;
    std::int64_t count;
    Screening::Found found;
  };

  bool is_crowded() const {
    return row_.found == Screening::Found::kSome && row_.count > kFew && 4 * row_.count > row_.allowed.limit;
  }

  // Lists the candidates of a row of the tile.
  void screen(std::int64_t query, std::int64_t r) {
    const std::int64_t groups = shape_.key_groups();
    row_ = {allowed_for(p_, head_, query), bias_for(p_, head_, query),
            parameter_of(p_.op, head_ * shape_.queries + query), 0, Screening::Found::kUnknown};
    const Allowed& allowed = row_.allowed;
    std::int64_t n_allowed = allowed.limit;
    if (p_.op.kind == kOscarAttention) {
      n_allowed = count_allowed(allowed, row_.bias);
      const double most = p_.op.most / static_cast<double>(n_allowed > 0 ? n_allowed : 1);
      if (row_.parameter > most) row_.parameter = most;
    }
    const Quantised& quantised = quantised_[r];
    if (quantised.finite && quantised.length * longest_ < 1e36f && !sees_wild(allowed))
      row_.found = screening_.prepare(y_ + r * stride_, peaks_ + r * peaks_stride_, allowed, row_.bias, quantised,
                                      p_.keys.residual + kv_head_ * groups, p_.keys.length + kv_head_ * groups);
    if (row_.found == Screening::Found::kSome) row_.count = screening_.list(p_.op, row_.parameter, n_allowed, allowed);
    if (row_.found != Screening::Found::kUnknown) return;
    for (std::int64_t j = 0; j < allowed.limit; ++j)
      if (allowed.at(j)) screening_.indices()[row_.count++] = static_cast<std::int32_t>(j);
  }

  // Solves on the candidates, and averages the values.
  void finish(std::int64_t query, std::int64_t place, std::int64_t r) {
    std::int32_t* indices = screening_.indices();
    const std::int64_t count = row_.count;
    prefetch_rows(keys(), shape_.size, indices, count);
    prefetch_rows(values(), shape_.value_size, indices, count);
    gathered_products(scaled_ + r * shape_.size, keys(), shape_.size, indices, count, solver_.scores());
    if (row_.bias.some())
      for (std::int64_t i = 0; i < count; ++i) solver_.scores()[i] += row_.bias.at(indices[i]);
    const std::int32_t first_candidate = count > 0 ? indices[0] : 0;
    typename CandidateSolver<T>::Support support = solver_.solve(
        indices, count, p_.op.kind, row_.parameter, row_.allowed.limit,
        [&](std::int64_t j) { return row_.found == Screening::Found::kUnknown || screening_.is_removed(j); });
    write(head_ * shape_.queries + query, place, support, first_candidate);
  }

  // In dense_forward.hpp.
  bool answer_densely(std::int64_t first, std::int64_t rows);
  bool all_finite();
  void write_listed(std::int64_t r);
  void choose_best(std::int64_t r);

  // Scores of -inf are out of the row as masked ones are.
  std::int64_t count_allowed(const Allowed& allowed, const BiasRow<T>& bias) const {
    if (allowed.mask == nullptr && !bias.some()) return allowed.limit;
    std::int64_t count = 0;
    for (std::int64_t j = 0; j < allowed.limit; ++j)
      count += allowed.at(j) && !(bias.some() && bias.at(j) == -kInfinity<T>);
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
    gathered_sum(weights, values(), shape_.value_size, support.indices, support.count, output);
    if (block_ != nullptr) append(*block_, place, support, labelled);
  }

  const AttentionForward<T>& p_;
  const AttentionShape& shape_;
  const bool fine_;
  static constexpr std::int64_t kSample = 3;  // rows that tell whether a task is to be refused
  static constexpr std::int64_t kFew = 64;    // candidates that never are too many
  static constexpr std::int64_t kApart = 80;  // so that rows do not share their places in a cache
  const std::int64_t stride_, peaks_stride_, row_bytes_;
  Buffer buffer_;
  Screening screening_;
  CandidateSolver<T> solver_;
  DenseBlock<T> dense_;
  float *y_, *peaks_;
  std::uint8_t* levels_;
  std::int8_t* row_levels_;
  T *scaled_, *dropped_;
  std::int32_t* listed_labels_;
  std::int64_t head_ = 0, kv_head_ = 0;
  SupportBlock<T>* block_ = nullptr;
  Quantised quantised_[kTile];
  Screened row_{};
  float longest_ = 0;
  bool any_wild_ = false, values_finite_ = false;
  std::int64_t checked_ = -1;  // the head whose values were checked
};

template <class T>
void run(const AttentionForward<T>& problem, std::int64_t begin, std::int64_t end) {
  ForwardTasks<T> tasks(problem);
  for (std::int64_t task = begin; task < end; ++task) tasks.run(task);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
