// What the steps of decoding share: a few quantised queries that share their keys, what a row may see, and its floor.
#pragma once

#include "attention/cache_pages.hpp"
#include "attention/screening.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr float kFloorSlack = 1e-4f;  // more than rounding takes from a threshold, in units of scores

// One row of queries: `row` counts all of them.
struct DecodeRow {
  Allowed allowed;
  double parameter;
  std::int64_t n_allowed;
};

template <class T>
inline DecodeRow row_of(const Decode<T>& p, std::int64_t row) {
  const std::int64_t head = row / p.shape.queries, query = row % p.shape.queries, item = head / p.shape.heads;
  const bool* mask = p.mask.first;
  if (mask != nullptr)
    mask += item * p.mask.batch_stride + head % p.shape.heads * p.mask.head_stride + query * p.mask.query_stride;
  const std::int64_t limit = p.limits[item * p.shape.queries + query];
  DecodeRow found{{limit, mask, p.mask.key_stride},
                  p.op.parameters != nullptr ? p.op.parameters[row] : p.op.parameter,
                  p.n_allowed != nullptr ? p.n_allowed[row] : limit};
  if (p.op.kind == kOscarAttention) {
    const double most = p.op.most / static_cast<double>(found.n_allowed > 0 ? found.n_allowed : 1);
    if (found.parameter > most) found.parameter = most;
  }
  return found;
}

// How far below the largest score a key can have weight; infinite where the largest score does not tell.
inline float window_of(const AttentionOperator& op, double parameter, double count) {
  if (op.kind == kEntmaxAttention)
    return parameter > 1 ? static_cast<float>(kRoundUp / (parameter - 1)) + kFloorSlack : kInfinity<float>;
  if (op.kind == kOscarAttention)  // see lowest_useful in csrc/rows, with k = 1
    return static_cast<float>((1 + parameter * (count - 1)) * kRoundUp) + kFloorSlack;
  if (op.kind == kFusedAttention) return static_cast<float>((1 + 4 * parameter) * kRoundUp) + kFloorSlack;
  return kInfinity<float>;
}

// A score is at least this, where its approximate score is x and off by at most `bound` (quantisation.hpp).
template <class V>
inline V lower_bound(V x, float bound) {
  return x - larger(x, -x) * kRelative - bound;
}

// Above which an approximate score may belong to a score above the floor; see level in screening.hpp.
inline float level_of(float floor, float bound) {
  return floor - bound - 2 * kRelative * (larger(floor, -floor) + bound);
}

template <class T>
inline float page_bound(const Decode<T>& p, const Quantised& query, std::int64_t page) {
  return (query.length * p.pages.residual[page] + query.residual * p.pages.length[page]) * kRoundUp + kTiny;
}

// The floor of some scores, given lower bounds of them: for the k best, the k-th largest; otherwise a window below the
// largest. Such a floor is exact in floating point, so it does not matter which scores below the floor are left out.
// Overwrites the lower bounds.
inline float floor_of(const AttentionOperator& op, const DecodeRow& row, float* lows, std::int64_t count) {
  if (op.kind == kTopAttention) {
    if (static_cast<double>(count) < row.parameter) return -kInfinity<float>;
    const float least = kth_largest(lows, count, static_cast<std::int64_t>(row.parameter));
    return least - larger(least, -least) * kRelative - kTiny;
  }
  float top = -kInfinity<float>;
  for (std::int64_t i = 0; i < count; ++i) top = larger(lows[i], top);
  return top - window_of(op, row.parameter, static_cast<double>(row.n_allowed));
}

inline float read_floor(const float* floor) {
  std::int32_t bits;
  __atomic_load(reinterpret_cast<const std::int32_t*>(floor), &bits, __ATOMIC_RELAXED);
  return from_bits<float>(bits);
}

