// Products of a few quantised queries with all quantised keys, y = fl(q^.k^) s_k, in float; and the largest of each
// group of keys in each lane of a vector.
//
// VNNI adds four products of an unsigned and a signed byte to a 32-bit sum in one instruction. So queries are stored as
// levels + offset, and the sums begin with -offset times the sum of the key's levels. Without VNNI, pairs of products
// are added in 16 bits, which would overflow with 8-bit queries: they have 7 bits there.
#pragma once

#include "attention/quantisation.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr int kTile = 6;  // queries that share each load of keys

struct IntegerProduct {
  const std::uint8_t* query;  // rows of 4 * quads bytes
  const std::int8_t* levels;
  const std::int32_t* start;
  const float* scale;
  std::int64_t quads, groups;
  float* y;
  std::int64_t stride;  // of y
  float* peaks;         // kLanes of each group
  std::int64_t peaks_stride;
};

inline std::int32_t load_quad(const std::uint8_t* from) {
  std::int32_t quad;
  __builtin_memcpy(&quad, from, 4);
  return quad;
}

// The largest of a group in each lane.
OMEGAMAX_INLINE Vector<float> peaks_of(const float* y) {
  Vector<float> peak = load(y);
  for (std::int64_t v = kLanes<float>; v < kKeyGroup; v += kLanes<float>) peak = larger(load(y + v), peak);
  return peak;
}

#if defined(__AVX512F__)
// Sums of one query and a group of keys. Members and assembly rather than an array and an intrinsic: GCC must keep the
// sums of six queries in registers, and does not if it can do otherwise.
struct GroupSums {
  __m512i s0, s1, s2, s3;

  OMEGAMAX_INLINE void start(const std::int32_t* from) {
    s0 = _mm512_loadu_si512(from), s1 = _mm512_loadu_si512(from + 16);
    s2 = _mm512_loadu_si512(from + 32), s3 = _mm512_loadu_si512(from + 48);
  }
  OMEGAMAX_INLINE void add(const std::uint8_t* query, __m512i k0, __m512i k1, __m512i k2, __m512i k3) {
    const __m512i q = _mm512_set1_epi32(load_quad(query));
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s0) : "v"(q), "v"(k0));
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s1) : "v"(q), "v"(k1));
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s2) : "v"(q), "v"(k2));
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s3) : "v"(q), "v"(k3));
  }
  OMEGAMAX_INLINE void finish(const float* scale, float* y, float* peaks) const {
    const __m512 y0 = _mm512_mul_ps(_mm512_cvtepi32_ps(s0), _mm512_loadu_ps(scale));
    const __m512 y1 = _mm512_mul_ps(_mm512_cvtepi32_ps(s1), _mm512_loadu_ps(scale + 16));
    const __m512 y2 = _mm512_mul_ps(_mm512_cvtepi32_ps(s2), _mm512_loadu_ps(scale + 32));
    const __m512 y3 = _mm512_mul_ps(_mm512_cvtepi32_ps(s3), _mm512_loadu_ps(scale + 48));
    _mm512_storeu_ps(y, y0);
    _mm512_storeu_ps(y + 16, y1);
    _mm512_storeu_ps(y + 32, y2);
    _mm512_storeu_ps(y + 48, y3);
    _mm512_storeu_ps(peaks, _mm512_max_ps(_mm512_max_ps(y0, y1), _mm512_max_ps(y2, y3)));
  }
};

template <int rows>
__attribute__((noinline)) void product_vnni(const IntegerProduct p) {
  const std::int64_t bytes = 4 * p.quads;
  const std::int8_t* keys = p.levels;
  for (std::int64_t group = 0; group < p.groups; ++group) {
    const std::uint8_t* q = p.query;
    const std::int32_t* start = p.start + group * kKeyGroup;
    GroupSums a, b, c, d, e, f;
    a.start(start);
    if constexpr (rows > 1) b.start(start);
    if constexpr (rows > 2) c.start(start), d.start(start);
    if constexpr (rows > 4) e.start(start), f.start(start);
    for (std::int64_t quad = 0; quad < p.quads; ++quad, keys += 256, q += 4) {
      const __m512i k0 = _mm512_loadu_si512(keys), k1 = _mm512_loadu_si512(keys + 64);
      const __m512i k2 = _mm512_loadu_si512(keys + 128), k3 = _mm512_loadu_si512(keys + 192);
      a.add(q, k0, k1, k2, k3);
      if constexpr (rows > 1) b.add(q + bytes, k0, k1, k2, k3);
      if constexpr (rows > 2) c.add(q + 2 * bytes, k0, k1, k2, k3), d.add(q + 3 * bytes, k0, k1, k2, k3);
      if constexpr (rows > 4) e.add(q + 4 * bytes, k0, k1, k2, k3), f.add(q + 5 * bytes, k0, k1, k2, k3);
    }
    const float* scale = p.scale + group * kKeyGroup;
    float *y = p.y + group * kKeyGroup, *peaks = p.peaks + group * kLanes<float>;
    const std::int64_t next = p.stride, top = p.peaks_stride;
    a.finish(scale, y, peaks);
    if constexpr (rows > 1) b.finish(scale, y + next, peaks + top);
    if constexpr (rows > 2)
      c.finish(scale, y + 2 * next, peaks + 2 * top), d.finish(scale, y + 3 * next, peaks + 3 * top);
    if constexpr (rows > 4)
      e.finish(scale, y + 4 * next, peaks + 4 * top), f.finish(scale, y + 5 * next, peaks + 5 * top);
  }
}
#endif

