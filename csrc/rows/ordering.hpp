// Sorting non-negative numbers with their indices, by their bits: for numbers >= 0 the order of the bit patterns, read
// as integers, is the order of the numbers.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using type = std::uint32_t;
};
template <>
struct BitsOf<double> {
  using type = std::uint64_t;
};

template <class T>
class Ordering {
 public:
  using Key = typename BitsOf<T>::type;

  static std::int64_t bytes(std::int64_t n) {
    return 2 * Buffer::size<Item>(n) + Buffer::size<std::uint32_t>(kMostCounts);
  }
  Ordering(Buffer& buffer, std::int64_t n)
      : items_(buffer.take<Item>(n)), spare_(buffer.take<Item>(n)), counts_(buffer.take<std::uint32_t>(kMostCounts)) {}

  // The bits of |x|; the sign of zero is dropped.
  static Key ascending(T x) {
    Key bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits & (~Key(0) >> 1);
  }
  static Key descending(T x) { return (~Key(0) >> 1) - ascending(x); }

  // Set the key of each entry, then sort; equal keys keep their order.
  void set(std::int64_t i, Key key) { items_[i] = {key, static_cast<std::uint32_t>(i)}; }
  void sort(std::int64_t n) {
    if (n <= 6) return insertion_sort(n);
    if (n <= kFew) return counting_sort(n);
    if (is_sorted(n)) return;
    if (n <= 2000) return radix_sort<8>(n);
    radix_sort<11>(n);
  }
  // Calls place(i, k) for each of at most kFew numbers, of which the i-th comes k-th in the order of |x|; equal ones
  // keep their order.
  template <class F>
  static void rank_few(const T* x, std::int64_t n, F place) {
    alignas(64) Key keys[kFew];
    for (std::int64_t i = 0; i < n; ++i) keys[i] = ascending(x[i]);
    rank_keys(keys, n, place);
  }
  static constexpr std::int64_t kFew = 64;

  // Which entry comes k-th.
  std::int64_t operator[](std::int64_t k) const { return items_[k].index; }

 private:
  struct Item {
    Key key;
    std::uint32_t index;
  };
  static constexpr int kKeys = 64 / static_cast<int>(sizeof(Key));
  typedef Key Keys __attribute__((vector_size(64), may_alias));
  static constexpr int kMostCounts = 6 << 11;  // six digits of eleven bits in a double; eight of eight bits need fewer

  bool is_sorted(std::int64_t n) const {
    for (std::int64_t i = 1; i < n; ++i)
      if (items_[i].key < items_[i - 1].key) return false;
    return true;
  }

  void insertion_sort(std::int64_t n) {
    for (std::int64_t i = 1; i < n; ++i) {
      const Item item = items_[i];
      std::int64_t j = i;
      for (; j > 0 && items_[j - 1].key > item.key; --j) items_[j] = items_[j - 1];
      items_[j] = item;
    }
  }

  void counting_sort(std::int64_t n) {
    alignas(64) Key keys[kFew];
    for (std::int64_t i = 0; i < n; ++i) keys[i] = items_[i].key;
    rank_keys(keys, n, [&](std::int64_t i, std::int64_t k) { spare_[k] = items_[i]; });
    swap();
  }

  // The rank of an entry is the number of entries before it: no branches, so the processor never guesses wrong.
  template <class F>
  static void rank_keys(Key* keys, std::int64_t n, F place) {
    alignas(64) Key ranks[kFew];  // vectors across two cache lines would cost twice
    for (std::int64_t i = n; i % kKeys != 0; ++i) keys[i] = ~Key(0);
    for (std::int64_t i = 0; i < n; i += kKeys) {
      const Keys some = reinterpret_cast<const Keys*>(keys)[i / kKeys];
      Keys even{}, odd{};
      std::int64_t j = 0;
      for (; j + 1 < n; j += 2) {  // an entry comes before all with a larger key
        even -= reinterpret_cast<Keys>(some > keys[j]);
        odd -= reinterpret_cast<Keys>(some > keys[j + 1]);
      }
      if (j < n) even -= reinterpret_cast<Keys>(some > keys[j]);
      reinterpret_cast<Keys*>(ranks)[i / kKeys] = even + odd;
    }
    // Equal keys have equal ranks so far: hand out the following places in order.
    Key taken[kFew] = {};
    for (std::int64_t i = 0; i < n; ++i) place(i, static_cast<std::int64_t>(ranks[i] + taken[ranks[i]]++));
  }

  // Least significant digit first, all digits counted in one pass; a digit that all keys share is skipped.
  template <int kBits>
  void radix_sort(std::int64_t n) {
    constexpr std::uint32_t digits = 1u << kBits;
    constexpr int passes = (8 * static_cast<int>(sizeof(Key)) + kBits - 1) / kBits;
    std::memset(counts_, 0, passes * digits * sizeof(std::uint32_t));
    for (std::int64_t i = 0; i < n; ++i)
      for (int pass = 0; pass < passes; ++pass)
        ++counts_[pass * digits + ((items_[i].key >> (pass * kBits)) & (digits - 1))];
    for (int pass = 0; pass < passes; ++pass) {
      const int shift = pass * kBits;
      std::uint32_t* places = counts_ + pass * digits;
      if (places[(items_[0].key >> shift) & (digits - 1)] == static_cast<std::uint64_t>(n)) continue;
      std::uint32_t before = 0;
      for (std::uint32_t d = 0; d < digits; ++d) {
        const std::uint32_t here = places[d];
        places[d] = before;
        before += here;
      }
      for (std::int64_t i = 0; i < n; ++i) spare_[places[(items_[i].key >> shift) & (digits - 1)]++] = items_[i];
      swap();
    }
  }

  void swap() {
    Item* items = items_;
    items_ = spare_;
    spare_ = items;
  }

  Item* items_;
  Item* spare_;
  std::uint32_t* counts_;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
