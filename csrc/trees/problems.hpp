// What the kernels on trees read and write.
#pragma once

#include <cstdint>

#include "core/arguments.hpp"

namespace omegamax {

// Trees: an item of the batch is a row. `lengths` has one entry per item; `charts` and `visits` are what one sweep
// leaves to the next (see projective.hpp, constituency.hpp); `columns` is the cost of an item, by which threads share
// the work.
template <class T>
struct ProjectiveValue {
  const T* scores;  // (size, size): head, modifier
  const std::int64_t* lengths;
  std::int64_t size, single_root;
  Omega omega;  // not kTsallis15
  T* charts;
  T* value;
  std::int64_t columns;
};

template <class T>
struct ProjectiveMarginals {
  const std::int64_t* lengths;
  T* charts;  // only read
  std::int64_t size, single_root;
  Omega omega;  // not kTsallis15
  T* visits;
  T* marginals;
  std::int64_t columns;
};

template <class T>
struct ProjectiveTangent {
  const std::int64_t* lengths;
  T* charts;  // only read
  T* visits;  // only read
  const T* direction;
  std::int64_t size, single_root;
  Omega omega;  // not kTsallis15
  T* product;
  std::int64_t columns;
};

template <class T>
struct ConstituencyValue {
  const T* scores;  // (size, size, labels)
  const std::int64_t* lengths;
  std::int64_t size, labels;
  Omega omega;  // not kTsallis15
  T* charts;
  T* value;
  std::int64_t columns;
};

template <class T>
struct ConstituencyMarginals {
  const T* scores;
  const std::int64_t* lengths;
  T* charts;  // only read
  std::int64_t size, labels;
  Omega omega;  // not kTsallis15
  T* visits;
  T* marginals;
  std::int64_t columns;
};

template <class T>
struct ConstituencyTangent {
  const T* scores;
  const std::int64_t* lengths;
  T* charts;  // only read
  T* visits;  // only read
  const T* direction;
  std::int64_t size, labels;
  Omega omega;  // not kTsallis15
  T* product;
  std::int64_t columns;
};

}  // namespace omegamax
