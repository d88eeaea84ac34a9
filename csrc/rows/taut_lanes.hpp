// One-dimensional total variation denoising in forward sweeps (Condat, 2013), one sequence per vector lane.
//
// The dual variable, sum (y - x) over what was seen, stays within the strength and is at +-strength where the solution
// falls or rises. The value of the segment that begins at `start` lies between `low` and `high`; with these, the dual
// would be at `slack_low` and `slack_high` now. If even the lowest value takes the dual below its range, the segment
// ends, and falls, where it last was at the upper end of the range; and the other way round. Then the sweep begins
// again behind that end, so that some inputs take quadratic time: a lane gives up when it takes too long.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/simd.hpp"
#include "rows/segments.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__)
constexpr bool kHasTautLanes = true;

class TautLanes {
 public:
  // Two vectors, because a step waits for the one before it: the processor overlaps them.
  static constexpr int kVectors = 2, kWide = kLanes<double>, kLane = kVectors * kWide;

  // Takes sequences of at least two entries from `next` (false when there are none left) and hands those on which it
  // gives up to `leave`.
  template <class Next, class Leave>
  void solve(Next next, Leave leave) {
    unsigned active = 0;
    for (int lane = 0; lane < kLane; ++lane) {
      if (next(tasks_[lane])) begin(lane), active |= 1u << lane;
      else idle(lane);
    }
    while (active != 0) {
      unsigned stopped = sweep(active);
      for (; stopped != 0; stopped &= stopped - 1) {
        const int lane = __builtin_ctz(stopped);
        if (late_ >> lane & 1u) leave(tasks_[lane]);
        else if (tasks_[lane].cut != nullptr) *tasks_[lane].cut = {found(lane), low_[lane] < 0 ? kRises : kFalls};
        else finish_segments(tasks_[lane]);
        if (next(tasks_[lane])) begin(lane);
        else idle(lane), active &= ~(1u << lane);
      }
    }
  }

 private:
  static __m512i blend(unsigned bits, __m512i a, __m512i b) {
    return _mm512_mask_blend_epi64(static_cast<__mmask8>(bits), b, a);
  }
  static __m512d blend(unsigned bits, __m512d a, __m512d b) {
    return _mm512_mask_blend_pd(static_cast<__mmask8>(bits), b, a);
  }

  void begin(int lane) {
    const TvTask& task = tasks_[lane];
    const std::int64_t limit = task.cut != nullptr ? task.limit : task.n;
    std::memset(task.joined, kJoined, limit);
    limit_[lane] = limit;
    at_[lane] = reinterpret_cast<std::int64_t>(task.x) / 8;
    marks_[lane] = reinterpret_cast<std::int64_t>(task.joined);
    strength_[lane] = task.strength;
    last_[lane] = task.n - 1;
    deadline_[lane] = now_ + 3 * limit;
    restart(lane, -task.strength, task.strength);
  }

  // A lane without a sequence stays at the end of one.
  void idle(int lane) {
    at_[lane] = marks_[lane] = limit_[lane] = 0;
    strength_[lane] = 1;
    restart(lane, 0, 0);
    k_[lane] = last_[lane] = deadline_[lane] = 0;
  }

  // Where the first segment beyond the limit begins, or the end of the sequence.
  std::int64_t found(int lane) const { return start_[lane] >= limit_[lane] ? start_[lane] : tasks_[lane].n; }

  // `low` and `high` are relative to the first entry until that is seen.
  void restart(int lane, double low, double high) {
    k_[lane] = -1;
    start_[lane] = low_end_[lane] = high_end_[lane] = 0;
    low_[lane] = low;
    high_[lane] = high;
    slack_low_[lane] = slack_high_[lane] = length_[lane] = 0;
  }

  struct State {
    __m512i k, start, low_end, high_end;
    __m512d low, high, length, slack_low, slack_high;
  };

