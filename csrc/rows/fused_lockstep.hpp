// Fusedmax for short rows, one row per vector lane, where no three neighbours can share weight: then the total
// variation problem falls into single entries and pairs, which are solved in closed form. Other rows are left to the
// general solver.
//
// All numbers are moved up by 2 strength, which an interior entry on its own loses to its neighbours: it stays as it
// is.
#pragma once

#include "core/buffer.hpp"
#include "core/problems.hpp"
#include "rows/lockstep.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

constexpr double kLockstepStrength = 0.25;  // above it rows rarely fall apart, and the move up would cost digits

#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)

// A byte for each of the first `count` lanes: whether its bit is set.
inline void store_bools(bool* to, std::int64_t count, unsigned bits) {
  const __mmask16 there = static_cast<__mmask16>((1u << count) - 1);
  _mm_mask_storeu_epi8(to, there, _mm_maskz_set1_epi8(static_cast<__mmask16>(bits), 1));
}

// The lanes as doubles: all of them, or the first and the second half.
inline Doubles doubles_of(Doubles x, int) { return x; }
inline Doubles doubles_of(Floats x, int half) {
  return (Doubles)_mm512_cvtps_pd(half == 0 ? _mm512_castps512_ps256((__m512)x) : _mm512_extractf32x8_ps((__m512)x, 1));
}

inline unsigned sign_bits(Floats x) { return _mm512_movepi32_mask((__m512i)x); }
inline unsigned sign_bits(Doubles x) { return _mm512_movepi64_mask((__m512i)x); }

// The rows of one group, as columns. Entries of -inf are removed from the end of a row only: see `FusedShort`.
template <class T>
class FusedLanes {
 public:
  // Solves `count` rows (at most kLanes) and returns a bit for each that it could; the others get meaningless
  // numbers. `usable`: rows whose strength is at most kLockstepStrength.
  unsigned run(const T* x, T* weights, T* value, bool* together, std::int64_t n, std::int64_t count, Vector<T> strength,
               unsigned usable) {
    const Columns<T> columns = load_columns(x, n, count, y);
    const Vector<T> top = columns.top, zero{};
    unsigned before = kAllLanes<T>;
    holes = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const unsigned kept = where_greater(y[j], splat(-kInfinity<T>));
      removed[j] = ~kept;
      holes |= kept & ~before;
      before = kept;
      y[j] = y[j] - top;
    }
    for (std::int64_t j = n; j < n + 8; ++j) removed[j] = ~0u, joined[j] = 0;
    Vector<T> tau = sparse_bound(columns) - kRounding;
    const unsigned solved = columns.good & usable & ~holes & ~find_candidates(n, tau - T(2) * strength, strength);
    if (solved == 0) return 0;
    denoise(n, strength);

