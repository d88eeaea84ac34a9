// A long sequence in the lanes of `TautLanes`: each lane sweeps over a piece as if the sequence began there. That is
// wrong at first. But what follows a segment's end depends only on where it is and whether the solution falls or rises
// there: as soon as a lane and the one before it agree on one such place, they agree from there on.
#pragma once

#include "core/buffer.hpp"
#include "rows/taut_lanes.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

#if defined(__AVX512F__)
class TautPieces {
 public:
  static constexpr std::int64_t kPiece = 512, kFrom = 16 * kPiece;  // shorter sequences cannot fill the lanes

  static std::int64_t bytes(std::int64_t n) { return Buffer::size<TvCut>(n / kPiece + 1); }
  TautPieces(Buffer& buffer, std::int64_t n) : cuts_(buffer.take<TvCut>(n / kPiece + 1)) {}

  // False: this sequence would take too long.
  bool solve(const TvTask& task) {
    const std::int64_t pieces = (task.n + kPiece - 1) / kPiece;
    std::int64_t piece = 0;
    bool late = false;
    TautLanes().solve(
        [&](TvTask& part) {
          if (piece == pieces || late) return false;
          const std::int64_t from = kPiece * piece;
          part = {task.x + from, task.n - from, task.strength, task.y + from, task.joined + from, cuts_ + piece++};
          part.limit = piece < pieces ? kPiece : part.n;
          return true;
        },
        [&](const TvTask&) { late = true; });
    if (late || !join(task, pieces)) return false;
    finish_segments(task);
    return true;
  }

 private:
  // Follows the first piece to its end, goes on alone until it meets an end that the piece there knows, follows that
  // one, and so on.
  bool join(const TvTask& task, std::int64_t pieces) const {
    unsigned char* marks = task.marks();
    const auto forget = [&](std::int64_t from, std::int64_t to) {
      if (from < to) std::memset(marks + from, kJoined, to - from);
    };
    std::int64_t budget = 2 * task.n, piece = 0;
    for (;;) {
      if (piece + 1 == pieces) return true;
      TvCut cut = cuts_[piece];
      cut.at += piece * kPiece;
      std::int64_t wrong = (piece + 1) * kPiece;  // from here on the marks are those of a piece that began wrongly
      for (;; wrong = cut.at + 1, cut = next_cut(task, cut, budget)) {
        if (budget < 0) return false;
        forget(wrong, cut.at);
        if (cut.at == task.n) return true;
        piece = cut.at / kPiece;
        if (marks[cut.at] == cut.direction) break;
        marks[cut.at] = cut.direction;
      }
    }
  }

  // The step of `TautLanes`, for one sequence, from one end of a segment to the next.
  static TvCut next_cut(const TvTask& task, TvCut cut, std::int64_t& budget) {
    const double strength = task.strength, *x = task.x;
    const std::int64_t start = cut.at;
    double low = cut.direction == kFalls ? x[start] : x[start] - 2 * strength, high = low + 2 * strength;
    double slack_low = strength, slack_high = -strength;
    std::int64_t low_end = start, high_end = start;
    for (std::int64_t k = start;; ++k, --budget) {
      const bool ends = k + 1 == task.n;
      const double with_low = ends ? slack_low : slack_low + (x[k + 1] - low);
      const double with_high = ends ? slack_high : slack_high + (x[k + 1] - high);
      const double range = ends ? 0 : strength;
      if (with_low < -range) return {low_end + 1, kFalls};
      if (with_high > range) return {high_end + 1, kRises};
      if (ends) return {task.n, kFalls};
      const double length = static_cast<double>(k + 2 - start);
      if (with_low >= strength) low += (with_low - strength) / length, low_end = k + 1;
      if (with_high <= -strength) high += (with_high + strength) / length, high_end = k + 1;
      slack_low = with_low >= strength ? strength : with_low;
      slack_high = with_high <= -strength ? -strength : with_high;
    }
  }

  TvCut* cuts_;
};
#else
class TautPieces {
 public:
  static std::int64_t bytes(std::int64_t) { return 0; }
  TautPieces(Buffer&, std::int64_t) {}
};
#endif

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
