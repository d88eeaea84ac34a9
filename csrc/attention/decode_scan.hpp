// The keys of a cache that can have weight: first pages by their balls, then keys by products in 8 bits.
#pragma once

#include <cstdlib>

#include "attention/decode_rows.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Bounds of the pages of a section, and a floor from the page with the largest bound.
template <class T>
class PageSampler {
 public:
  explicit PageSampler(const Decode<T>& problem) : p_(problem), tile_(problem) {}

  void run(std::int64_t task) {
    const std::int64_t sections = p_.used_sections(), kv_head = task / sections, section = task % sections;
    const std::int64_t rows = p_.rows();
    for (std::int64_t first = 0; first < rows; first += kTile) {
      const std::int64_t n = first + kTile < rows ? std::int64_t(kTile) : rows - first;
      tile_.load(kv_head * rows + first, n);
      tile_.multiply_centres(kv_head * p_.pages.sections() + section, y_, peaks_);
      for (std::int64_t r = 0; r < n; ++r) sample(kv_head, section, kv_head * rows + first + r, r);
    }
  }

 private:
  void sample(std::int64_t kv_head, std::int64_t section, std::int64_t row, std::int64_t r) {
    const Quantised& query = tile_.quantised(r);
    const DecodeRow about = row_of(p_, row);
    float* uppers = p_.uppers + row * p_.used_sections() * kSection + section * kSection;
    const std::int64_t at = kv_head * p_.pages.sections() * kSection + section * kSection;
    const std::int64_t pages = (about.allowed.limit + kKeyGroup - 1) / kKeyGroup - section * kSection;
    const std::int64_t count = pages < kSection ? pages : kSection, place = kv_head * p_.pages.pages + section * kSection;
    if (count <= 0) return;
    if (!query.finite || sees_wild(query, about.allowed, place, section * kSection, count)) {
      __atomic_store_n(p_.unknown + row, std::uint8_t(1), __ATOMIC_RELAXED);
      return;
    }
    const float *y = y_ + r * kSection, *radius = p_.pages.radius + at, *length = p_.pages.centre_length + at;
    const float factor = query.scale;
#pragma omp simd
    for (std::int64_t page = 0; page < count; ++page) {
      const float x = y[page] * factor, size = x < 0 ? -x : x;
      const float away = query.length * radius[page] + query.residual * length[page];
      const float upper = x + size * kRelative + (away * kRoundUp + kTiny);
      uppers[page] = upper + (upper < 0 ? -upper : upper) * kRelative;
    }
    std::int64_t best = 0;
    for (std::int64_t page = 1; page < count; ++page) best = uppers[page] > uppers[best] ? page : best;
    take_floor(about, row, r, kv_head * p_.pages.pages, section * kSection + best);
  }

  // Whether a row sees keys that approximate scores say nothing about, on `count` pages from `page` on.
  bool sees_wild(const Quantised& query, const Allowed& allowed, std::int64_t place, std::int64_t page,
                 std::int64_t count) const {
    float longest = 0;
    std::uint64_t wild = 0;
#pragma omp simd reduction(max : longest) reduction(| : wild)
    for (std::int64_t k = place; k < place + count; ++k) {
      const float length = p_.pages.length[k] + p_.pages.residual[k];
      longest = length > longest ? length : longest;
      wild |= p_.pages.wild[k];
    }
    if (!(query.length * longest < 1e36f)) return true;
    if (wild == 0) return false;
    for (std::int64_t k = 0; k < count; ++k)
      for (std::uint64_t bits = p_.pages.wild[place + k]; bits != 0; bits &= bits - 1)
        if (allowed.at((page + k) * kKeyGroup + __builtin_ctzll(bits))) return true;
    return false;
  }

  void take_floor(const DecodeRow& about, std::int64_t row, std::int64_t r, std::int64_t pages, std::int64_t page) {
    const Quantised& query = tile_.quantised(r);
    float lows[kKeyGroup], peaks[kLanes<float>];
    tile_.multiply_pages(pages + page, 1, lows, kKeyGroup, peaks, kLanes<float>, r);
    hide(lows, about.allowed, page * kKeyGroup);
    const float bound = page_bound(p_, query, pages + page);
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < kKeyGroup; ++k)
      if (lows[k] > -kInfinity<float>) lows[count++] = lower_bound(lows[k] * query.scale, bound);
    if (count > 0) raise_floor(p_.floors + row, floor_of(p_.op, about, lows, count));
  }

  const Decode<T>& p_;
  QueryTile<T> tile_;
  float y_[kTile * kSection], peaks_[kTile * kLanes<float>];
};

