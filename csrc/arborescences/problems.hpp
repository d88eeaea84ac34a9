// What the kernels on arborescences (non-projective trees) read and write.
#pragma once

#include <cstdint>

namespace omegamax {

// An item of the batch is a row: scores (size, size), [head, modifier]; node 0 is the root, words are 1..lengths[item].
// Column 0 and the diagonal are never read. `columns` is the cost of an item, by which threads share the work.
template <class T>
struct ArborescenceBest {
  const T* scores;
  const std::int64_t* lengths;
  std::int64_t size, single_root;
  T* value;
  T* arcs;  // 0/1
  std::int64_t columns;
};

template <class T>
struct ArborescenceValue {
  const T* scores;
  const std::int64_t* lengths;
  std::int64_t size, single_root;
  T* value;
  std::int64_t columns;
};

template <class T>
struct ArborescenceMarginals {
  const T* scores;
  const std::int64_t* lengths;
  const T* value;  // -inf where there is no tree, NaN where a score is none
  std::int64_t size, single_root;
  T* marginals;
  std::int64_t columns;
};

template <class T>
struct ArborescenceTangent {
  const T* scores;
  const std::int64_t* lengths;
  const T* value;
  const T* direction;
  std::int64_t size, single_root;
  T* product;
  std::int64_t columns;
};

// Here a row is one sample; row i belongs to item i % items.
template <class T>
struct ArborescenceSample {
  const T* scores;
  const std::int64_t* lengths;
  const double* levels;       // (items, size, size): [modifier, head], sums of the probabilities of heads 0..head
  const std::int64_t* roots;  // per sample: the node that the walks end in; -1 where there is no tree
  const std::int64_t* seeds;  // per sample
  std::int64_t size, items, max_steps;
  std::int64_t* heads;  // (samples, size): of every node, -1 where it has none
  std::int64_t columns;
};

}  // namespace omegamax
