// What the kernels on chains read and write.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// Chains (batch items are the rows). `first` is (places, tags, tags) in dense form, where `transitions`, `start` and
// `end` are null, and the emissions (places, tags) in factored form.
template <class T>
struct ChainPointers {
  T* first;
  T* transitions;
  T* start;
  T* end;
};

// The step from one item to the next; 0: all items share one.
struct ChainStrides {
  std::int64_t first, transitions, start, end;
};

template <class T>
struct ChainParts {
  ChainPointers<const T> at;
  ChainStrides strides;
};

template <class T>
struct ChainValue {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  double* value;  // a loss is the difference of two of these, which may be large and close to each other
  double* total;  // the same again, for the sweeps that follow
  // Of the nodes, for a row per place (of a factored chain without every eighth): (rows, tags), or null.
  T* values;  // the largest of each place shifted to 0
  T* levels;  // what turns scores into local weights
  Omega omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct ChainMarginals {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const double* total;
  const T* values;
  const T* levels;
  ChainPointers<T> weights;  // one item after the other
  Omega omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct ChainTangent {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const double* total;
  const T* values;
  const T* levels;
  ChainParts<T> direction;
  ChainPointers<T> weights;  // one item after the other
  Omega omega;
  std::int64_t n_places, n_tags, columns;
};

}  // namespace omegamax
