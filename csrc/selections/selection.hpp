// The best lo to hi of n entries, in linear time: a MAP oracle (sparsemap/oracle.hpp) and the kernel for a batch.
//
// If p entries are above zero, the best choice has m = p entries, or lo or hi where p is beyond them: the m largest.
// Ties go to the lowest index, and an entry of zero is taken only where lo asks for it.
#pragma once

#include <cstring>

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "core/simd.hpp"
#include "sparsemap/oracle.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

class Selecting {
 public:
  static constexpr std::int64_t kInfeasible = -1, kNotANumber = -2;

  Selecting(std::int64_t width, std::int64_t lo, std::int64_t hi)
      : lo_(lo), hi_(hi), buffer_(2 * Buffer::size<std::uint64_t>(width)), keys_(buffer_.take<std::uint64_t>(width)),
        left_(buffer_.take<std::uint64_t>(width)) {}

  // How many are chosen, or why none can be; `takes` then tells which.
  template <class T>
  std::int64_t find(const T* scores, std::int64_t n) {
    std::int64_t positive = 0, allowed = 0;
    bool fine = true;
    for (std::int64_t i = 0; i < n; ++i) {
      const double score = static_cast<double>(scores[i]);
      fine &= score < kInfinity<double>;
      positive += score > 0;
      allowed += score > -kInfinity<double>;
      keys_[i] = key(score);
    }
    if (!fine) return kNotANumber;
    if (allowed < lo_) return kInfeasible;
    const std::int64_t count = positive < lo_ ? lo_ : positive > hi_ ? hi_ : positive;
    ties_ = 0;
    threshold_ = ~std::uint64_t(0);
    if (count > 0) find_threshold(n, count);
    return count;
  }

  // To be asked once for each entry, in order: of those at the threshold the first are chosen.
  bool takes(std::int64_t i) {
    if (keys_[i] > threshold_) return true;
    if (keys_[i] < threshold_ || ties_ == 0) return false;
    --ties_;
    return true;
  }

 private:
  static constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

  // Unsigned integers in the order of the numbers; both zeros are one.
  static std::uint64_t key(double x) {
    x += 0.0;
    std::uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | std::uint64_t(1) << 63;
  }

  // The count-th largest key, and how many of those equal to it are needed: digit by digit, among those that are left.
  void find_threshold(std::int64_t n, std::int64_t count) {
    std::memcpy(left_, keys_, n * sizeof *keys_);
    for (int shift = 64 - kDigitBits; n > kFew && shift >= 0; shift -= kDigitBits) {
      std::int64_t counts[kDigits] = {};
      for (std::int64_t i = 0; i < n; ++i) ++counts[(left_[i] >> shift) & (kDigits - 1)];
      std::uint64_t digit = kDigits - 1;
      for (; counts[digit] < count; --digit) count -= counts[digit];
      std::int64_t kept = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t here = left_[i];
        left_[kept] = here;
        kept += ((here >> shift) & (kDigits - 1)) == digit;
      }
      n = kept;
    }
    for (std::int64_t i = 1; i < n && n <= kFew; ++i) {  // more than a few are left only where all are equal
      const std::uint64_t here = left_[i];
      std::int64_t j = i;
      for (; j > 0 && left_[j - 1] < here; --j) left_[j] = left_[j - 1];
      left_[j] = here;
    }
    threshold_ = left_[count - 1];
    ties_ = 0;
    for (std::int64_t i = 0; i < count; ++i) ties_ += left_[i] == threshold_;
  }

  static constexpr std::int64_t kFew = 32;

  std::int64_t lo_, hi_;
  Buffer buffer_;
  std::uint64_t *keys_, *left_;
  std::uint64_t threshold_ = 0;
  std::int64_t ties_ = 0;
};

// sizes: entries, lo, hi; integers: lengths.
class SelectionOracle {
 public:
  explicit SelectionOracle(const OracleSpec& spec)
      : lengths_(spec.integers[0]), selecting_(spec.sizes[0], spec.sizes[1], spec.sizes[2]) {}

  void best(std::int64_t item, const double* scores, Vertex& found) {
    const std::int64_t n = lengths_[item], count = selecting_.find(scores, n);
    found.size = count == Selecting::kNotANumber   ? Vertex::kNotANumber
                 : count == Selecting::kInfeasible ? Vertex::kInfeasible
                                                   : 0;
    for (std::int64_t i = 0; i < n && count >= 0; ++i) {
      if (!selecting_.takes(i)) continue;
      found.places[found.size] = static_cast<std::int32_t>(i);
      found.values[found.size++] = 1;
    }
  }

 private:
  const std::int64_t* lengths_;
  Selecting selecting_;
};

template <class T>
void run(const Selection<T>& problem, std::int64_t begin, std::int64_t end) {
  Selecting selecting(problem.width, problem.lo, problem.hi);
  for (std::int64_t item = begin; item < end; ++item) {
    const T* scores = problem.scores + item * problem.width;
    T* chosen = problem.chosen + item * problem.width;
    const std::int64_t n = problem.lengths[item], count = selecting.find(scores, n);
    const T otherwise = count == Selecting::kNotANumber ? kNaN<T> : T(0);
    double value = count == Selecting::kNotANumber ? kNaN<double> : count < 0 ? -kInfinity<double> : 0;
    for (std::int64_t i = 0; i < problem.width; ++i) {
      const bool takes = count > 0 && i < n && selecting.takes(i);
      chosen[i] = takes ? T(1) : i < n ? otherwise : T(0);
      if (takes) value += static_cast<double>(scores[i]);
    }
    problem.value[item] = static_cast<T>(value);
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
