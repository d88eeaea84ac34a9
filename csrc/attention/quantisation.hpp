// Queries and keys in 8 bits, and a rigorous bound for what that does to their products.
//
// A vector x is written as x = s x^ + r with a scale s, integers |x^| <= 127 and a residual r. For a query q and a key
// k,
//
//     q.k = s_q s_k q^.k^ + q.r_k + r_q.(s_k k^)
//
// so by Cauchy and Schwarz
//
//     |q.k - s_q s_k q^.k^| <= |q| |r_k| + |r_q| |s_k k^|.                                                        (1)
//
// The lengths on the right are computed from the residuals as they are, and rounded up by more than the computation can
// lose: whatever rounding did to s and x^ is part of r. Two more errors count. The score c that the exact solver sees
// is a product in float32 (or float64), and in whatever order its d terms are added up
//
//     |c - q.k| <= g |q| |k|,    g = d u / (1 - d u),  u = 2^-24,                                                 (2)
//
// with at most d 2^-149 more where products underflow. And the approximate score y = fl(fl(fl(q^.k^) s_k) s_q) (the sum
// of integers is exact) is off by at most 3.01 u |y|, plus 2^-149 for each product that underflows; |y| is at most a
// little more than |q| |k|, and four more units in g cover it. A bias b is rounded to float, u |b| <= u |x| + u |y|,
// and added to y with one rounding, u |x|, where x = fl(y + b); in the score it costs u |c|. So with g = 2 (d + 4) u
// and
//
//     e = |q| (|r_k| + g |k|) + |r_q| |s_k k^| + kTiny                                                            (3)
//
// every score c satisfies |c - x| <= e + kRelative |x| with kRelative = 16 u, which also covers the few roundings in
// the comparisons of screening.hpp. A group of 64 keys shares the largest |r_k| + g |k| and the largest |s_k k^|, so a
// key with large numbers makes the bound coarse for its own group only.
#pragma once

#include "attention/included.hpp"
#include "attention/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr float kRoundUp = 1.00001f;  // more than the sums of squares and conversions can lose
constexpr float kTiny = 1e-30f;       // more than underflow can lose, and nothing next to a window
constexpr float kRelative = 16 * 5.9604645e-8f;
constexpr float kSmallestScale = 1e-34f;  // below it a vector has levels of zero and is all residual
constexpr std::int64_t kSummed = 64;      // squares added up in float: their sum is off by less than 64 u
constexpr double kLongest = 1e18;         // longer vectors have products that a float may not hold

// 2 d u is at least d u / (1 - d u) up to d = 2^23.
inline double dot_rounding(std::int64_t size) { return static_cast<double>(size + 4) * 2 * 5.9604644775390625e-8; }

struct Quantised {
  float scale;       // s
  float length;      // |x|
  float residual;    // |r|
  float levels;      // |s x^|
  std::int32_t sum;  // of x^
  bool finite;       // otherwise there are no levels
};