    // By the move up, the threshold is at least that of sparsemax.
    Vector<T> step;
    for (;;) {
      step = lockstep_step<Linear, T>(y, columns.padded, tau);
      const Vector<T> next = tau + step, least = (-2 * std::numeric_limits<T>::epsilon()) * tau;
      const unsigned moving = where_greater(step, least) & where_greater(next, tau) & solved;
      tau = step > least ? next : tau;
      if (moving == 0) break;
    }
    step = step > (-2 * std::numeric_limits<T>::epsilon()) * tau ? zero : step;  // already added
    write_values(value, columns, count, tau, strength);
    for (std::int64_t j = 0; j < columns.padded; ++j) {
      const Vector<T> p = larger((y[j] - tau) - step, zero);
      // A sign that travels with the weight. A removed position shows as joined without weight.
      y[j] = choose<T>((joined[j] & where_greater(p, zero)) | removed[j], -p, p);
    }
    write(weights, together, n, count);
    return solved;
  }

  unsigned holes;  // a bit for each row of the last run with something kept after something removed

 private:
  // A few steps of Newton's method towards the threshold of sparsemax; each is a lower bound.
  Vector<T> sparse_bound(const Columns<T>& columns) const {
    Vector<T> tau = splat(T(-1)), peaks[8];
    for (int k = 0; k < 8; ++k) peaks[k] = columns.peaks[k] - columns.top;
    for (int iteration = 0; iteration < 3; ++iteration)
      tau = larger(tau + lockstep_step<Linear, T>(peaks, 8, tau), tau);
    for (int iteration = 0; iteration < 2; ++iteration)
      tau = larger(tau + lockstep_step<Linear, T>(y, columns.padded, tau), tau);
    return tau;
  }

  // Fills `here` and returns a bit for each row with three neighbours in it. `least`: no threshold is below it.
  unsigned find_candidates(std::int64_t n, Vector<T> least, Vector<T> strength) {
    unsigned high[kLockstepColumns];
    const Vector<T> lowest = (least - kRounding) - T(2) * strength;
    for (std::int64_t j = 0; j < n; ++j) {
      here[j + 1] = where_greater(y[j], lowest);
      high[j] = where_greater(y[j], least) | (removed[j + 1] & ~removed[j]);  // nothing pulls down the end of a row
    }
    high[0] = ~0u;
    here[0] = here[n + 1] = 0;
    // The end of a run that lies below every threshold in question only costs: take it off.
    for (std::int64_t j = 0; j < n; ++j) here[j + 1] &= high[j] | (here[j] & here[j + 2]);
    for (std::int64_t j = n - 1; j >= 0; --j) here[j + 1] &= high[j] | (here[j] & here[j + 2]);
    unsigned longer = 0;
    for (std::int64_t j = 0; j < n; ++j) longer |= here[j] & here[j + 1] & here[j + 2];
    return longer;
  }

  // Replaces y by the denoised row, up to the move, and fills `joined`.
  void denoise(std::int64_t n, Vector<T> strength) {
    const Vector<T> twice = strength + strength, nothing = splat(T(-4)), zero{};
    const auto pulled_once = [&](std::int64_t j) {  // the last of a row has one neighbour less to pull it down
      return y[j] + choose<T>(removed[j + 1] & ~removed[j], strength, zero);
    };
    Vector<T> before = nothing, now = pulled_once(0) + strength;
    for (std::int64_t j = 0; j < n; ++j) {
      const unsigned left = here[j], right = here[j + 2], pair = left | right;
      const Vector<T> after = j + 1 < n ? pulled_once(j + 1) : nothing;
      const Vector<T> other = choose<T>(left, before, after), gap = other - now;
      // In a pair each moves towards the other, by strength, or until they meet.
      const Vector<T> mean = (now + other) * T(0.5) + strength;
      const unsigned rises = where_greater(gap, zero), near = where_greater(twice, absolute(gap));
      const Vector<T> moved = choose<T>(pair & near, mean, choose<T>(pair & rises, now + twice, now));
      joined[j] = left & near;
      y[j] = choose<T>(here[j + 1], moved, nothing);
      before = now;
      now = after;
    }
  }

  // max x + 1/2 + tau + 1/2 sum (y - tau)_+^2, less the move. At the threshold this has no slope, so that the rounding
  // of tau does not show if the rest is exact: in double precision.
  void write_values(T* value, const Columns<T>& columns, std::int64_t count, Vector<T> tau, Vector<T> strength) const {
    constexpr int parts = static_cast<int>(sizeof(double) / sizeof(T));
    Doubles sums[parts] = {};
    for (std::int64_t j = 0; j < columns.padded; ++j)
      for (int part = 0; part < parts; ++part) {
        const Doubles p = larger(doubles_of(y[j], part) - doubles_of(tau, part), Doubles{});
        sums[part] += p * p;
      }
    alignas(kVectorBytes) double above[kLane];
    for (int part = 0; part < parts; ++part)
      store(above + part * kLanes<double>, (sums[part] + 1.0) * 0.5 +
                                               (doubles_of(tau, part) - 2.0 * doubles_of(strength, part)) +
                                               doubles_of(columns.top, part));
    for (std::int64_t row = 0; row < count; ++row) value[row] = static_cast<T>(above[row]);
  }

  // Rows again from columns.
  void write(T* weights, bool* together, std::int64_t n, std::int64_t count) const {
    for (std::int64_t j = 0; j < n; j += kLane) {
      Vector<T> tile[kLane];
      const std::int64_t width = n - j < kLane ? n - j : kLane;
#pragma GCC unroll 16
      for (int k = 0; k < kLane; ++k) tile[k] = y[j + k];
      transpose<T>(tile);
#pragma GCC unroll 16
      for (int row = 0; row < kLane; ++row) {
        if (row >= count) break;
        store_lanes(weights + row * n + j, width, absolute(tile[row]));
        store_bools(together + row * n + j, width, sign_bits(tile[row]));
      }
    }
  }

  static constexpr int kLane = kLanes<T>;
  static constexpr T kRounding = 16 * std::numeric_limits<T>::epsilon();

  Vector<T> y[kLockstepColumns + kLane];
  // A bit per row for each column; `here`, which may receive weight, starts at column -1.
  unsigned here[kLockstepColumns + 2], joined[kLockstepColumns + 8], removed[kLockstepColumns + 8];
};