// The candidates of a section.
template <class T>
class SectionScanner {
 public:
  explicit SectionScanner(const Decode<T>& problem)
      : p_(problem), tile_(problem),
        buffer_(Buffer::size<float>(kTile * kStride) + Buffer::size<float>(kTile * kPeaksStride) +
                Buffer::size<float>((kPages + 1) * kLanes<float>)),
        y_(buffer_.template take<float>(kTile * kStride)), peaks_(buffer_.template take<float>(kTile * kPeaksStride)),
        lows_(buffer_.template take<float>((kPages + 1) * kLanes<float>)) {}

  void run(std::int64_t task) {
    const std::int64_t sections = p_.used_sections(), rows = p_.rows();
    kv_head_ = task / sections;
    section_ = task % sections;
    p_.n_read[task] = 0;
    for (std::int64_t first = 0; first < rows; first += kTile) {
      const std::int64_t n = first + kTile < rows ? std::int64_t(kTile) : rows - first;
      tile_.load(kv_head_ * rows + first, n);
      scan(kv_head_ * rows + first, n, p_.blocks + task * rows + first, p_.n_read + task);
    }
  }

 private:
  static constexpr std::int64_t kPages = QueryTile<T>::kPages;
  static constexpr std::int64_t kStride = kPages * kKeyGroup + 16;  // rows do not share their places in a cache
  static constexpr std::int64_t kPeaksStride = kPages * kLanes<float>;
  static constexpr int kAhead = 2;                       // pages that are asked for before they are needed
  static constexpr std::int64_t kMostFetched = 8192;     // bytes of such a page

  void scan(std::int64_t row, std::int64_t rows, CandidateBlock* blocks, std::int64_t* n_read) {
    for (std::int64_t page = 0; page < kSection; page += kPages) {
      std::uint32_t wanted[kTile], all = 0;
      for (std::int64_t r = 0; r < rows; ++r) all |= wanted[r] = wanted_pages(row + r, page);
      *n_read += __builtin_popcount(all);
      if (all == 0) continue;
      multiply(page, all);
      for (std::int64_t r = 0; r < rows; ++r)
        if (wanted[r] != 0) collect(row + r, r, page, wanted[r], blocks[r]);
    }
  }

  // Bits of the kPages pages from `page` on that can reach the floor of the row.
  std::uint32_t wanted_pages(std::int64_t row, std::int64_t page) const {
    if (p_.unknown[row] != 0) return 0;
    const std::int64_t limit = row_of(p_, row).allowed.limit;
    const float floor = read_floor(p_.floors + row);
    const float* uppers = p_.uppers + (row * p_.used_sections() + section_) * kSection + page;
    std::uint32_t bits = 0;
    for (std::int64_t k = 0; k < kPages && (section_ * kSection + page + k) * kKeyGroup < limit; ++k)
      bits |= static_cast<std::uint32_t>(!(uppers[k] <= floor)) << k;
    return bits;
  }

  // Asks for pages ahead of time: the processor does so by itself only within 4096 bytes, which is about a page.
  void multiply(std::int64_t page, std::uint32_t wanted) {
    const std::int64_t first = kv_head_ * p_.pages.pages + section_ * kSection + page;
    std::uint32_t ahead = wanted;
    for (int i = 0; i < kAhead && ahead != 0; ++i, ahead &= ahead - 1) fetch(first + __builtin_ctz(ahead));
    for (std::uint32_t bits = wanted; bits != 0; bits &= bits - 1) {
      const std::int64_t k = __builtin_ctz(bits);
      if (ahead != 0) {
        fetch(first + __builtin_ctz(ahead));
        ahead &= ahead - 1;
      }
      tile_.multiply_pages(first + k, 1, y_ + k * kKeyGroup, kStride, peaks_ + k * kLanes<float>, kPeaksStride);
    }
  }

