// Positive numbers, in four forms that share their names. They can be added, multiplied and divided, and nothing is
// ever subtracted: every result is right to a few units in the last place, however far apart the numbers are.
//
//   Linear       x                      as long as nothing leaves the range of a double
//   Log          log x                  always
//   LinearMoved  x and dx               with the derivative along a direction
//   LogMoved     log x and dx / x
//
// A number is one `Single` or one `Pair`; V is double, or a vector of them. In memory the second parts of all numbers
// of an array lie `plane` doubles behind the first ones.
#pragma once

#include "core/vector_math.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class V>
struct Single {
  V x;
};
template <class V>
struct Pair {
  V x, rate;
};

inline Single<double> number_at(const double* at, std::int64_t, Single<double>) { return {*at}; }
inline Pair<double> number_at(const double* at, std::int64_t plane, Pair<double>) { return {*at, at[plane]}; }
inline Single<Doubles> number_at(const double* at, std::int64_t, Single<Doubles>) { return {load(at)}; }
inline Pair<Doubles> number_at(const double* at, std::int64_t plane, Pair<Doubles>) {
  return {load(at), load(at + plane)};
}
inline void put(double* at, std::int64_t, Single<double> a) { *at = a.x; }
inline void put(double* at, std::int64_t plane, Pair<double> a) { *at = a.x, at[plane] = a.rate; }
inline void put(double* at, std::int64_t, Single<Doubles> a) { store(at, a.x); }
inline void put(double* at, std::int64_t plane, Pair<Doubles> a) { store(at, a.x), store(at + plane, a.rate); }
inline Single<Doubles> everywhere(Single<double> a) { return {splat(a.x)}; }
inline Pair<Doubles> everywhere(Pair<double> a) { return {splat(a.x), splat(a.rate)}; }

// log(e^a + e^b); both may be -inf.
template <class V>
inline V log_sum(V a, V b) {
  const V high = larger(a, b), low = a > b ? b : a, none = -kInfinity<double> - V{};
  const V apart = high == none ? V{} : low - high;
  return high + log1p_normal<V>(exp_of<V>(apart));
}

struct LinearRange {
  static constexpr bool kLog = false;
  static constexpr double kZero = 0, kOne = 1;
};
struct LogRange {
  static constexpr bool kLog = true;
  static constexpr double kZero = -kInfinity<double>, kOne = 0;
};

// clang-format off
struct Linear : LinearRange {
  static constexpr int kPlanes = 1;
  template <class V> using Of = Single<V>;
  template <class V> static Single<V> plus(Single<V> a, Single<V> b) { return {a.x + b.x}; }
  template <class V> static Single<V> times(Single<V> a, Single<V> b) { return {a.x * b.x}; }
  template <class V> static Single<V> over(Single<V> a, Single<V> b) { return {a.x / b.x}; }
  static Single<double> total(Single<Doubles> a) { return {sum_lanes<double>(a.x)}; }
  static Single<double> constant(double x) { return {x}; }
};

struct LinearMoved : LinearRange {
  static constexpr int kPlanes = 2;
  template <class V> using Of = Pair<V>;
  template <class V> static Pair<V> plus(Pair<V> a, Pair<V> b) { return {a.x + b.x, a.rate + b.rate}; }
  template <class V> static Pair<V> times(Pair<V> a, Pair<V> b) { return {a.x * b.x, a.x * b.rate + a.rate * b.x}; }
  template <class V> static Pair<V> over(Pair<V> a, Pair<V> b) {
    const V ratio = a.x / b.x;
    return {ratio, (a.rate - ratio * b.rate) / b.x};
  }
  static Pair<double> total(Pair<Doubles> a) { return {sum_lanes<double>(a.x), sum_lanes<double>(a.rate)}; }
  static Pair<double> constant(double x) { return {x, 0}; }
};

struct Log : LogRange {
  static constexpr int kPlanes = 1;
  template <class V> using Of = Single<V>;
  template <class V> static Single<V> plus(Single<V> a, Single<V> b) { return {log_sum<V>(a.x, b.x)}; }
  template <class V> static Single<V> times(Single<V> a, Single<V> b) { return {a.x + b.x}; }
  template <class V> static Single<V> over(Single<V> a, Single<V> b) { return {a.x - b.x}; }
  static Single<double> total(Single<Doubles> a) {
    const double top = largest_lane<double>(a.x);
    if (top == kZero) return {top};
    return {top + log_of<double>(sum_lanes<double>(exp_of<Doubles>(a.x - top)))};
  }
  static Single<double> constant(double x) { return {x}; }
};

