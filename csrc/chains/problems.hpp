// What the kernels on chains read and write.
#pragma once

#include <cstdint>

namespace omegamax {

// Chains (batch items are the rows). `first` is (places, tags, tags) in dense form, where `transitions` is null, and
// the emissions (places, tags) in factored form. A stride is the step from one item to the next; 0: all share one.
template <class T>
struct ChainParts {
  const T* first;
  const T* transitions;
  const T* start;
  const T* end;
  std::int64_t first_stride, transitions_stride, start_stride, end_stride;
};

// Weights in the same form, one after the other.
template <class T>
struct ChainWeights {
  T* first;
  T* transitions;
  T* start;
  T* end;
};

// Which Omega smooths a recursion.
enum ChainOmega : int { kChainHard, kChainShannon, kChainSquaredNorm, kChainTsallis15 };

template <class T>
struct ChainValue {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  double* value;  // a loss is the difference of two of these, which may be large and close to each other
  double* total;  // the same again, for the sweeps that follow
  // Of the nodes, for a row per place (of a factored chain without every eighth): (rows, tags), or null.
  T* values;  // the largest of each place shifted to 0
  T* levels;  // what turns scores into local weights
  int omega;
  std::int64_t n_places, n_tags, columns;
};

template <class T>
struct ChainMarginals {
  ChainParts<T> parts;
  const std::int64_t* lengths;
  const double* total;
  const T* values;
  const T* levels;
  ChainWeights<T> weights;
  int omega;
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
  ChainWeights<T> weights;
  int omega;
  std::int64_t n_places, n_tags, columns;
};

}  // namespace omegamax