  void fetch(std::int64_t page) const {
    const std::int64_t bytes = p_.shape.quads() * 4 * kKeyGroup;
    const std::int8_t* levels = p_.pages.levels + page * bytes;
    for (std::int64_t i = 0; i < bytes && i < kMostFetched; i += 64) __builtin_prefetch(levels + i);
  }

  void collect(std::int64_t row, std::int64_t r, std::int64_t page, std::uint32_t wanted, CandidateBlock& block) {
    const Quantised& query = tile_.quantised(r);
    const DecodeRow about = row_of(p_, row);
    const Allowed& allowed = about.allowed;
    const std::int64_t first = section_ * kSection + page, head = kv_head_ * p_.pages.pages;
    float *y = y_ + r * kStride, *peaks = peaks_ + r * kPeaksStride;
    float bounds[kPages];
    const Vector<float> factors = splat(query.scale);
    const Vector<float> before = splat(read_floor(p_.floors + row));
    Vector<float> tops = splat(-kInfinity<float>);
    std::int64_t n_lows = 0;
    for (std::uint32_t bits = wanted; bits != 0; bits &= bits - 1) {
      const std::int64_t k = __builtin_ctz(bits), key = (first + k) * kKeyGroup;
      if (allowed.mask != nullptr || key + kKeyGroup > allowed.limit) {
        hide(y + k * kKeyGroup, allowed, key);
        store(peaks + k * kLanes<float>, peaks_of(y + k * kKeyGroup));
      }
      bounds[k] = page_bound(p_, query, head + first + k);
      const Vector<float> lows = lower_bound(load(peaks + k * kLanes<float>) * factors, bounds[k]);
      tops = larger(lows, tops);  // NaN, from hidden keys under a query of zeros, is left out
      if (p_.op.kind == kTopAttention)
        if (const unsigned higher = where_greater(lows, before)) n_lows += compress<float>(lows_ + n_lows, lows, higher);
    }
    if (p_.op.kind != kTopAttention) lows_[n_lows++] = largest_lane<float>(tops);
    if (n_lows > 0) raise_floor(p_.floors + row, floor_of(p_.op, about, lows_, n_lows));
    const float floor = read_floor(p_.floors + row);
    for (std::uint32_t bits = wanted; bits != 0; bits &= bits - 1) {
      const std::int64_t k = __builtin_ctz(bits);
      const Vector<float> levels = splat(level_of(floor, bounds[k]));
      if (where_greater(load(peaks + k * kLanes<float>) * factors, levels) == 0) continue;
      reserve(block, kKeyGroup);
      for (std::int64_t v = 0; v < kKeyGroup; v += kLanes<float>) {
        const Vector<float> score = load(y + k * kKeyGroup + v) * factors;
        for (unsigned found = where_greater(score, levels); found != 0; found &= found - 1) {
          const int lane = __builtin_ctz(found);
          block.indices[block.size] = static_cast<std::int32_t>((first + k) * kKeyGroup + v + lane);
          block.scores[block.size++] = score[lane];
        }
      }
    }
  }

  static void reserve(CandidateBlock& block, std::int64_t more) {
    if (block.size + more <= block.capacity) return;
    const std::int64_t capacity = 2 * block.capacity + more;
    const auto grow = [&](auto*& array) {
      void* found = std::realloc(array, static_cast<std::size_t>(capacity) * sizeof(*array));
      if (found == nullptr) throw std::bad_alloc();
      array = static_cast<std::remove_reference_t<decltype(array)>>(found);
    };
    grow(block.indices);
    grow(block.scores);
    block.capacity = capacity;
  }

  const Decode<T>& p_;
  QueryTile<T> tile_;
  Buffer buffer_;
  float *y_, *peaks_, *lows_;
  std::int64_t kv_head_ = 0, section_ = 0;
};

template <class T>
void run(const DecodeSample<T>& problem, std::int64_t begin, std::int64_t end) {
  PageSampler<T> sampler(problem.call);
  for (std::int64_t task = begin; task < end; ++task) sampler.run(task);
}

template <class T>
void run(const DecodeScan<T>& problem, std::int64_t begin, std::int64_t end) {
  SectionScanner<T> scanner(problem.call);
  for (std::int64_t task = begin; task < end; ++task) scanner.run(task);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
