// Smoothed dynamic time warping with unit steps: the sweeps over all strips of one item.
//
// The grid is cut into strips of rows. The first sweep keeps only the last row of every strip; the others compute a
// strip again from the row above it and keep its local weights until they are done with it. So the expected alignment
// is the only thing as large as the grid.
#pragma once

#include "core/buffer.hpp"
#include "core/interruption.hpp"
#include "grids/alignment_sweeper.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

// Last rows of strips, of a long item: those of one segment of strips, and that above every segment. The sweep down
// computes the rows of each segment once more, so memory grows with the root of the number of strips.
template <class T>
struct KeptRows {
  T* fine;    // the row above the segment, and those of its strips
  T* coarse;  // the row above each segment
  std::int64_t segment;
};

// All strips of one item: what the sweeps need beside the grid, for rows of `columns` columns.
template <class T, class Omega>
class Aligner {
  using V = Vector<T>;
  static constexpr int kMost = kStripRows<T> / kLanes<T>, kFew = kMost >= 4 ? kMost / 4 : 1;
  using Wide = Sweeper<T, Omega, kMost>;
  using Thin = Sweeper<T, Omega, kFew>;

 public:
  // Of all strips of these items: in a band much fewer than columns.
  static std::int64_t most_steps(const AlignmentGrid<T>& grid, std::int64_t begin, std::int64_t end) {
    if (grid.first == nullptr) return grid.grid_columns + kStripRows<T>;
    std::int64_t most = 0;
    for (std::int64_t number = begin; number < end; ++number) {
      const GridItem<T> item(grid, number);
      for (std::int64_t s = 0; s < strips(item); ++s) {
        const std::int64_t steps = Strip<T>(item, s).steps;
        most = steps > most ? steps : most;
      }
    }
    return most;
  }

  // `stored` vectors per step and vector of lanes: 0, 3 or 6.
  static std::int64_t bytes(const AlignmentGrid<T>& grid, std::int64_t steps, int stored) {
    const std::int64_t strips = grid.rows / kStripRows<T> + 1;
    return (2 + 3 * Omega::kParts) * Buffer::size<T>(room_for(steps)) + 4 * Buffer::size<T>(grid.grid_columns + 2) +
           2 * Buffer::size<T>(kTile * kStripRows<T>) + Buffer::size<V>(steps * kMost * stored) +
           (stored == 6 ? Buffer::size<T>(strips * grid.width) : 0);
  }

  Aligner(const AlignmentGrid<T>& grid, std::int64_t steps, Buffer& buffer, int stored)
      : grid_(grid), scale_(static_cast<T>(grid.scale)), stride_(room_for(steps)) {
    const std::int64_t strips = grid.rows / kStripRows<T> + 1;
    T** const by_step[] = {&edge_, &bottom_, &last_};  // cells
    for (T** line : by_step) *line = buffer.take<T>(Omega::kParts * stride_);
    moved_edge_ = buffer.take<T>(stride_);
    moved_bottom_ = buffer.take<T>(stride_);
    T** const by_column[] = {&coming_, &leaving_, &moved_coming_, &moved_leaving_};
    for (T** line : by_column) *line = buffer.take<T>(grid.grid_columns + 2) + 1;
    tile_ = buffer.take<T>(kTile * kStripRows<T>);
    moved_tile_ = buffer.take<T>(kTile * kStripRows<T>);
    weights_ = buffer.take<V>(steps * kMost * stored);
    per_strip_ = steps * kMost * 3;
    if (stored == 6) moved_rows_ = buffer.take<T>(strips * grid.width);
  }

  // What is above strips that are computed again: the last row of every strip but the last, of one item.
  static std::int64_t checkpoints(const AlignmentGrid<T>& grid) {
    return (grid.rows - 1) / kStripRows<T> * grid.width * Omega::kParts;
  }

