// The widest vector of the instruction set, as a GCC vector type (arithmetic, comparisons and ?: work on it), and the
// few operations that need intrinsics to be fast. Everything has a portable path.
#pragma once

#include <cstdint>
#include <limits>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

// For small functions that are called from many places: a compiler that does not inline them loses much of their speed.
#if defined(__GNUC__)
#define OMEGAMAX_INLINE inline __attribute__((always_inline))
#else
#define OMEGAMAX_INLINE inline
#endif

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef double Doubles __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t Ints __attribute__((vector_size(kVectorBytes)));
typedef std::int64_t Longs __attribute__((vector_size(kVectorBytes)));

// The number type, the integer of its size and the bit pattern of that size, for numbers and vectors of them alike.
// clang-format off
template <class V> struct Traits;
template <> struct Traits<float> { using Number = float; using Integer = std::int32_t; using Vector = Floats; };
template <> struct Traits<double> { using Number = double; using Integer = std::int64_t; using Vector = Doubles; };
template <> struct Traits<Floats> { using Number = float; using Integer = Ints; };
template <> struct Traits<Doubles> { using Number = double; using Integer = Longs; };

template <class T> using Vector = typename Traits<T>::Vector;
template <class T> constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
template <class T> constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T> constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
// clang-format on

template <class V>
inline typename Traits<V>::Integer bits_of(V x) {
  typename Traits<V>::Integer bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  return bits;
}

template <class V>
inline V from_bits(typename Traits<V>::Integer bits) {
  V x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

template <class T>
inline Vector<T> splat(T x) {
  return x - Vector<T>{};  // x - 0 keeps the sign of a zero
}

template <class T>
inline Vector<T> load(const T* from) {
  Vector<T> x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}

template <class T>
inline void store(T* to, Vector<T> x) {
  __builtin_memcpy(to, &x, sizeof x);
}

// The first `count` lanes from memory, `fill` in the others; count < kLanes.
template <class T>
inline Vector<T> load_some(const T* from, std::int64_t count, T fill) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    return (Floats)_mm512_mask_loadu_ps((__m512)splat(fill), static_cast<__mmask16>((1u << count) - 1), from);
  else return (Doubles)_mm512_mask_loadu_pd((__m512d)splat(fill), static_cast<__mmask8>((1u << count) - 1), from);
#else
  Vector<T> x = splat(fill);
  for (int lane = 0; lane < kLanes<T>; ++lane)
    if (lane < count) x[lane] = from[lane];
  return x;
#endif
}

template <class T>
inline void store_some(T* to, std::int64_t count, Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)x);
  else _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1), (__m512d)x);
#else
  for (int lane = 0; lane < kLanes<T>; ++lane)
    if (lane < count) to[lane] = x[lane];
#endif
}

// The larger of two; the second where they do not compare (NaN).
inline float larger(float a, float b) { return a > b ? a : b; }
inline double larger(double a, double b) { return a > b ? a : b; }
#if defined(__AVX512F__)
inline Floats larger(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
inline Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm512_max_pd((__m512d)a, (__m512d)b); }
#elif defined(__AVX2__)
inline Floats larger(Floats a, Floats b) { return (Floats)_mm256_max_ps((__m256)a, (__m256)b); }
inline Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm256_max_pd((__m256d)a, (__m256d)b); }
#elif defined(__SSE2__)
inline Floats larger(Floats a, Floats b) { return (Floats)_mm_max_ps((__m128)a, (__m128)b); }
inline Doubles larger(Doubles a, Doubles b) { return (Doubles)_mm_max_pd((__m128d)a, (__m128d)b); }
#else
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
#endif

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }
#if defined(__AVX512F__)
inline Floats root(Floats x) { return (Floats)_mm512_sqrt_ps((__m512)x); }
inline Doubles root(Doubles x) { return (Doubles)_mm512_sqrt_pd((__m512d)x); }
#elif defined(__AVX2__)
inline Floats root(Floats x) { return (Floats)_mm256_sqrt_ps((__m256)x); }
inline Doubles root(Doubles x) { return (Doubles)_mm256_sqrt_pd((__m256d)x); }
#elif defined(__SSE2__)
inline Floats root(Floats x) { return (Floats)_mm_sqrt_ps((__m128)x); }
inline Doubles root(Doubles x) { return (Doubles)_mm_sqrt_pd((__m128d)x); }
#else
template <class V>
inline V root(V x) {
  for (unsigned lane = 0; lane < sizeof x / sizeof x[0]; ++lane) x[lane] = root(x[lane]);
  return x;
}
#endif