// Writes the levels of x at to[0], to[1], ...
template <class T>
inline Quantised quantise(const T* x, std::int64_t size, int most, std::int8_t* to) {
  T top = 0;
  int bad = 0;
#pragma omp simd reduction(max : top) reduction(| : bad)
  for (std::int64_t i = 0; i < size; ++i) {
    const T magnitude = x[i] < 0 ? -x[i] : x[i];
    top = magnitude > top ? magnitude : top;
    bad |= !(magnitude < kInfinity<T>);
  }
  Quantised found{0, 0, 0, 0, 0, bad == 0 && top < T(kLongest)};
  if (!found.finite) {
    for (std::int64_t i = 0; i < size; ++i) to[i] = 0;
    return found;
  }
  const float least = std::numeric_limits<float>::min();
  float scale = static_cast<float>(top) / static_cast<float>(most);
  if (!(scale >= kSmallestScale)) {
    for (std::int64_t i = 0; i < size; ++i) to[i] = 0;
    found.length = found.residual =
        static_cast<float>(static_cast<double>(top) * __builtin_sqrt(static_cast<double>(size))) * kRoundUp + least;
    return found;
  }
  const float inverse = 1 / scale;
  double squares = 0, rests = 0;
  std::int32_t levels = 0, sum = 0;
  for (std::int64_t first = 0; first < size; first += kSummed) {
    const std::int64_t last = first + kSummed < size ? first + kSummed : size;
    float square = 0, rest = 0;
#pragma omp simd reduction(+ : square, rest, levels, sum)
    for (std::int64_t i = first; i < last; ++i) {
      const float z = static_cast<float>(x[i]) * inverse;
      std::int32_t nearest = static_cast<std::int32_t>(z + (z < 0 ? -0.5f : 0.5f));
      nearest = nearest > most ? most : nearest < -most ? -most : nearest;
      const float left = z - static_cast<float>(nearest);
      square += z * z;
      rest += left * left;
      levels += nearest * nearest;
      sum += nearest;
      to[i] = static_cast<std::int8_t>(nearest);
    }
    squares += square;
    rests += rest;
  }
  // z is x / s but for three roundings, and so is each rest but for four units of z.
  const double length = __builtin_sqrt(squares), rest = __builtin_sqrt(rests) + 4 * 5.9604645e-8 * length;
  const auto up = [&](double number) { return static_cast<float>(number * scale) * kRoundUp + least; };
  found.scale = scale;
  found.length = up(length);
  found.residual = up(rest);
  found.levels = up(__builtin_sqrt(static_cast<double>(levels)));
  found.sum = sum;
  return found;
}

#if defined(__AVX512F__)
inline bool has_vnni() {
  static const bool has = __builtin_cpu_supports("avx512vnni");
  return has;
}
#else
inline bool has_vnni() { return false; }
#endif

inline int query_levels(bool fine) { return fine ? 127 : 63; }
inline int query_offset(bool fine) { return fine ? 128 : 64; }  // levels of queries are stored without a sign

// Groups begin..end of keys, counted over all heads.
template <class T>
void run(const AttentionKeys<T>& problem, std::int64_t begin, std::int64_t end) {
  const AttentionShape& shape = problem.shape;
  const QuantisedKeys& keys = problem.keys;
  const std::int64_t groups = shape.key_groups(), quads = shape.quads();
  const bool fine = keys.fine != 0 && has_vnni();
  const float rounding = static_cast<float>(dot_rounding(shape.size)) * kRoundUp;
  Scratch<std::int8_t> row(4 * quads);
  for (std::int64_t i = 0; i < 4 * quads; ++i) row.get()[i] = 0;
  for (std::int64_t group = begin; group < end; ++group) {
    const std::int64_t first = group % groups * kKeyGroup, head = group / groups;
    std::int8_t* levels = keys.levels + group * quads * kKeyGroup * 4;
    float residual = 0, length = 0;
    std::uint64_t wild = 0;
    for (std::int64_t k = 0; k < kKeyGroup; ++k) {
      const std::int64_t key = first + k;
      Quantised found{0, 0, 0, 0, 0, true};
      if (key < shape.keys)
        found = quantise(problem.key + (head * shape.keys + key) * shape.size, shape.size, 127, row.get());
      if (key >= shape.keys || !found.finite) {
        wild |= std::uint64_t(!found.finite) << k;
        found = Quantised{0, 0, 0, 0, 0, true};
        for (std::int64_t i = 0; i < shape.size; ++i) row.get()[i] = 0;
      }
      keys.scale[group * kKeyGroup + k] = found.scale;
      keys.start[group * kKeyGroup + k] = -query_offset(fine) * found.sum;
      residual = larger(found.residual + rounding * found.length, residual);
      length = larger(found.levels, length);
      for (std::int64_t quad = 0; quad < quads; ++quad)
        __builtin_memcpy(levels + (quad * kKeyGroup + k) * 4, row.get() + quad * 4, 4);
    }
    keys.residual[group] = residual * kRoundUp;
    keys.length[group] = length;
    keys.wild[group] = wild;
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