  // A `Ground` has the scores of an item and takes its marginals, a tile at a time.
  template <class Ground>
  double value(const GridItem<T>& item, T* rows, Ground& ground) {
    double found = 0;
    for (std::int64_t s = 0; s < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      const bool ends = s + 1 == strips(item);
      found = ascend<false>(strip, ground, ends ? nullptr : bottom_);
      if (!ends) keep_values(strip, s, rows);
    }
    return finished(found);
  }

  template <class Ground>
  void marginals(const GridItem<T>& item, double value, const T* rows, Ground& ground) {
    if (!prepare(item, value, ground)) return;
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      ascend<true>(strip, ground, nullptr);
      descend<false>(strip, ground);
    }
  }

  // The same with rows of one segment at a time.
  template <class Ground>
  double value(const GridItem<T>& item, const KeptRows<T>& kept, Ground& ground) {
    double found = 0;
    const std::int64_t row = grid_.width * Omega::kParts;
    for (std::int64_t s = 0; s < strips(item); s += kept.segment) {
      if (s > 0) copy(kept.fine + kept.segment * row, kept.coarse + s / kept.segment * row, row);
      found = ascend_segment(item, s, kept, ground);
    }
    return finished(found);
  }
  template <class Ground>
  void marginals(const GridItem<T>& item, double value, const KeptRows<T>& kept, Ground& ground) {
    if (!prepare(item, value, ground)) return;
    const std::int64_t row = grid_.width * Omega::kParts, all = strips(item), last = (all - 1) / kept.segment;
    for (std::int64_t number = last; number >= 0; --number) {
      const std::int64_t begin = number * kept.segment, end = begin + kept.segment < all ? begin + kept.segment : all;
      if (number < last) ascend_segment(item, begin, kept, ground);  // those of the last one are there
      const T* rows = kept.fine - (begin - 1) * row;
      for (std::int64_t s = end - 1; s >= begin; --s) {
        const Strip<T> strip(item, s);
        read_values(strip, s, rows);
        ascend<true>(strip, ground, nullptr);
        descend<false>(strip, ground);
      }
    }
  }

  // Both sweeps in one go; the weights of all strips are kept between them.
  template <class Ground>
  double both(const GridItem<T>& item, T* rows, Ground& ground) {
    double found = 0;
    for (std::int64_t s = 0; s < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      const bool ends = s + 1 == strips(item);
      found = ascend<true>(strip, ground, ends ? nullptr : bottom_);
      weights_ += per_strip_;
      if (!ends) keep_values(strip, s, rows);
    }
    found = finished(found);
    const bool feasible = prepare(item, found, ground);
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      weights_ -= per_strip_;
      if (feasible) descend<false>(Strip<T>(item, s), ground);
    }
    return found;
  }

  template <class Ground>
  void tangent(const GridItem<T>& item, double value, const T* rows, Ground& ground) {
    if (!prepare(item, value, ground)) return;
    for (std::int64_t s = 0; s + 1 < strips(item); ++s) {
      const Strip<T> strip(item, s);
      read_edges(strip, s, rows);
      ascend_moved<false>(strip, ground, bottom_, moved_bottom_);
      keep_bottom(strip, moved_bottom_, moved_rows_ + s * grid_.width);
    }
    for (std::int64_t s = strips(item) - 1; s >= 0; --s) {
      const Strip<T> strip(item, s);
      read_edges(strip, s, rows);
      ascend_moved<true>(strip, ground, nullptr, nullptr);
      descend<true>(strip, ground);
    }
  }

 private:
  // A line by step, in whole vectors.
  static std::int64_t room_for(std::int64_t steps) { return (steps + 2 + kLanes<T>) / kLanes<T> * kLanes<T>; }
  static std::int64_t strips(const GridItem<T>& item) { return (item.m + kStripRows<T> - 1) / kStripRows<T>; }

  double finished(double found) const {
    found = found == kInfinity<double> ? kNaN<double> : found;
    return found / static_cast<double>(scale_) + 0.0;  // no negative zero from a negative scale
  }

  // Sets what flows into the last cell; false where there is nothing more to do.
  template <class Ground>
  bool prepare(const GridItem<T>& item, double value, Ground& ground) {
    const bool feasible = value - value == 0;
    ground.prepare(item, feasible, value == value ? T(0) : kNaN<T>);
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j)
      coming_[j] = leaving_[j] = moved_coming_[j] = moved_leaving_[j] = 0;
    coming_[item.n - 1] = 1;
    return feasible;
  }

  // What lies above a strip, by step, from row `number` as `keep_bottom` left it; the corner above the first cell
  // starts everything.
  void read_edge(const Strip<T>& strip, std::int64_t s, const T* rows, std::int64_t number, T* edge, T nothing,
                 T start) const {
    for (std::int64_t t = 0; t <= strip.steps; ++t) edge[t] = nothing;
    if (s == 0) {
      edge[0] = start;
      return;
    }
    const std::int64_t i = strip.top - 1, begin = strip.item.begin(i), end = strip.item.end(i);
    const T* row = rows + number * grid_.width - strip.item.shift(i);
    for (std::int64_t t = 0; t <= strip.steps; ++t) {
      const std::int64_t j = strip.left + t - 1;
      if (j >= begin && j < end) edge[t] = row[j];
    }
  }
  void read_values(const Strip<T>& strip, std::int64_t s, const T* rows) {
    for (int part = 0; part < Omega::kParts; ++part)
      read_edge(strip, s, rows, (s - 1) * Omega::kParts + part, edge_ + part * stride_, Omega::template none<T>(part),
                Omega::template start<T>(part));
  }
  void read_edges(const Strip<T>& strip, std::int64_t s, const T* rows) {
    read_values(strip, s, rows);
    read_edge(strip, s, moved_rows_, s - 1, moved_edge_, T(0), T(0));
  }

  void keep_bottom(const Strip<T>& strip, const T* bottom, T* row) const {
    const std::int64_t r = strip.height - 1, i = strip.top + r;
    row -= strip.item.shift(i);
    for (std::int64_t j = strip.item.begin(i); j < strip.item.end(i); ++j) row[j] = bottom[j - strip.left + r];
  }
  // Cells are kept with all their parts: a rounded value would change the weights of the strip below.
  void keep_values(const Strip<T>& strip, std::int64_t s, T* rows) const {
    for (int part = 0; part < Omega::kParts; ++part)
      keep_bottom(strip, bottom_ + part * stride_, rows + (s * Omega::kParts + part) * grid_.width);
  }

  static void copy(const T* from, T* to, std::int64_t count) {
    for (std::int64_t p = 0; p < count; ++p) to[p] = from[p];
  }

  // Values of the strips of a segment that begins with strip `begin`, from the row above it. Keeps the last row of
  // every strip but the item's last.
  template <class Ground>
  double ascend_segment(const GridItem<T>& item, std::int64_t begin, const KeptRows<T>& kept, Ground& ground) {
    const std::int64_t row = grid_.width * Omega::kParts, all = strips(item);
    if (begin > 0) copy(kept.coarse + begin / kept.segment * row, kept.fine, row);
    T* rows = kept.fine - (begin - 1) * row;  // so that row s belongs to strip s
    double found = 0;
    for (std::int64_t s = begin; s < begin + kept.segment && s < all; ++s) {
      check_interruption();
      const Strip<T> strip(item, s);
      read_values(strip, s, rows);
      const bool ends = s + 1 == all;
      found = ascend<false>(strip, ground, ends ? nullptr : bottom_);
      if (!ends) keep_values(strip, s, rows);
    }
    return found;
  }

  template <bool kWeights, class Ground>
  double ascend(const Strip<T>& strip, Ground& ground, T* bottom) {
    ground.enter(strip);
    const auto read = [&](std::int64_t t, int lanes, T* tile) { ground.read(strip, t, lanes, tile); };
    return sweep<kWeights, false>(strip, read, read, bottom, nullptr);
  }
  template <bool kWeights, class Ground>
  double ascend_moved(const Strip<T>& strip, Ground& ground, T* bottom, T* moved_bottom) {
    ground.enter(strip);
    const auto read = [&](std::int64_t t, int lanes, T* tile) { ground.read(strip, t, lanes, tile); };
    const auto read_moved = [&](std::int64_t t, int lanes, T* tile) { ground.read_moved(strip, t, lanes, tile); };
    return sweep<kWeights, true>(strip, read, read_moved, bottom, moved_bottom);
  }
  template <bool kWeights, bool kTangent, class Read, class ReadMoved>
  double sweep(const Strip<T>& strip, const Read& read, const ReadMoved& read_moved, T* bottom, T* moved_bottom) {
    if (strip.height <= Thin::kRows)
      Thin::template ascend<kWeights, kTangent>(strip, read, read_moved, edge_, bottom, stride_, last_, weights_,
                                                moved_edge_, moved_bottom, tile_, moved_tile_);
    else
      Wide::template ascend<kWeights, kTangent>(strip, read, read_moved, edge_, bottom, stride_, last_, weights_,
                                                moved_edge_, moved_bottom, tile_, moved_tile_);
    return Omega::value(last_, stride_);
  }

  template <bool kTangent, class Ground>
  void descend(const Strip<T>& strip, Ground& ground) {
    ground.enter(strip);
    const auto write = [&](std::int64_t t, int lanes, const T* tile) { ground.write(strip, t, lanes, tile); };
    if (strip.height <= Thin::kRows)
      Thin::template descend<kTangent>(strip, weights_, coming_, leaving_, moved_coming_, moved_leaving_, write, tile_);
    else
      Wide::template descend<kTangent>(strip, weights_, coming_, leaving_, moved_coming_, moved_leaving_, write, tile_);
    ground.leave(strip);
    restore_flow();
    T* line = coming_;
    coming_ = leaving_;
    leaving_ = line;
    line = moved_coming_;
    moved_coming_ = moved_leaving_;
    moved_leaving_ = line;
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j) leaving_[j] = moved_leaving_[j] = 0;
  }

  // Every path leaves a strip once: what leaves it adds up to 1, but for rounding that would grow with the rows.
  void restore_flow() {
    double total = 0;
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j) total += leaving_[j];
    const T factor = static_cast<T>(1 / total);
    if (!(factor < kInfinity<T>) || factor == T(1)) return;
    for (std::int64_t j = -1; j <= grid_.grid_columns; ++j) leaving_[j] *= factor;
  }

  const AlignmentGrid<T>& grid_;
  T scale_;
  std::int64_t stride_;
  T *edge_, *bottom_, *last_, *moved_edge_, *moved_bottom_, *coming_, *leaving_, *moved_coming_, *moved_leaving_;
  T *tile_, *moved_tile_, *moved_rows_ = nullptr;
  V* weights_;
  std::int64_t per_strip_;
};

template <class T, class F>
inline void with_omega(const AlignmentGrid<T>& grid, std::int64_t begin, std::int64_t end, int stored, F f) {
  const auto go = [&](auto omega) {
    using Own = Aligner<T, decltype(omega)>;
    const WithoutDenormals flushed;  // far from the best paths marginals are tiny
    const std::int64_t steps = Own::most_steps(grid, begin, end);
    Buffer buffer(Own::bytes(grid, steps, stored));
    Own aligner(grid, steps, buffer, stored);
    f(aligner);
  };
  if (grid.omega == Omega::kHard) go(HardThree{});
  else if (grid.omega == Omega::kShannon) go(ShannonThree{});
  else go(SquaredThree{});
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