// Sections that other threads scan raise the same floor.
inline void raise_floor(float* floor, float to) {
  std::int32_t* place = reinterpret_cast<std::int32_t*>(floor);
  std::int32_t before = bits_of(read_floor(floor));
  const std::int32_t after = bits_of(to);
  while (to > from_bits<float>(before) &&
         !__atomic_compare_exchange_n(place, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// The rows of a head of the keys, kTile at a time, quantised.
template <class T>
class QueryTile {
 public:
  QueryTile(const Decode<T>& problem)
      : p_(problem), fine_(problem.fine != 0 && has_vnni()), bytes_(4 * problem.shape.quads()),
        buffer_(Buffer::size<std::uint8_t>(kTile * bytes_) + Buffer::size<std::int8_t>(bytes_) +
                Buffer::size<T>(problem.shape.size) + Buffer::size<std::int32_t>(kStarts)),
        levels_(buffer_.template take<std::uint8_t>(kTile * bytes_)),
        row_levels_(buffer_.template take<std::int8_t>(bytes_)), scaled_(buffer_.template take<T>(problem.shape.size)),
        starts_(buffer_.template take<std::int32_t>(kStarts)) {
    for (std::int64_t i = 0; i < bytes_; ++i) row_levels_[i] = 0;
    for (std::int64_t i = 0; i < kTile * bytes_; ++i) levels_[i] = 0;
  }

  // Keys of so many pages may be multiplied at once.
  static constexpr std::int64_t kPages = 16;

  void load(std::int64_t first_row, std::int64_t rows) {
    rows_ = rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* query = p_.query + (first_row + r) * p_.shape.size;
      for (std::int64_t i = 0; i < p_.shape.size; ++i) scaled_[i] = query[i] * static_cast<T>(p_.scale);
      quantised_[r] = quantise(scaled_, p_.shape.size, query_levels(fine_), row_levels_);
      for (std::int64_t i = 0; i < bytes_; ++i)
        levels_[r * bytes_ + i] = static_cast<std::uint8_t>(row_levels_[i] + query_offset(fine_));
    }
  }

  const Quantised& quantised(std::int64_t r) const { return quantised_[r]; }

  // Products with `groups` groups of 64 vectors, of all rows or of one.
  void multiply(const std::int8_t* levels, const std::int32_t* start, const float* scale, std::int64_t groups, float* y,
                std::int64_t stride, float* peaks, std::int64_t peaks_stride, std::int64_t only = -1) const {
    if (!fine_) {  // queries have an offset of 64, not 128
      for (std::int64_t i = 0; i < groups * kKeyGroup; ++i) starts_[i] = start[i] / 2;
      start = starts_;
    }
    const std::uint8_t* queries = only < 0 ? levels_ : levels_ + only * bytes_;
    integer_product({queries, levels, start, scale, p_.shape.quads(), groups, y, stride, peaks, peaks_stride},
                    only < 0 ? rows_ : 1, fine_);
  }

  // Products with the keys of some pages, counted over all heads.
  void multiply_pages(std::int64_t page, std::int64_t pages, float* y, std::int64_t stride, float* peaks,
                      std::int64_t peaks_stride, std::int64_t only = -1) const {
    multiply(p_.pages.levels + page * bytes_ * kKeyGroup, p_.pages.start + page * kKeyGroup,
             p_.pages.scale + page * kKeyGroup, pages, y, stride, peaks, peaks_stride, only);
  }

  // Products with the centres of the pages of a section, counted over all heads.
  void multiply_centres(std::int64_t section, float* y, float* peaks) const {
    multiply(p_.pages.centre_levels + section * bytes_ * kKeyGroup, p_.pages.centre_start + section * kSection,
             p_.pages.centre_scale + section * kSection, 1, y, kSection, peaks, kLanes<float>);
  }

 private:
  static constexpr std::int64_t kStarts = kPages * kKeyGroup;
  const Decode<T>& p_;
  const bool fine_;
  const std::int64_t bytes_;
  Buffer buffer_;
  std::uint8_t* levels_;
  std::int8_t* row_levels_;
  T* scaled_;
  std::int32_t* starts_;
  Quantised quantised_[kTile];
  std::int64_t rows_ = 0;
};

// Puts -inf where a row may not look, on one page.
inline void hide(float* y, const Allowed& allowed, std::int64_t first) {
  for (std::int64_t k = allowed.limit > first ? allowed.limit - first : 0; k < kKeyGroup; ++k) y[k] = -kInfinity<float>;
  if (allowed.mask != nullptr)
    for (std::int64_t k = 0; k < kKeyGroup && first + k < allowed.limit; ++k)
      if (!allowed.mask[(first + k) * allowed.stride]) y[k] = -kInfinity<float>;
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
