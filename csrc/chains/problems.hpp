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

// The fields are inputs, parameters and sizes, results, and `columns`, the cost of an item.
template <class T>
struct ChainValue {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const std::int32_t* order;  // (places) per item: those that are kept, then the others; null: none is left out
  Omega omega;
  std::int64_t n_places, n_tags;
  double* value;  // a loss is the difference of two of these, which may be large and close to each other
  double* total;  // the same again, for the sweeps that follow
  // Of the nodes, for a row per place (of a factored chain without every eighth): (rows, tags), or null.
  T* values;  // the largest of each place shifted to 0
  T* levels;  // what turns scores into local weights
  std::int64_t columns;
};

template <class T>
struct ChainMarginals {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const std::int32_t* order;
  const double* total;
  const T* values;
  const T* levels;
  Omega omega;
  std::int64_t n_places, n_tags;
  ChainPointers<T> weights;  // one item after the other
  std::int64_t columns;
};

template <class T>
struct ChainTangent {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const std::int32_t* order;
  const double* total;
  const T* values;
  const T* levels;
  ChainParts<T> direction;
  Omega omega;
  std::int64_t n_places, n_tags;
  ChainPointers<T> weights;  // one item after the other
  std::int64_t columns;
};

// Which places of a sequence are kept: their number, and an order in which they come first.
template <class T>
struct KeptOrder {
  const std::uint8_t* kept;  // (places) per item, 0 or 1
  std::int64_t n_places;
  std::int32_t* order;
  std::int64_t* lengths;
  std::int64_t columns;
};

// The mass of every span of a sequence of tags; see omegamax/kernels/structures/spans.py. `begin` and `end` are (places,
// types, width), `go_on` is (places, types, width, width), `mass` is (places, max_length, types).
template <class T>
struct SpanMass {
  const T* begin;
  const T* go_on;
  const T* end;
  std::int64_t n_places, max_length, n_types, width;
  T* mass;
  std::int64_t columns;
};

template <class T>
struct SpanMassGradient {
  const T* begin;
  const T* go_on;
  const T* end;
  const T* grad;  // of the mass
  std::int64_t n_places, max_length, n_types, width;
  T* grad_begin;
  T* grad_go_on;
  T* grad_end;
  std::int64_t columns;
};

}  // namespace omegamax
