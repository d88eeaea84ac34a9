// The last step of decoding: of the candidates of all sections those above the last floor, their exact weights, and
// the output.
#pragma once

#include "attention/decode_scan.hpp"
#include "attention/forward.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// The candidates of one row: keys in order, approximate scores, and lower bounds of scores.
class DecodeCandidates {
 public:
  explicit DecodeCandidates(std::int64_t most)
      : buffer_(Buffer::size<std::int32_t>(most) + 4 * Buffer::size<float>(most + kRoom)),
        indices_(buffer_.take<std::int32_t>(most)), scores_(buffer_.take<float>(most + kRoom)),
        bounds_(buffer_.take<float>(most + kRoom)), lows_(buffer_.take<float>(most + kRoom)),
        list_(buffer_.take<float>(most + kRoom)) {}

  std::int32_t* indices() const { return indices_; }
  std::int64_t count() const { return count_; }

  void add(std::int32_t index) { indices_[count_++] = index; }

  void add(std::int32_t index, float score, float bound, float floor) {
    indices_[count_] = index;
    scores_[count_] = score;
    bounds_[count_] = bound;
    count_ += score > level_of(floor, bound);
  }

  // Lower bounds of the scores of candidates have a threshold too, which is at most that of the scores.
  void tighten(const AttentionOperator& op, const DecodeRow& row) {
    constexpr std::int64_t kWorthIt = 24;
    if (count_ <= kWorthIt || op.kind == kFusedAttention) return;
    top_ = -kInfinity<float>;
    for (std::int64_t i = 0; i < count_; ++i) {
      lows_[i] = lower_bound(scores_[i], bounds_[i]);
      top_ = larger(lows_[i], top_);
    }
    const double e = row.parameter - 1;
    if (op.kind == kOscarAttention) {
      for (std::int64_t before = 0; before != count_;) {
        before = count_;
        keep_above(top_ - window_of(op, row.parameter, static_cast<double>(count_)));
      }
    } else if (op.kind == kTopAttention) keep_above(floor_of(op, row, lows_, count_));
    else if (e == 1) keep_above(power_floor<Linear>());
    else if (e == 0.5) keep_above(power_floor<Square>());
    else if (e > 0 && e < 1) keep_above(below_two_floor(e));
  }

 private:
  static constexpr std::int64_t kRoom = (kBlock + 1) * kLanes<float>;

  void keep_above(float floor) {
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int32_t index = indices_[i];
      const float score = scores_[i], bound = bounds_[i];
      indices_[kept] = index;
      scores_[kept] = score;
      bounds_[kept] = bound;
      kept += score > level_of(floor, bound);
    }
    count_ = kept;
  }

  // Lists (low - top) * scale above -1.
  std::int64_t relative(float scale) {
    std::int64_t kept = 0;
    const Vector<float> floor = splat(-1.0f);
    each_vector<float>(count_, [&](std::int64_t i, std::int64_t lanes) {
      const Vector<float> y = (load_lanes(lows_ + i, lanes, -kInfinity<float>) - top_) * scale;
      const unsigned bits = where_greater(y, floor);
      if (bits != 0) kept += compress<float>(list_ + kept, y, bits);
    });
    return pad(list_, kept, -4.0f);
  }

  template <class Power>
  float power_floor() {
    const std::int64_t kept = relative(static_cast<float>(1 / Power::kOrder));
    const float level = find_threshold<Power>(Listing<float>{list_, kept}, -1.0f).high;
    return top_ + level * static_cast<float>(Power::kOrder) - kFloorSlack;
  }

  float below_two_floor(double e) {
    const double level = below_two_level(list_, relative(static_cast<float>(e)), e) * 1.001;  // as in screening.hpp
    return top_ - static_cast<float>((level < 1 ? level : 1) / e) - kFloorSlack;
  }

  Buffer buffer_;
  std::int32_t* indices_;
  float *scores_, *bounds_, *lows_, *list_;
  std::int64_t count_ = 0;
  float top_ = 0;
};

template <class T>
class DecodeSolver {
 public:
  explicit DecodeSolver(const Decode<T>& problem) : p_(problem) {}

  void run(std::int64_t head) {
    for (std::int64_t query = 0; query < p_.shape.queries; ++query) answer(head, query);
  }

 private:
  static constexpr std::int64_t kFew = 4096;  // candidates that never are too many

  void answer(std::int64_t head, std::int64_t query) {
    const std::int64_t row = head * p_.shape.queries + query, kv_head = p_.shape.kv_head(head);
    const DecodeRow about = row_of(p_, row);
    const bool unknown = p_.unknown[row] != 0;
    p_.refused[row] = 0;
    if (unknown && p_.may_refuse != 0) return refuse(row);
    Scratch<T> scaled(p_.shape.size);
    for (std::int64_t i = 0; i < p_.shape.size; ++i)
      scaled.get()[i] = p_.query[row * p_.shape.size + i] * static_cast<T>(p_.scale);
    DecodeCandidates candidates(unknown ? about.allowed.limit : n_collected(kv_head, row));
    if (unknown) {
      for (std::int64_t j = 0; j < about.allowed.limit; ++j)
        if (about.allowed.at(j)) candidates.add(static_cast<std::int32_t>(j));
    } else {
      merge(kv_head, row, scaled.get(), candidates);
      candidates.tighten(p_.op, about);
      if (p_.may_refuse != 0 && candidates.count() > kFew && 4 * candidates.count() > about.allowed.limit)
        return refuse(row);
    }
    solve(head, query, about, unknown, scaled.get(), candidates);
  }