// 1/x, but for the last digits: an estimate of the processor where it has one, improved by Newton's method.
template <class V>
inline V roughly_inverse(V x) {
  return typename Traits<V>::Number(1) / x;
}
#if defined(__AVX512F__)
inline Floats roughly_inverse(Floats x) {
  const Floats estimate = (Floats)_mm512_rcp14_ps((__m512)x);
  return estimate * (2.0f - x * estimate);
}
#elif defined(__AVX2__)
inline Floats roughly_inverse(Floats x) {
  const Floats estimate = (Floats)_mm256_rcp_ps((__m256)x);
  return estimate * (2.0f - x * estimate);
}
#endif

// The square root of a positive number to within an ulp: an estimate and one step of Newton's method, where that is
// several times faster than the instruction.
template <class V>
inline V nearly_root(V x) {
  return root(x);
}
#if defined(__AVX512F__)
inline Floats nearly_root(Floats x) {
  const __m512 inverse = _mm512_rsqrt14_ps((__m512)x), estimate = _mm512_mul_ps((__m512)x, inverse);
  const __m512 rest = _mm512_fnmadd_ps(estimate, estimate, (__m512)x), half = _mm512_set1_ps(0.5f);
  return (Floats)_mm512_fmadd_ps(_mm512_mul_ps(inverse, half), rest, estimate);
}
#endif

// Numbers too small to be normal count as zero in this scope: where nothing depends on them they only cost time.
class WithoutDenormals {
 public:
#if defined(__SSE2__)
  WithoutDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~WithoutDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

// One bit per lane where a > b.
inline unsigned where_greater(Floats a, Floats b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_GT_OQ)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(_mm_movemask_ps(_mm_cmpgt_ps((__m128)a, (__m128)b)));
#else
  unsigned bits = 0;
  for (int lane = 0; lane < kLanes<float>; ++lane) bits |= static_cast<unsigned>(a[lane] > b[lane]) << lane;
  return bits;
#endif
}
inline unsigned where_greater(Doubles a, Doubles b) {
#if defined(__AVX512F__)
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_GT_OQ)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(_mm_movemask_pd(_mm_cmpgt_pd((__m128d)a, (__m128d)b)));
#else
  unsigned bits = 0;
  for (int lane = 0; lane < kLanes<double>; ++lane) bits |= static_cast<unsigned>(a[lane] > b[lane]) << lane;
  return bits;
#endif
}
template <class T>
constexpr unsigned kAllLanes = static_cast<unsigned>((std::uint64_t(1) << kLanes<T>)-1);

// Writes the lanes chosen by `bits` one after the other and returns how many; may write a whole vector.
template <class T>
inline std::int64_t compress(T* to, Vector<T> x, unsigned bits) {
#if defined(__AVX512F__)
  // Compress in the register, then store: the compress-to-memory instruction is microcoded on some processors.
  if constexpr (sizeof(T) == 4) store(to, (Floats)_mm512_maskz_compress_ps(static_cast<__mmask16>(bits), (__m512)x));
  else store(to, (Doubles)_mm512_maskz_compress_pd(static_cast<__mmask8>(bits), (__m512d)x));
  return __builtin_popcount(bits);
#else
  std::int64_t count = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    to[count] = x[lane];
    count += (bits >> lane) & 1u;
  }
  return count;
#endif
}

template <class T>
inline T largest_lane(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_max_ps((__m512)x);
  else return _mm512_reduce_max_pd((__m512d)x);
#else
  T top = x[0];
  for (int lane = 1; lane < kLanes<T>; ++lane) top = larger(x[lane], top);
  return top;
#endif
}

template <class T>
inline T sum_lanes(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_reduce_add_ps((__m512)x);
  else return _mm512_reduce_add_pd((__m512d)x);
#else
  T parts[kLanes<T>];
  store(parts, x);
  for (int half = kLanes<T> / 2; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) parts[lane] += parts[lane + half];
  return parts[0];
#endif
}

// A sum of vectors whose rounding error does not grow with the row: blocks of floats are added up in double precision,
// and blocks of doubles in twice that.
template <class T>
class LongSum {
 public:
  void add(Vector<T> block) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
      low_ += (Doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)block));
      high_ += (Doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)block, 1));
      return;
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      low_ += (Doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)block));
      high_ += (Doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)block, 1));
      return;
    }
#endif
    if constexpr (sizeof(T) == 8) {  // what rounding takes from the sum goes to the other part (Knuth's two-sum)
      const Doubles sum = low_ + block, added = sum - low_;
      high_ += (low_ - (sum - added)) + (block - added);
      low_ = sum;
    } else {
      for (int lane = 0; lane < kLanes<double>; ++lane) {
        low_[lane] += block[lane];
        high_[lane] += block[lane + kLanes<double>];
      }
    }
  }
  double total() const { return sum_lanes<double>(low_ + high_); }

  // What each lane has summed up: of floats the first half of the lanes and the second, of doubles all and nothing.
  Doubles low() const { return sizeof(T) == 8 ? low_ + high_ : low_; }
  Doubles high() const { return sizeof(T) == 8 ? Doubles{} : high_; }

 private:
  Doubles low_{}, high_{};
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
