// Up and down through one strip of an alignment grid, an anti-diagonal of cells at a time.
#pragma once

#include "grids/alignment_strip.hpp"
#include "grids/cells.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T, class Omega, int kVectors>
struct Sweeper {
  using V = Vector<T>;
  static constexpr int kL = kLanes<T>, kRows = kVectors * kLanes<T>;

  static constexpr int kParts = Omega::kParts;
  using Cells = Cell<V, kParts>;

  // Up through a strip. `read(t, rows, tile)` gives the scores of a tile of steps, `read_moved` their derivatives.
  // `edge[1 + t]` is the cell above lane 0 at step t (and `edge[0]` one column to the left of it), its parts `stride`
  // apart. Writes the last row of the strip to `bottom` by step, where it is wanted, and its last cell to `last`.
  template <bool kWeights, bool kTangent, class Read, class ReadMoved>
  static void ascend(const Strip<T>& strip, const Read& read, const ReadMoved& read_moved, const T* edge, T* bottom,
                     std::int64_t stride, T* last, V* weights, const T* moved_edge, T* moved_bottom, T* tile,
                     T* moved_tile) {
    Cells now[kVectors], above[kVectors];
    V moved_now[kVectors], moved_above[kVectors];
    for (int k = 0; k < kVectors; ++k) {
      for (int part = 0; part < kParts; ++part)
        now[k].part[part] = above[k].part[part] = splat(Omega::template none<T>(part));
      moved_now[k] = moved_above[k] = V{};
    }
    for (int part = 0; part < kParts; ++part) above[0].part[part][0] = edge[part * stride];
    if constexpr (kTangent) moved_above[0][0] = moved_edge[0];
    for (std::int64_t t = 0; t < strip.steps; ++t) {
      if (t % kTile == 0) {
        read(t, kRows, tile);
        if constexpr (kTangent) read_moved(t, kRows, moved_tile);
      }
      const T* scores = tile + (t % kTile) * kRows;
      Cells up[kVectors];
      V moved_up[kVectors];
      for (int part = 0; part < kParts; ++part)
        for (int k = 0; k < kVectors; ++k)
          up[k].part[part] =
              move_up<T>(k == 0 ? splat(edge[part * stride + 1 + t]) : now[k - 1].part[part], now[k].part[part]);
      if constexpr (kTangent)
        for (int k = 0; k < kVectors; ++k)
          moved_up[k] = move_up<T>(k == 0 ? splat(moved_edge[1 + t]) : moved_now[k - 1], moved_now[k]);
      for (int k = 0; k < kVectors; ++k) {
        Three<V> q;
        const Three<Cells> tails{above[k], up[k], now[k]};
        now[k] = Omega::template next < kWeights || kTangent > (tails, load(scores + k * kL), q);
        above[k] = up[k];
        if constexpr (kWeights) {
          weights[0] = q.diagonal;
          weights[1] = q.up;
          weights[2] = q.left;
          weights += 3;
        }
        if constexpr (kTangent) {
          const V zero = V{};
          const Three<V> d{q.diagonal == zero ? zero : moved_above[k], q.up == zero ? zero : moved_up[k],
                           q.left == zero ? zero : moved_now[k]};
          const V mean = q.diagonal * d.diagonal + q.up * d.up + q.left * d.left;
          const V step = load(moved_tile + (t % kTile) * kRows + k * kL);
          moved_now[k] = step + mean;
          moved_above[k] = moved_up[k];
          if constexpr (kWeights) {
            const Three<V> m = Omega::moved(q, d, mean);
            weights[0] = m.diagonal;
            weights[1] = m.up;
            weights[2] = m.left;
            weights += 3;
          }
        }
      }
      if (bottom != nullptr)
        for (int part = 0; part < kParts; ++part) bottom[part * stride + t] = now[kVectors - 1].part[part][kL - 1];
      if constexpr (kTangent)
        if (moved_bottom != nullptr) moved_bottom[t] = moved_now[kVectors - 1][kL - 1];
    }
    T row[kRows];
    for (int part = 0; part < kParts; ++part) {
      for (int k = 0; k < kVectors; ++k) store(row + k * kL, now[k].part[part]);
      last[part * stride] = row[strip.height - 1];
    }
  }

  // Down through a strip. `coming[j]` is what flows into column j of the last row from below; `leaving[j]` receives
  // what flows out of the first row; `write(t, rows, tile)` takes the marginals of a tile of steps, zero outside the
  // grid. With tangents the same for derivatives, and only these are written.
  template <bool kTangent, class Write>
  static void descend(const Strip<T>& strip, const V* weights, const T* coming, T* leaving, const T* moved_coming,
                      T* moved_leaving, const Write& write, T* tile) {
    constexpr int kStored = kTangent ? 6 : 3;
    Falling flow{}, moved{};
    const int last = static_cast<int>(strip.height - 1), last_vector = last / kL;
    V only_last = V{};
    only_last[last % kL] = T(1);
    const std::int64_t begin = strip.item.begin(strip.top + last), end = strip.item.end(strip.top + last);
    for (std::int64_t t = strip.steps - 1; t >= 0; --t) {
      const V* q = weights + t * kVectors * kStored;
      const std::int64_t j = strip.column(t, 0), into = strip.column(t, last);
      const bool enters = into >= begin && into < end;
      V here[kVectors], change[kVectors];
      flow.arrive(here);
      if (enters) here[last_vector] += only_last * coming[into];
      if constexpr (kTangent) {
        moved.arrive(change);
        if (enters) change[last_vector] += only_last * moved_coming[into];
      }
      V diagonal[kVectors], up[kVectors];
      if constexpr (kTangent) {
        for (int k = 0; k < kVectors; ++k) {
          const V* w = q + k * kStored;
          diagonal[k] = change[k] * w[0] + here[k] * w[3];
          up[k] = change[k] * w[1] + here[k] * w[4];
          moved.along[k] = change[k] * w[2] + here[k] * w[5];
        }
        moved.depart(up, diagonal, moved_leaving + j);
      }
      for (int k = 0; k < kVectors; ++k) {
        const V* w = q + k * kStored;
        diagonal[k] = here[k] * w[0];
        up[k] = here[k] * w[1];
        flow.along[k] = here[k] * w[2];
        store(tile + (t % kTile) * kRows + k * kL, kTangent ? change[k] : here[k]);
      }
      flow.depart(up, diagonal, leaving + j);
      if (t % kTile == 0) write(t, kRows, tile);
    }
  }

 private:
  // What is on its way from a step to the earlier ones: along a row to the same lane, to the row above one lane back;
  // a diagonal step arrives one step later than an upward one.
  struct Falling {
    V along[kVectors], above[kVectors], waiting[kVectors];

    void arrive(V* here) const {
      for (int k = 0; k < kVectors; ++k)
        here[k] = along[k] + move_down<T>(above[k], k + 1 < kVectors ? above[k + 1] : V{});
    }
    void depart(const V* up, const V* diagonal, T* leaving) {
      leaving[0] += up[0][0];
      leaving[-1] += diagonal[0][0];
      for (int k = 0; k < kVectors; ++k) {
        above[k] = up[k] + waiting[k];
        waiting[k] = diagonal[k];
      }
    }
  };
};

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