// Groups rows for the lanes. In rows with holes the kept entries are first moved together.
template <class T>
class FusedShort {
 public:
  FusedShort(const Fusedmax<T>& problem, Buffer& buffer) : problem_(problem), n_(problem.columns) {
    x_ = buffer.take<T>(kLane * n_);
    weights_ = buffer.take<T>(kLane * n_);
    joined_ = buffer.take<bool>(kLane * n_);
  }
  static std::int64_t bytes(std::int64_t n) { return 2 * Buffer::size<T>(kLane * n) + Buffer::size<bool>(kLane * n); }

  // Hands the rows that it cannot solve to `general`.
  template <class General>
  void run(std::int64_t begin, std::int64_t end, General& general) {
    for (std::int64_t first = begin; first < end; first += kLane) {
      const std::int64_t count = end - first < kLane ? end - first : std::int64_t(kLane);
      Group group;
      for (std::int64_t lane = 0; lane < count; ++lane) add(group, first + lane);
      const std::int64_t at = first * n_;
      const unsigned solved = lanes_.run(problem_.scores + at, problem_.weights + at, problem_.value + first,
                                         problem_.joined + at, n_, count, group.strength, group.usable);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        if ((solved >> lane) & 1u) continue;
        if ((lanes_.holes & group.usable) >> lane & 1u) close_holes(first + lane, general);
        else general.add(first + lane);
      }
    }
    finish(general);
  }

 private:
  static constexpr int kLane = kLanes<T>;

  struct Group {
    int count = 0;
    unsigned usable = 0;
    Vector<T> strength{};
    std::int64_t row[kLane];
  };

  void add(Group& group, std::int64_t row) const {
    const double strength = problem_.strengths ? problem_.strengths[row] : problem_.strength;
    if (strength >= 0 && strength <= kLockstepStrength) {
      group.strength[group.count] = static_cast<T>(strength);
      group.usable |= 1u << group.count;
    }
    group.row[group.count++] = row;
  }

  template <class General>
  void close_holes(std::int64_t row, General& general) {
    const T* from = problem_.scores + row * n_;
    T* to = x_ + closed_.count * n_;
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n_; ++i)
      if (from[i] != -kInfinity<T>) to[kept++] = from[i];
    while (kept < n_) to[kept++] = -kInfinity<T>;
    add(closed_, row);
    if (closed_.count == kLane) finish(general);
  }

  template <class General>
  void finish(General& general) {
    if (closed_.count == 0) return;
    T values[kLane];
    const unsigned solved =
        lanes_.run(x_, weights_, values, joined_, n_, closed_.count, closed_.strength, closed_.usable);
    for (int lane = 0; lane < closed_.count; ++lane) {
      const std::int64_t row = closed_.row[lane], at = row * n_;
      if (((solved >> lane) & 1u) == 0) {
        general.add(row);
        continue;
      }
      for (std::int64_t i = 0, k = lane * n_; i < n_; ++i) {
        const bool removed = problem_.scores[at + i] == -kInfinity<T>;
        problem_.weights[at + i] = removed ? T(0) : weights_[k];
        problem_.joined[at + i] = removed || joined_[k];
        k += !removed;
      }
      problem_.value[row] = values[lane];
    }
    closed_ = Group();
  }

  const Fusedmax<T>& problem_;
  std::int64_t n_;
  FusedLanes<T> lanes_;
  Group closed_;  // rows whose holes are closed, waiting for more
  T *x_, *weights_;
  bool* joined_;
};

#else
template <class T>
class FusedShort {
 public:
  FusedShort(const Fusedmax<T>&, Buffer&) {}
  static std::int64_t bytes(std::int64_t) { return 0; }
  template <class General>
  void run(std::int64_t, std::int64_t, General&) {}
};
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
