// The weights of arcs as positive numbers, from their scores. Every tree has one arc into each word, and one arc from a
// single root, so columns (and then row 0) are shifted by their maxima without changing the distribution.
#pragma once

#include "arborescences/state_reduction.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

enum class Kind { kUsual, kImpossible, kNotNumbers };

// Scores of one item as double precision logarithms: rows of `stride`, -inf where there is no arc.
class LogWeights {
 public:
  explicit LogWeights(std::int64_t words) : tops_(Weights::stride_of(words)), memory_(Weights::plane_of(words)) {}

  // Of words 1..n under the root 0.
  template <class T>
  Kind read(const T* scores, std::int64_t size, std::int64_t n, bool single_root) {
    words_ = n;
    for (std::int64_t h = 0; h <= n; ++h) {
      double* to = memory_.get() + h * Weights::stride_of(n);
      const T* from = scores + h * size;
      for (std::int64_t m = 0; m <= n; ++m) to[m] = static_cast<double>(from[m]);
    }
    return shift(single_root);
  }

  // Of any words under any root: node i is number names[i] of the scores.
  template <class T>
  Kind read_named(const T* scores, std::int64_t size, const std::int64_t* names, std::int64_t n) {
    words_ = n;
    for (std::int64_t h = 0; h <= n; ++h) {
      double* to = memory_.get() + h * Weights::stride_of(n);
      for (std::int64_t m = 0; m <= n; ++m) to[m] = static_cast<double>(scores[names[h] * size + names[m]]);
    }
    return shift(false);
  }

  double shifted_by() const { return shift_; }  // what the logarithm of the sum over trees has lost
  std::int64_t words() const { return words_; }
  const double* row(std::int64_t h) const { return memory_.get() + h * Weights::stride_of(words_); }
  bool fits_linear() const { return lowest_ > kLowest; }

  // The weights in this field, and their derivatives along a direction (size, size).
  template <class Field, class T>
  Weights weights(double* memory, const T* direction, std::int64_t size) const {
    const std::int64_t stride = Weights::stride_of(words_);
    const Weights w{memory, stride, Weights::plane_of(words_)};
    for (std::int64_t h = 0; h <= words_; ++h) {
      const double* from = row(h);
      double* to = w.row(h);
      for (std::int64_t m = 0; m < stride; m += kLanes<double>)
        store(to + m, Field::kLog ? load(from + m) : exp_of<Doubles>(load(from + m)));
      if (Field::kPlanes == 1) continue;
      double* rate = to + w.plane;
      for (std::int64_t m = 0; m < stride; ++m) {
        const bool arc = from[m] > -kInfinity<double>;  // what is forbidden has no derivative
        rate[m] = arc ? static_cast<double>(direction[h * size + m]) * (Field::kLog ? 1 : to[m]) : 0;
      }
    }
    return w;
  }

 private:
  static constexpr double kLowest = -640;  // e^-640 is above kLeast

  Kind shift(bool single_root) {
    const std::int64_t n = words_, stride = Weights::stride_of(n);
    double* tops = tops_.get();
    for (std::int64_t m = 0; m < stride; ++m) tops[m] = -kInfinity<double>;
    bool numbers = true;
    for (std::int64_t h = 0; h <= n; ++h) {
      double* to = memory_.get() + h * stride;
      for (std::int64_t m = n + 1; m < stride; ++m) to[m] = -kInfinity<double>;
      to[0] = to[h] = -kInfinity<double>;
      Doubles good = splat(1.0);
      for (std::int64_t m = 0; m < stride; m += kLanes<double>) {
        const Doubles x = load(to + m);
        good = x < splat(kInfinity<double>) ? good : Doubles{};
        store(tops + m, larger(x, load(tops + m)));
      }
      for (int lane = 0; lane < kLanes<double>; ++lane) numbers &= good[lane] > 0;
    }
    if (!numbers) return Kind::kNotNumbers;
    shift_ = 0;
    for (std::int64_t m = 1; m <= n; ++m) {
      if (tops[m] == -kInfinity<double>) return Kind::kImpossible;
      shift_ += tops[m];
    }
    tops[0] = 0;
    for (std::int64_t m = n + 1; m < stride; ++m) tops[m] = 0;
    lowest_ = 0;
    for (std::int64_t h = 0; h <= n; ++h) {
      double* row = memory_.get() + h * stride;
      for (std::int64_t m = 0; m < stride; m += kLanes<double>) store(row + m, load(row + m) - load(tops + m));
      if (h == 0 && single_root) {
        double top = -kInfinity<double>;
        for (std::int64_t m = 1; m <= n; ++m) top = larger(row[m], top);
        if (top == -kInfinity<double>) return Kind::kImpossible;
        for (std::int64_t m = 0; m < stride; ++m) row[m] -= top;
        shift_ += top;
      }
      Doubles low = Doubles{};
      for (std::int64_t m = 0; m < stride; m += kLanes<double>) {
        const Doubles x = load(row + m);
        const Doubles counted = x == splat(-kInfinity<double>) ? Doubles{} : x;
        low = counted < low ? counted : low;
      }
      for (int lane = 0; lane < kLanes<double>; ++lane) lowest_ = low[lane] < lowest_ ? low[lane] : lowest_;
    }
    return Kind::kUsual;
  }

  Scratch<double> tops_, memory_;
  std::int64_t words_ = 0;
  double shift_ = 0, lowest_ = 0;
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