  void refuse(std::int64_t row) const { p_.refused[row] = 1; }

  const CandidateBlock& block(std::int64_t kv_head, std::int64_t section, std::int64_t row) const {
    return p_.blocks[(kv_head * p_.used_sections() + section) * p_.rows() + row % p_.rows()];
  }

  std::int64_t n_collected(std::int64_t kv_head, std::int64_t row) const {
    std::int64_t total = 0;
    for (std::int64_t s = 0; s < p_.used_sections(); ++s) total += block(kv_head, s, row).size;
    return total;
  }

  void merge(std::int64_t kv_head, std::int64_t row, const T* scaled, DecodeCandidates& candidates) const {
    Scratch<std::int8_t> levels(4 * p_.shape.quads());
    const bool fine = p_.fine != 0 && has_vnni();
    const Quantised query = quantise(scaled, p_.shape.size, query_levels(fine), levels.get());
    const float floor = p_.floors[row];
    for (std::int64_t s = 0; s < p_.used_sections(); ++s) {
      const CandidateBlock& from = block(kv_head, s, row);
      for (std::int64_t i = 0; i < from.size; ++i) {
        const float bound = page_bound(p_, query, kv_head * p_.pages.pages + from.indices[i] / kKeyGroup);
        candidates.add(from.indices[i], from.scores[i], bound, floor);
      }
    }
  }

  void solve(std::int64_t head, std::int64_t query, const DecodeRow& about, bool unknown, const T* scaled,
             const DecodeCandidates& candidates) {
    const std::int64_t count = candidates.count(), first = p_.shape.kv_head(head) * p_.capacity();
    std::int32_t* indices = candidates.indices();
    Buffer buffer(CandidateSolver<T>::bytes(count + 1));
    CandidateSolver<T> solver(buffer, count + 1);
    products(first, scaled, indices, count, solver.scores());
    const std::int32_t first_candidate = count > 0 ? indices[0] : 0;
    const typename CandidateSolver<T>::Support support =
        solver.solve(indices, count, p_.op.kind, about.parameter, about.allowed.limit,
                     [&](std::int64_t j) { return unknown || !about.allowed.at(j); });
    const std::int64_t row = head * p_.shape.queries + query;
    T* output = p_.output + row * p_.shape.value_size;
    const bool labelled = p_.op.kind == kOscarAttention || p_.op.kind == kFusedAttention;
    SupportBlock<T>* kept = p_.support != nullptr ? p_.support + head : nullptr;
    if (support.bad) {
      const T nan = kNaN<T>;
      const std::int32_t label = 0;
      for (std::int64_t f = 0; f < p_.shape.value_size; ++f) output[f] = nan;
      if (kept != nullptr) append(*kept, query, {&first_candidate, &nan, &label, 1, true}, labelled);
      return;
    }
    average(first, support, output);
    if (kept != nullptr) append(*kept, query, support, labelled);
  }

  void products(std::int64_t first, const T* scaled, const std::int32_t* indices, std::int64_t count, T* scores) const {
    const std::int64_t size = p_.shape.size;
    const CacheRows<T> keys(p_.key, p_.elements, size);
    if (keys.as_computed()) {
      const T* rows = keys.plain() + first * size;
      prefetch_rows(rows, size, indices, count);
      return gathered_products(scaled, rows, size, indices, count, scores);
    }
    Scratch<T> row(size);
    const std::int32_t itself = 0;
    for (std::int64_t i = 0; i < count; ++i)
      gathered_products(scaled, keys.at(first + indices[i], row.get()), size, &itself, 1, scores + i);
  }

  void average(std::int64_t first, const typename CandidateSolver<T>::Support& support, T* output) const {
    const std::int64_t size = p_.shape.value_size;
    const CacheRows<T> values(p_.value, p_.elements, size);
    if (values.as_computed()) {
      const T* rows = values.plain() + first * size;
      prefetch_rows(rows, size, support.indices, support.count);
      return gathered_sum(support.weights, rows, size, support.indices, support.count, output);
    }
    Scratch<T> row(size);
    for (std::int64_t f = 0; f < size; ++f) output[f] = 0;
    for (std::int64_t i = 0; i < support.count; ++i)
      add_scaled(output, support.weights[i], values.at(first + support.indices[i], row.get()), size);
  }

  const Decode<T>& p_;
};

// Heads begin..end of the queries.
template <class T>
void run(const DecodeSolve<T>& problem, std::int64_t begin, std::int64_t end) {
  DecodeSolver<T> solver(problem.call);
  for (std::int64_t head = begin; head < end; ++head) solver.run(head);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
