// The nearest series of each query: candidates in the order of their lower bounds, until a bound rules out the rest.
#pragma once

#include "series/distances.hpp"

namespace omegamax {
namespace OMEGAMAX_ARCH {

template <class T>
inline T squared_distance(const T* a, const T* b, std::int64_t d) {
  T sum = 0;
  for (std::int64_t k = 0; k < d; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

// The least and the largest number of x (m, d) that each column of an (m, n) grid can meet, channel by channel.
template <class T>
inline void envelope(const T* x, std::int64_t m, std::int64_t n, std::int64_t d, const std::int32_t* first,
                     const std::int32_t* last, T* low, T* high) {
  std::int64_t begin = 0, end = 0;  // the rows whose band has column j
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t begun = begin, ended = end;
    while (begin < m && last[begin] < j) ++begin;
    while (end < m && first[end] <= j) ++end;
    for (std::int64_t k = 0; k < d; ++k) {
      T* least = low + j * d + k;
      T* most = high + j * d + k;
      if (j > 0 && begin == begun) {  // only rows were added
        *least = least[-d], *most = most[-d];
        for (std::int64_t i = ended; i < end; ++i) {
          const T number = x[i * d + k];
          *least = number < *least ? number : *least;
          *most = number > *most ? number : *most;
        }
        continue;
      }
      *least = kInfinity<T>, *most = -kInfinity<T>;
      for (std::int64_t i = begin; i < end; ++i) {
        const T number = x[i * d + k];
        *least = number < *least ? number : *least;
        *most = number > *most ? number : *most;
      }
    }
  }
}

// The squares of what lies outside of an envelope.
template <class T>
inline T outside(const T* y, const T* low, const T* high, std::int64_t count) {
  using V = Vector<T>;
  constexpr int kL = kLanes<T>;
  V sum{};
  std::int64_t e = 0;
  for (; e + kL <= count; e += kL) {
    const V number = load(y + e);
    const V apart = larger(larger(load(low + e) - number, number - load(high + e)), V{});
    sum += apart * apart;
  }
  T total = sum_lanes<T>(sum);
  for (; e < count; ++e) {
    const T apart = larger(larger(low[e] - y[e], y[e] - high[e]), T(0));
    total += apart * apart;
  }
  return total;
}

template <class T>
void run(const SeriesBounds<T>& problem, std::int64_t begin, std::int64_t end) {
  const SeriesPairs<T>& pairs = problem.pairs;
  const std::int64_t p = pairs.n_others, d = pairs.n_coordinates;
  bool one_length = true;
  for (std::int64_t j = 1; j < p; ++j) one_length &= pairs.y_lengths[j] == pairs.y_lengths[0];
  // Others of several lengths have bands of their own: then the envelope is that of the whole series.
  const SeriesBand band = one_length ? pairs.band : SeriesBand::kNone;
  const std::int64_t n = one_length && p > 0 ? pairs.y_lengths[0] : pairs.y_size;
  Buffer buffer(2 * Buffer::size<T>(n * d) + 2 * Buffer::size<std::int32_t>(pairs.x_size));
  T *low = buffer.take<T>(n * d), *high = buffer.take<T>(n * d);
  std::int32_t *first = buffer.take<std::int32_t>(pairs.x_size), *last = buffer.take<std::int32_t>(pairs.x_size);
  std::int64_t rows_of = -1;
  for (std::int64_t i = begin; i < end; ++i) {
    const T* x = pairs.x + i * pairs.x_size * d;
    const std::int64_t m = pairs.x_lengths[i];
    if (m != rows_of) band_rows(band, pairs.reach, rows_of = m, n, first, last);
    envelope(x, m, n, d, first, last, low, high);
    for (std::int64_t j = 0; j < p; ++j) {
      const T* y = pairs.y + j * pairs.y_size * d;
      const std::int64_t length = pairs.y_lengths[j];
      const T start = squared_distance(x, y, d);
      const bool one_cell = m == 1 && length == 1;
      const T end_too = one_cell ? T(0) : squared_distance(x + (m - 1) * d, y + (length - 1) * d, d);
      problem.kim[i * p + j] = start + end_too;
      problem.keogh[i * p + j] = outside(y, low, high, length * d);
    }
  }
}

// The k best so far, best first; of equal distances the lower number comes first.
template <class T>
class Nearest {
 public:
  Nearest(T* distances, std::int64_t* numbers, std::int64_t k) : distances_(distances), numbers_(numbers), k_(k) {
    for (std::int64_t r = 0; r < k; ++r) distances_[r] = kInfinity<T>, numbers_[r] = -1;
  }
  T worst() const { return k_ > 0 && found_ == k_ ? distances_[k_ - 1] : kInfinity<T>; }
  void add(T distance, std::int64_t number) {
    if (!(distance == distance)) return;
    std::int64_t r = found_ < k_ ? found_++ : k_;
    if (r == k_) {
      if (k_ == 0 || !precedes(distance, number, k_ - 1)) return;
      --r;
    }
    for (; r > 0 && precedes(distance, number, r - 1); --r)
      distances_[r] = distances_[r - 1], numbers_[r] = numbers_[r - 1];
    distances_[r] = distance, numbers_[r] = number;
  }

 private:
  bool precedes(T distance, std::int64_t number, std::int64_t r) const {
    return distance < distances_[r] || (distance == distances_[r] && number < numbers_[r]);
  }
  T* distances_;
  std::int64_t* numbers_;
  std::int64_t k_, found_ = 0;
};

template <class T>
void run(const SeriesSearch<T>& problem, std::int64_t begin, std::int64_t end) {
  const SeriesPairs<T>& pairs = problem.pairs;
  const std::int64_t p = pairs.n_others, d = pairs.n_coordinates, k = problem.n_neighbors, kL = kLanes<T>;
  constexpr std::int64_t kUnits = 2;  // more at once would be swept before their bounds are known to rule them out
  using Many = OneToMany<T, FiniteThree>;
  Buffer buffer(SeriesUnits<T>::bytes(kUnits, pairs.y_size, d) + Many::bytes(pairs));
  SeriesUnits<T> units(kUnits, pairs.y_size, d, buffer);
  Many many(pairs, T(-1), buffer);
  const T radius = static_cast<T>(problem.radius);
  for (std::int64_t i = begin; i < end; ++i) {
    check_interruption();
    const T* x = pairs.x + i * pairs.x_size * d;
    const std::int64_t* order = problem.order + i * p;
    const T *kim = problem.kim + i * p, *bound = problem.bound + i * p;
    T* all = problem.distances == nullptr ? nullptr : problem.distances + i * p;
    std::int64_t* counts = problem.counts + 4 * i;
    for (int c = 0; c < 4; ++c) counts[c] = 0;
    for (std::int64_t j = 0; all != nullptr && j < p; ++j) all[j] = kInfinity<T>;
    Nearest<T> best(problem.nearest + i * k, problem.numbers + i * k, k);
    std::int64_t at = 0;
    T most = radius;
    while (at < p && !(bound[order[at]] > most)) {
      std::int64_t room = (at == 0 ? 1 : kUnits) * kL, taken = 0;
      for (; taken < room && at + taken < p && !(bound[order[at + taken]] > most); ++taken) {
        const std::int64_t j = order[at + taken];
        units.put(taken, pairs.y + j * pairs.y_size * d, pairs.y_lengths[j]);
      }
      const std::int64_t n_units = taken <= kL ? 1 : kUnits;
      for (std::int64_t place = taken; place < n_units * kL; ++place) units.put_nothing(place);
      std::int64_t written = 0;
      many.run(x, pairs.x_lengths[i], units, 0, n_units, most, [&](std::int64_t place, T distance) {
        const std::int64_t j = order[at + place];
        if (all != nullptr) all[j] = distance;
        best.add(distance, j);
        ++written;
      });
      counts[3] += written;
      counts[2] += taken - written;
      at += taken;
      most = best.worst() < radius ? best.worst() : radius;
    }
    for (; at < p; ++at) ++counts[kim[order[at]] > most ? 0 : 1];
  }
}

}  // namespace OMEGAMAX_ARCH
}  // namespace omegamax
