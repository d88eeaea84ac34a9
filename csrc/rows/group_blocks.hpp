// Grouped entries arranged for vectors: a group runs down one lane of a block, so that sums over groups are plain sums
// of vectors, and the numbers derived from them are computed for a vector of groups at a time.
#pragma once

#include <cstdint>

#include "core/buffer.hpp"
#include "core/simd.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

struct GroupBlock {
  std::int32_t start, depth;  // in vectors
  bool whole;                 // one long group fills all lanes
};

class GroupBlocks {
 public:
  // For at most n entries in vectors of `lanes`.
  static std::int64_t bytes(std::int64_t n) { return 4 * Buffer::size<std::int32_t>(n) + Buffer::size<GroupBlock>(n); }
  GroupBlocks(Buffer& buffer, std::int64_t n, int lanes)
      : lanes_(lanes), slot_(buffer.take<std::int32_t>(n)), size_(buffer.take<std::int32_t>(n)),
        first_(buffer.take<std::int32_t>(n)), stride_(buffer.take<std::int32_t>(n)),
        blocks_(buffer.take<GroupBlock>(n)) {}

  // Places that n entries may need: groups are sorted by size, so that what their blocks leave empty adds up to little.
  static std::int64_t capacity(std::int64_t n, int lanes) { return n + n / kLong + kLong * lanes * lanes; }

  // `group` numbers the group of each of n entries from 0 to groups - 1, each of which occurs.
  void arrange(const std::int32_t* group, std::int64_t n, std::int32_t groups) {
    for (std::int32_t g = 0; g < groups; ++g) size_[g] = 0;
    for (std::int64_t i = 0; i < n; ++i) slot_[i] = size_[group[i]]++;  // for now the place within the group
    std::int32_t after[kLong * kMostLanes + 2] = {};                    // how many groups are larger
    const std::int32_t longest = kLong * lanes_;
    const auto capped = [&](std::int32_t g) { return size_[g] < longest ? size_[g] : longest; };
    for (std::int32_t g = 0; g < groups; ++g) ++after[capped(g)];
    const std::int32_t n_long = after[longest];
    std::int32_t larger = 0;
    for (std::int32_t size = longest; size > 0; --size) {
      const std::int32_t own = after[size];
      after[size] = larger;
      larger += own;
    }
    count_ = n_long + (groups - n_long + lanes_ - 1) / lanes_;
    for (std::int32_t g = 0; g < groups; ++g) {
      const std::int32_t rank = after[capped(g)]++;
      const bool is_long = rank < n_long;
      const std::int32_t lane = is_long ? 0 : (rank - n_long) % lanes_;
      const std::int32_t block = is_long ? rank : n_long + (rank - n_long) / lanes_;
      first_[g] = block * lanes_ + lane;  // for now the block and the lane
      stride_[g] = is_long ? 1 : lanes_;
      if (lane == 0) blocks_[block] = {0, is_long ? (size_[g] + lanes_ - 1) / lanes_ : size_[g], is_long && lanes_ > 1};
    }
    vectors_ = 0;
    for (std::int32_t b = 0; b < count_; ++b) {
      blocks_[b].start = static_cast<std::int32_t>(vectors_);
      vectors_ += blocks_[b].depth;
    }
    for (std::int32_t g = 0; g < groups; ++g)
      first_[g] = blocks_[first_[g] / lanes_].start * lanes_ + first_[g] % lanes_;
    for (std::int64_t i = 0; i < n; ++i) slot_[i] = first_[group[i]] + slot_[i] * stride_[group[i]];
  }

  const GroupBlock* begin() const { return blocks_; }
  const GroupBlock* end() const { return blocks_ + count_; }
  std::int64_t places() const { return vectors_ * lanes_; }
  const std::int32_t* slot() const { return slot_; }  // the place of each entry

 private:
  static constexpr int kLong = 4;  // vectors that a long group fills at least
  static constexpr int kMostLanes = 16;

  int lanes_;
  std::int32_t *slot_, *size_, *first_, *stride_;
  GroupBlock* blocks_;
  std::int32_t count_ = 0;
  std::int64_t vectors_ = 0;
};

// The groups of some positions, numbered as they appear.
class GroupNumbers {
 public:
  static std::int64_t bytes(std::int64_t n) { return 2 * Buffer::size<std::int32_t>(n); }
  GroupNumbers(Buffer& buffer, const std::int64_t* groups, std::int64_t n)
      : groups_(groups), number_(buffer.take<std::int32_t>(n)), own_(buffer.take<std::int32_t>(n)) {
    for (std::int64_t i = 0; i < n; ++i) number_[i] = -1;
  }

  // Arranges the entries at position(0), ..., position(n - 1).
  template <class Position>
  void arrange(GroupBlocks& blocks, std::int64_t n, Position position) {
    std::int32_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int32_t& number = number_[groups_[position(i)]];
      if (number < 0) number = count++;
      own_[i] = number;
    }
    for (std::int64_t i = 0; i < n; ++i) number_[groups_[position(i)]] = -1;
    blocks.arrange(own_, n, count);
  }

 private:
  const std::int64_t* groups_;
  std::int32_t *number_, *own_;
};

// A vector of C from as many entries of type T.
template <class C, class T>
inline Vector<C> load_as(const T* from) {
  if constexpr (sizeof(C) == sizeof(T)) {
    return load(from);
  } else {
#if defined(__AVX512F__)
    return (Doubles)_mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(__AVX2__)
    return (Doubles)_mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    Vector<C> wide;
    for (int lane = 0; lane < kLanes<C>; ++lane) wide[lane] = from[lane];
    return wide;
#endif
  }
}

template <class C, class T>
inline void store_from(T* to, Vector<C> x) {
  if constexpr (sizeof(C) == sizeof(T)) {
    store(to, x);
  } else {
#if defined(__AVX512F__)
    _mm256_storeu_ps(to, _mm512_cvtpd_ps((__m512d)x));
#elif defined(__AVX2__)
    _mm_storeu_ps(to, _mm256_cvtpd_ps((__m256d)x));
#else
    for (int lane = 0; lane < kLanes<C>; ++lane) to[lane] = static_cast<T>(x[lane]);
#endif
  }
}

// Vectors of C that hold as many lanes as one vector of T.
template <class C, class T>
constexpr int kParts = kLanes<T> / kLanes<C>;

// Gives every lane of a long group the sum over the whole group.
template <class C, int parts>
inline void share(Vector<C> (&sums)[parts]) {
  C total = 0;
  for (int k = 0; k < parts; ++k) total += sum_lanes<C>(sums[k]);
  for (int k = 0; k < parts; ++k) sums[k] = splat(total);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
