// What the kernels of sparse attention read and write: plain data, the same for every instruction set.
//
// A call of the forward pass quantises the keys (AttentionKeys, one task per group of keys), and then answers the
// queries (AttentionForward, one task per block of queries). The backward pass goes over the queries
// (AttentionRowGradient) and over the keys (AttentionKeyGradient), and over the blocks of queries whose support was not
// kept (AttentionDenseGradient, AttentionPartSum). What a task computes depends on its number only, so results do not
// depend on how many threads share the tasks.
#pragma once

#include <cstdint>

#include "attention/list.hpp"

namespace omegamax {

constexpr std::int64_t kKeyGroup = 64;    // keys that share an error bound
constexpr std::int64_t kQueryBlock = 48;  // queries of a task
constexpr std::int64_t kKeyRange = 1024;  // keys of a task of the backward pass: their gradients stay in a core's cache
constexpr std::int64_t kGradientTasks = 16;      // of dense gradients, at least, where memory allows
constexpr std::int64_t kPartNumbers = 1L << 25;  // that their sums may hold together

struct AttentionShape {
  std::int64_t batch, heads, kv_heads, queries, keys, size, value_size;

  std::int64_t key_groups() const { return (keys + kKeyGroup - 1) / kKeyGroup; }
  std::int64_t query_blocks() const { return (queries + kQueryBlock - 1) / kQueryBlock; }
  std::int64_t key_ranges() const { return (keys + kKeyRange - 1) / kKeyRange; }
  // Numbers of the keys and values of a head.
  std::int64_t head_numbers() const { return keys * (size + value_size); }
  std::int64_t quads() const { return (size + 3) / 4; }  // four features are multiplied by one instruction
  // Parts of the queries of a head of keys whose gradients of keys are summed up apart: enough for the threads, few
  // enough for the memory, and always the same for the same shape.
  std::int64_t gradient_parts() const {
    const std::int64_t kv = batch * kv_heads > 0 ? batch * kv_heads : 1;
    const std::int64_t wanted = (kGradientTasks + kv - 1) / kv, most = 1 + kPartNumbers / (kv * head_numbers() + 1);
    const std::int64_t parts = wanted < most ? wanted : most, blocks = heads / kv_heads * query_blocks();
    return parts < blocks ? parts : blocks;
  }
  // The head of the keys that a head of the queries uses, both counted over the batch.
  std::int64_t kv_head(std::int64_t head) const { return head / heads * kv_heads + head % heads / (heads / kv_heads); }
};

// Keys in 8 bits: see quantisation.hpp. Arrays have one entry per key or per group of keys of every head.
struct QuantisedKeys {
  std::int8_t* levels;  // [head][group][quad of features][key][feature of the quad]
  float* scale;         // of a key
  std::int32_t* start;  // of a key: what makes up for the offset of the queries' levels
  float* residual;      // of a group: the bound that is multiplied by the length of a query
  float* length;        // of a group: the bound that is multiplied by the residual of a query
  std::uint64_t* wild;  // of a group: bits of the keys that are not all finite, which have no levels
  std::int64_t fine;    // whether queries have 8 bits too, or 7 (without VNNI)
};

template <class T>
struct AttentionKeys {
  const T* key;
  AttentionShape shape;
  QuantisedKeys keys;
};

// Which operator turns scores into weights.
enum AttentionKind : std::int64_t {
  kEntmaxAttention = 0,  // the parameter is alpha; 2 is sparsemax
  kTopAttention = 1,     // softmax on the best scores; the parameter is their number
  kOscarAttention = 2,   // the parameter is the strength
  kFusedAttention = 3,   // the parameter is the strength
};

struct AttentionOperator {
  std::int64_t kind;
  double parameter;
  const double* parameters;  // one per row, or null
  double most;               // of oscarmax: strength times the number of keys is at most this
};

// Row-major scores (batch, heads, queries, keys) that may be broadcast: strides of 0.
template <class U>
struct Broadcast {
  const U* first;
  std::int64_t batch_stride, head_stride, query_stride, key_stride;  // the last is 0 or 1
};

struct AttentionDropout {
  double share;  // of the weights that are dropped
  std::uint64_t seed;
};

// The support of a task's rows: positions and weights one row after the other. Memory by malloc.
template <class T>
struct SupportBlock {
  std::int32_t* indices;
  std::int32_t* labels;  // segments of fusedmax and clusters of oscarmax, or null
  T* weights;
  std::int64_t size, capacity;
  std::int32_t counts[kQueryBlock];
};

template <class T>
struct AttentionForward {
  const T* query;
  const T* key;
  const T* value;
  T* output;
  AttentionShape shape;
  QuantisedKeys keys;
  AttentionOperator op;
  AttentionDropout dropout;
  double scale;
  std::int64_t causal;
  const std::int64_t* lengths;  // one per head of the batch, or null
  Broadcast<bool> mask;
  Broadcast<T> bias;
  std::int64_t budget;      // entries of the support that a row of a task may have on average
  std::int64_t may_refuse;  // whether the support of crowded tasks may be left out
  SupportBlock<T>* blocks;  // one per task, or null: not wanted
  std::uint8_t* refused;    // one per task: its support is too large, and AttentionDenseGradient serves its rows
};

// The support in CSR form. A row without a number as its answer has one entry, with a weight of NaN.
template <class T>
struct AttentionSupport {
  const std::int64_t* offsets;  // one per row, and the end
  const std::int32_t* indices;
  const std::int32_t* labels;
  const T* weights;
};

template <class T>
struct AttentionRowGradient {
  const T* query;
  const T* key;
  const T* value;
  const T* grad_output;
  AttentionShape shape;
  AttentionSupport<T> support;
  AttentionOperator op;
  AttentionDropout dropout;
  double scale;
  T* grad_scores;  // one per entry of the support
  T* grad_query;
  T* along;  // one per row: the gradient with respect to alpha, with the opposite sign; or null
};

template <class T>
struct AttentionKeyGradient {
  const T* query;
  const T* grad_output;
  AttentionShape shape;
  AttentionSupport<T> support;
  AttentionDropout dropout;
  double scale;
  const T* grad_scores;
  T* grad_key;
  T* grad_value;
};

// Gradients of the tasks that the forward pass refused, from dense scores. They are added to those of keys and values.
// A task has a part of the blocks of queries that share a head of keys. The first part adds to the gradients
// themselves, the others to sums of their own, which AttentionPartSum adds up in a fixed order.
template <class T>
struct AttentionDenseGradient {
  const T* query;
  const T* key;
  const T* value;
  const T* grad_output;
  AttentionShape shape;
  AttentionOperator op;
  AttentionDropout dropout;
  double scale;
  std::int64_t causal;
  const std::int64_t* lengths;
  Broadcast<bool> mask;
  Broadcast<T> bias;
  const std::uint8_t* refused;
  T* grad_query;
  T* grad_key;
  T* grad_value;
  T* along;                 // or null
  T* grad_scores;           // of the refused rows, (rows, keys), or null: not wanted
  std::int64_t first_row;   // of the gradients of scores
  T* parts;                 // (parts - 1, heads of keys, keys * (size + value size))
  std::uint8_t* part_used;  // one per task
  std::int64_t n_parts;
};

template <class T>
struct AttentionPartSum {
  AttentionShape shape;
  const T* parts;
  const std::uint8_t* part_used;
  std::int64_t n_parts;
  T* grad_key;
  T* grad_value;
};

}  // namespace omegamax