struct LogMoved : LogRange {
  static constexpr int kPlanes = 2;
  template <class V> using Of = Pair<V>;
  // The relative derivative of a sum is the mean of those of its terms.
  template <class V> static Pair<V> plus(Pair<V> a, Pair<V> b) {
    const V sum = log_sum<V>(a.x, b.x), none = kZero - V{};
    const V share = exp_of<V>(sum == none ? none : b.x - sum);
    return {sum, a.rate + share * (b.rate - a.rate)};
  }
  template <class V> static Pair<V> times(Pair<V> a, Pair<V> b) { return {a.x + b.x, a.rate + b.rate}; }
  template <class V> static Pair<V> over(Pair<V> a, Pair<V> b) { return {a.x - b.x, a.rate - b.rate}; }
  static Pair<double> total(Pair<Doubles> a) {
    const double top = largest_lane<double>(a.x);
    if (top == kZero) return {top, 0};
    const Doubles weight = exp_of<Doubles>(a.x - top);
    const double sum = sum_lanes<double>(weight);
    return {top + log_of<double>(sum), sum_lanes<double>(weight * a.rate) / sum};
  }
  static Pair<double> constant(double x) { return {x, 0}; }
};
// clang-format on

// Adds up many numbers in every lane. Each is passed to `see` first and then to `add`, so that logarithms need one
// exponential each. Where kTwice is false the first round may be left out.
template <class Field>
struct Sum;
template <>
struct Sum<Linear> {
  static constexpr bool kTwice = false;
  Doubles sum{};
  void see(Single<Doubles>) {}
  void add(Single<Doubles> a) { sum += a.x; }
  Single<Doubles> result() const { return {sum}; }
};
template <>
struct Sum<LinearMoved> {
  static constexpr bool kTwice = false;
  Doubles sum{}, rate{};
  void see(Pair<Doubles>) {}
  void add(Pair<Doubles> a) { sum += a.x, rate += a.rate; }
  Pair<Doubles> result() const { return {sum, rate}; }
};
template <>
struct Sum<Log> {
  static constexpr bool kTwice = true;
  Doubles top = -kInfinity<double> - Doubles{}, sum{};
  void see(Single<Doubles> a) { top = larger(a.x, top); }
  void add(Single<Doubles> a) { sum += exp_of<Doubles>(a.x - based()); }
  Single<Doubles> result() const { return {based() + log_of<Doubles>(sum)}; }
  Doubles based() const { return top == -kInfinity<double> - Doubles{} ? Doubles{} : top; }
};
template <>
struct Sum<LogMoved> : Sum<Log> {
  Doubles rate{};
  void see(Pair<Doubles> a) { top = larger(a.x, top); }
  void add(Pair<Doubles> a) {
    const Doubles weight = exp_of<Doubles>(a.x - based());
    sum += weight, rate += weight * a.rate;
  }
  Pair<Doubles> result() const {
    const Doubles none = Doubles{};
    return {based() + log_of<Doubles>(sum), sum == none ? none : rate / sum};
  }
};

// The range that Linear must stay in: products of numbers from it neither vanish nor overflow.
constexpr double kLeast = 1e-280, kMost = 1e280;

// What the numbers of an array (padded to whole vectors by zeros) lie between; zeros do not count.
struct Extent {
  double least = kInfinity<double>, most = 0;
  void add(const double* x, std::int64_t count) {
    Doubles low = splat(kInfinity<double>), high = Doubles{};
    for (std::int64_t i = 0; i < count; i += kLanes<double>) {
      const Doubles v = load(x + i);
      const Doubles counted = v == 0 ? splat(kInfinity<double>) : v;
      low = -larger(-counted, -low);
      high = larger(v, high);
    }
    add(-largest_lane<double>(-low), largest_lane<double>(high));
  }
  void add(double low, double high) {
    least = low < least ? low : least;
    most = larger(high, most);
  }
  // Whether every product of a number here and one there is within the range of Linear.
  bool allows(const Extent& other) const {
    return !(least * other.least < kLeast) && !(most * other.most > kMost) && most < kInfinity<double>;
  }
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