  // One step of each lane of a vector; returns those that have arrived. Eight bits and no more: GCC 12 may put a mask
  // of eight bits into memory and read it back as 32 bits, of which the others are whatever was there before.
  __attribute__((always_inline)) __mmask8 step(State& s, int first, unsigned active) {
    const __m512d one = _mm512_set1_pd(1), zero = _mm512_setzero_pd(), strength = _mm512_load_pd(strength_ + first);
    const __m512d minus = _mm512_sub_pd(zero, strength), twice = _mm512_add_pd(strength, strength);
    const unsigned fresh = _mm512_cmplt_epi64_mask(s.k, s.start);
    const unsigned ends = _mm512_cmpeq_epi64_mask(s.k, _mm512_load_si512(last_ + first));
    const __m512i following = _mm512_add_epi64(s.k, _mm512_set1_epi64(1));
    const __m512d x = _mm512_mask_i64gather_pd(zero, static_cast<__mmask8>(~ends),
                                               _mm512_add_epi64(_mm512_load_si512(at_ + first), following), nullptr, 8);
    // At the end of the sequence the dual must be 0.
    const __m512d with_low = blend(ends, s.slack_low, _mm512_add_pd(s.slack_low, _mm512_sub_pd(x, s.low)));
    const __m512d with_high = blend(ends, s.slack_high, _mm512_add_pd(s.slack_high, _mm512_sub_pd(x, s.high)));
    const unsigned falls = _mm512_cmp_pd_mask(with_low, blend(ends, zero, minus), _CMP_LT_OQ) & ~fresh;
    const unsigned rises = _mm512_cmp_pd_mask(with_high, blend(ends, zero, strength), _CMP_GT_OQ) & ~fresh & ~falls;
    const unsigned cuts = falls | rises;

    // Onwards: the values move until the dual is just within its range.
    s.length = _mm512_add_pd(s.length, one);
    const __m512d share = _mm512_div_pd(one, s.length);
    const unsigned at_low = _mm512_cmp_pd_mask(with_low, strength, _CMP_GE_OQ) | fresh;
    const unsigned at_high = _mm512_cmp_pd_mask(with_high, minus, _CMP_LE_OQ) | fresh;
    const __m512d lower = _mm512_fmadd_pd(_mm512_sub_pd(with_low, strength), share, s.low);
    const __m512d upper = _mm512_fmadd_pd(_mm512_add_pd(with_high, strength), share, s.high);
    s.low = blend(fresh, _mm512_add_pd(x, s.low), blend(at_low, lower, s.low));
    s.high = blend(fresh, _mm512_add_pd(x, s.high), blend(at_high, upper, s.high));
    s.slack_low = blend(at_low, strength, with_low);
    s.slack_high = blend(at_high, minus, with_high);
    const __m512i end = blend(falls, s.low_end, s.high_end), begin = _mm512_add_epi64(end, _mm512_set1_epi64(1));
    s.low_end = blend(at_low, following, s.low_end);
    s.high_end = blend(at_high, following, s.high_end);

    // Or a new segment behind the end of this one. All lanes write a mark, most of them nowhere: no branch.
    alignas(64) unsigned char* places[kWide];
    const __m512i nowhere = _mm512_set1_epi64(reinterpret_cast<std::int64_t>(&nowhere_));
    const unsigned beyond = _mm512_cmpge_epi64_mask(begin, _mm512_load_si512(limit_ + first)) & cuts;
    const __m512i place = _mm512_add_epi64(_mm512_load_si512(marks_ + first), begin);
    _mm512_store_si512(places, blend(cuts & ~beyond, place, nowhere));
#pragma GCC unroll 8
    for (int lane = 0; lane < kWide; ++lane) *places[lane] = static_cast<unsigned char>((rises >> lane & 1u) * kRises);
    s.start = blend(cuts, begin, s.start);
    s.k = blend(cuts, end, blend(active, following, s.k));
    s.low = blend(cuts, blend(falls, zero, _mm512_sub_pd(zero, twice)), s.low);
    s.high = blend(cuts, blend(falls, twice, zero), s.high);
    s.length = blend(cuts, zero, s.length);
    return static_cast<__mmask8>((ends & ~cuts) | beyond);
  }

  // Steps until some lanes have arrived or are late; returns them.
  unsigned sweep(unsigned active) {
    State states[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kWide;
      states[v] = {_mm512_load_si512(k_ + i),        _mm512_load_si512(start_ + i),  _mm512_load_si512(low_end_ + i),
                   _mm512_load_si512(high_end_ + i), _mm512_load_pd(low_ + i),       _mm512_load_pd(high_ + i),
                   _mm512_load_pd(length_ + i),      _mm512_load_pd(slack_low_ + i), _mm512_load_pd(slack_high_ + i)};
    }
    unsigned stopped;
    do {
      ++now_;
      stopped = late_ = 0;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const __m512i deadline = _mm512_load_si512(deadline_ + v * kWide);
        stopped |= static_cast<unsigned>(step(states[v], v * kWide, active >> (v * kWide))) << (v * kWide);
        late_ |= static_cast<unsigned>(_mm512_cmplt_epi64_mask(deadline, _mm512_set1_epi64(now_))) << (v * kWide);
      }
      stopped = (stopped | late_) & active;
    } while (stopped == 0);
    for (int v = 0; v < kVectors; ++v) {
      const int i = v * kWide;
      const State& s = states[v];
      _mm512_store_si512(k_ + i, s.k);
      _mm512_store_si512(start_ + i, s.start);
      _mm512_store_si512(low_end_ + i, s.low_end);
      _mm512_store_si512(high_end_ + i, s.high_end);
      _mm512_store_pd(low_ + i, s.low);
      _mm512_store_pd(high_ + i, s.high);
      _mm512_store_pd(length_ + i, s.length);
      _mm512_store_pd(slack_low_ + i, s.slack_low);
      _mm512_store_pd(slack_high_ + i, s.slack_high);
    }
    return stopped;
  }

  TvTask tasks_[kLane];
  alignas(64) std::int64_t at_[kLane], marks_[kLane], last_[kLane], limit_[kLane], deadline_[kLane];
  alignas(64) std::int64_t k_[kLane], start_[kLane], low_end_[kLane], high_end_[kLane];
  alignas(64) double strength_[kLane], low_[kLane], high_[kLane], length_[kLane], slack_low_[kLane], slack_high_[kLane];
  std::int64_t now_ = 0;  // steps made
  unsigned late_ = 0;
  unsigned char nowhere_;
};
#else
constexpr bool kHasTautLanes = false;
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
