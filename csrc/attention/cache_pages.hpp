// The 8-bit copy of a cache of keys, and a ball around the keys of each page.
//
// The centre of a page is the mean of its keys in 8 bits, z = s z^. Where every key k of the page lies within rho of z,
//
//     q.k = q.z + q.(k - z) <= s_q s q^.z^ + |r_q| |z| + |q| rho,
//
// the bound (1) of quantisation.hpp with a residual of rho: that z is not quite the mean does not matter, since rho is
// measured from z. The score that the solver sees is off by another g |q| |k|.
#pragma once

#include "attention/decode_problems.hpp"
#include "attention/gathered_rows.hpp"
#include "attention/quantisation.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

inline float widened(std::uint16_t half, std::int64_t elements) {
  if (elements == kBfloat16) return from_bits<float>(static_cast<std::int32_t>(static_cast<std::uint32_t>(half) << 16));
  // The exponent of a float16 is smaller by 112, and multiplying also makes its denormals right.
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16, rest = half & 0x7fffu;
  const float magnitude = from_bits<float>(static_cast<std::int32_t>(rest << 13)) * 0x1p112f;
  const std::uint32_t bits = rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ffu) << 13
                                            : static_cast<std::uint32_t>(bits_of(magnitude));
  return from_bits<float>(static_cast<std::int32_t>(sign | bits));
}

// Rows of keys or values, whatever they are stored as.
template <class T>
class CacheRows {
 public:
  CacheRows(const void* first, std::int64_t elements, std::int64_t size)
      : first_(first), elements_(elements), size_(size) {}

  bool as_computed() const { return elements_ == kAsComputed; }
  const T* plain() const { return static_cast<const T*>(first_); }
  // A row; `room` for one is used where it has to be converted.
  const T* at(std::int64_t row, T* room) const {
    if (as_computed()) return plain() + row * size_;
    const std::uint16_t* halves = static_cast<const std::uint16_t*>(first_) + row * size_;
    for (std::int64_t i = 0; i < size_; ++i) room[i] = static_cast<T>(widened(halves[i], elements_));
    return room;
  }

 private:
  const void* first_;
  std::int64_t elements_, size_;
};

template <class T>
class PageWriter {
 public:
  explicit PageWriter(const QuantisePages<T>& problem)
      : p_(problem), quads_((problem.size + 3) / 4), rounding_(static_cast<float>(dot_rounding(problem.size)) * kRoundUp),
        buffer_(Buffer::size<std::int8_t>(4 * quads_) + Buffer::size<T>(problem.size) +
                2 * Buffer::size<double>(problem.size)),
        levels_(buffer_.take<std::int8_t>(4 * quads_)), row_(buffer_.take<T>(problem.size)),
        mean_(buffer_.take<double>(problem.size)), centre_(buffer_.take<double>(problem.size)) {
    for (std::int64_t i = 0; i < 4 * quads_; ++i) levels_[i] = 0;
  }

  // Keys begin..end of a page, of which those before have been written.
  void write(std::int64_t head, std::int64_t page, std::int64_t begin, std::int64_t end) {
    const std::int64_t at = head * p_.pages.pages + page;
    const CacheRows<T> keys(p_.key, p_.elements, p_.size);
    const std::int64_t first = at * kKeyGroup;
    if (begin == 0) clear(head, page);
    float residual = p_.pages.residual[at], length = p_.pages.length[at];
    for (std::int64_t k = begin; k < end; ++k) {
      Quantised found = quantise(keys.at(first + k, row_), p_.size, 127, levels_);
      if (!found.finite) {
        p_.pages.wild[at] |= std::uint64_t(1) << k;
        found = Quantised{0, 0, 0, 0, 0, true};
      }
      p_.pages.scale[first + k] = found.scale;
      p_.pages.start[first + k] = -128 * found.sum;
      residual = larger((found.residual + rounding_ * found.length) * kRoundUp, residual);
      length = larger(found.levels, length);
      put(p_.pages.levels + at * page_bytes(), k);
    }
    p_.pages.residual[at] = residual;
    p_.pages.length[at] = length;
    if (end == kKeyGroup && p_.pages.wild[at] == 0) write_ball(head, page, keys, first);
  }