#if defined(__AVX2__)
#if defined(__AVX512F__)
using Bytes = __m512i;
inline Bytes load_bytes(const void* from) { return _mm512_loadu_si512(from); }
inline Bytes splat_quad(std::int32_t quad) { return _mm512_set1_epi32(quad); }
inline Bytes add_products(Bytes sum, Bytes q, Bytes k) {
  const Bytes pairs = _mm512_madd_epi16(_mm512_maddubs_epi16(q, k), _mm512_set1_epi16(1));
  return _mm512_add_epi32(sum, pairs);
}
inline Floats as_floats(Bytes sum) { return (Floats)_mm512_cvtepi32_ps(sum); }
#else
using Bytes = __m256i;
inline Bytes load_bytes(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline Bytes splat_quad(std::int32_t quad) { return _mm256_set1_epi32(quad); }
inline Bytes add_products(Bytes sum, Bytes q, Bytes k) {
  const Bytes pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(q, k), _mm256_set1_epi16(1));
  return _mm256_add_epi32(sum, pairs);
}
inline Floats as_floats(Bytes sum) { return (Floats)_mm256_cvtepi32_ps(sum); }
#endif
constexpr int kSlice = 2;  // vectors of keys at a time

template <int rows>
inline void product_pairs(const IntegerProduct& p) {
  constexpr std::int64_t kKeys = kSlice * kLanes<float>;
  const std::int64_t bytes = 4 * p.quads;
  for (std::int64_t key = 0; key < p.groups * kKeyGroup; key += kKeys) {
    const std::int8_t* keys = p.levels + (key / kKeyGroup * p.quads * kKeyGroup + key % kKeyGroup) * 4;
    Bytes sums[rows][kSlice];
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kSlice; ++v) sums[r][v] = load_bytes(p.start + key + v * kLanes<float>);
    for (std::int64_t quad = 0; quad < p.quads; ++quad, keys += kKeyGroup * 4) {
      const Bytes k0 = load_bytes(keys), k1 = load_bytes(keys + kVectorBytes);
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r) {
        const Bytes q = splat_quad(load_quad(p.query + r * bytes + 4 * quad));
        sums[r][0] = add_products(sums[r][0], q, k0);
        sums[r][1] = add_products(sums[r][1], q, k1);
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kSlice; ++v)
#pragma GCC unroll 6
      for (int r = 0; r < rows; ++r)
        store(p.y + r * p.stride + key + v * kLanes<float>,
              as_floats(sums[r][v]) * load(p.scale + key + v * kLanes<float>));
  }
}
#else
template <int rows>
inline void product_pairs(const IntegerProduct& p) {
  for (int r = 0; r < rows; ++r)
    for (std::int64_t group = 0; group < p.groups; ++group) {
      const std::int8_t* keys = p.levels + group * p.quads * kKeyGroup * 4;
      std::int32_t sums[kKeyGroup];
      __builtin_memcpy(sums, p.start + group * kKeyGroup, sizeof sums);
      for (std::int64_t quad = 0; quad < p.quads; ++quad, keys += kKeyGroup * 4) {
        const std::uint8_t* q = p.query + (r * p.quads + quad) * 4;
        for (std::int64_t k = 0; k < kKeyGroup; ++k)
          sums[k] += q[0] * keys[4 * k] + q[1] * keys[4 * k + 1] + q[2] * keys[4 * k + 2] + q[3] * keys[4 * k + 3];
      }
      for (std::int64_t k = 0; k < kKeyGroup; ++k)
        p.y[r * p.stride + group * kKeyGroup + k] = static_cast<float>(sums[k]) * p.scale[group * kKeyGroup + k];
    }
}
#endif

template <int rows>
inline void integer_product(const IntegerProduct& p, bool fine) {
#if defined(__AVX512F__)
  if (fine) return product_vnni<rows>(p);
#else
  (void)fine;
#endif
  product_pairs<rows>(p);
  for (int r = 0; r < rows; ++r)
    for (std::int64_t group = 0; group < p.groups; ++group)
      store(p.peaks + r * p.peaks_stride + group * kLanes<float>, peaks_of(p.y + r * p.stride + group * kKeyGroup));
}

// The query buffer has kTile rows, so a few more may be computed than there are.
inline void integer_product(const IntegerProduct& p, std::int64_t rows, bool fine) {
  if (rows == 1) integer_product<1>(p, fine);
  else if (rows == 2) integer_product<2>(p, fine);
  else if (rows <= 4) integer_product<4>(p, fine);
  else integer_product<kTile>(p, fine);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
