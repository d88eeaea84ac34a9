// Soft-DTW of points in a band: memory grows with the length of the series, time with the band.
#pragma once

#include "grids/soft_dtw.hpp"
#include "series/problems.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
void run(const BandedSoftDtw<T>& problem, std::int64_t begin, std::int64_t end) {
  const SoftDtw<T> points{problem.x,     problem.y,    problem.lengths,      problem.scale,
                          problem.omega, problem.rows, problem.grid_columns, problem.n_coordinates,
                          problem.value, problem.to_x, problem.to_y,         problem.columns};
  sweep_points(points, problem.first, problem.last, begin, end);
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