 private:
  std::int64_t page_bytes() const { return quads_ * kKeyGroup * 4; }

  void put(std::int8_t* to, std::int64_t column) const {
    for (std::int64_t quad = 0; quad < quads_; ++quad)
      __builtin_memcpy(to + (quad * kKeyGroup + column) * 4, levels_ + quad * 4, 4);
  }

  void clear(std::int64_t head, std::int64_t page) {
    const std::int64_t at = head * p_.pages.pages + page;
    __builtin_memset(p_.pages.levels + at * page_bytes(), 0, static_cast<std::size_t>(page_bytes()));
    for (std::int64_t k = at * kKeyGroup; k < (at + 1) * kKeyGroup; ++k) p_.pages.scale[k] = 0, p_.pages.start[k] = 0;
    p_.pages.residual[at] = p_.pages.length[at] = 0;
    p_.pages.wild[at] = 0;
    for (std::int64_t i = 0; i < 4 * quads_; ++i) levels_[i] = 0;
    put_ball(head, page, Quantised{0, 0, 0, 0, 0, true}, kInfinity<float>);
  }

  void put_ball(std::int64_t head, std::int64_t page, const Quantised& centre, float radius) {
    const std::int64_t sections = p_.pages.sections(), section = head * sections + page / kSection;
    const std::int64_t at = head * sections * kSection + page;
    put(p_.pages.centre_levels + section * page_bytes(), page % kSection);
    p_.pages.centre_scale[at] = centre.scale;
    p_.pages.centre_start[at] = -128 * centre.sum;
    p_.pages.centre_length[at] = centre.levels;
    p_.pages.radius[at] = radius;
  }

  void write_ball(std::int64_t head, std::int64_t page, const CacheRows<T>& keys, std::int64_t first) {
    for (std::int64_t i = 0; i < p_.size; ++i) mean_[i] = 0;
    for (std::int64_t k = 0; k < kKeyGroup; ++k) {
      const T* key = keys.at(first + k, row_);
      for (std::int64_t i = 0; i < p_.size; ++i) mean_[i] += static_cast<double>(key[i]) / kKeyGroup;
    }
    const Quantised centre = quantise(mean_, p_.size, 127, levels_);
    if (!centre.finite) return;
    for (std::int64_t i = 0; i < p_.size; ++i) centre_[i] = static_cast<double>(centre.scale) * levels_[i];
    double furthest = 0, longest = 0;
    for (std::int64_t k = 0; k < kKeyGroup; ++k) {
      const T* key = keys.at(first + k, row_);
      double distance = 0, square = 0;
#pragma omp simd reduction(+ : distance, square)
      for (std::int64_t i = 0; i < p_.size; ++i) {
        const double x = static_cast<double>(key[i]), left = x - centre_[i];
        distance += left * left;
        square += x * x;
      }
      furthest = larger(distance, furthest);
      longest = larger(square, longest);
    }
    const double radius = __builtin_sqrt(furthest) + static_cast<double>(rounding_) * __builtin_sqrt(longest);
    put_ball(head, page, centre, static_cast<float>(radius) * kRoundUp + kTiny);
  }

  const QuantisePages<T>& p_;
  const std::int64_t quads_;
  const float rounding_;
  Buffer buffer_;
  std::int8_t* levels_;
  T* row_;
  double *mean_, *centre_;
};

template <class T>
void run(const QuantisePages<T>& problem, std::int64_t begin, std::int64_t end) {
  PageWriter<T> writer(problem);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t head = task / problem.span, item = head / problem.kv_heads;
    const std::int64_t page = problem.begin[item] / kKeyGroup + task % problem.span, first = page * kKeyGroup;
    const std::int64_t from = problem.begin[item] > first ? problem.begin[item] - first : 0;
    const std::int64_t to = problem.end[item] < first + kKeyGroup ? problem.end[item] - first : kKeyGroup;
    if (from < to) writer.write(head, page, from, to);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
