// What decoding reads and writes: a few queries over a cache of keys that grows.
//
// The cache keeps its keys in 8 bits, in pages of 64 (the groups of quantisation.hpp), and for every page that is full
// a ball around its keys. Appending quantises the new keys (QuantisePages, one task per page). A call then takes three
// steps, each shared by threads: bounds of pages from their balls, and a first floor from the best page of each section
// (DecodeSample, one task per section of 64 pages); candidates of the pages that reach the floor (DecodeScan, one task
// per section); exact weights of the candidates, and the output (DecodeSolve, one task per head of the queries).
//
// Results do not depend on the number of threads, though floors rise while sections are scanned: a floor depends on
// the largest lower bounds only, pages are left out only where all their scores lie below a floor, and in the end the
// candidates are those above the last floor.
#pragma once

#include "attention/problems.hpp"

namespace omegamax {

constexpr std::int64_t kSection = 64;  // pages whose balls are multiplied at once

// How keys and values are stored. Halves are computed with in float.
enum CacheElements : std::int64_t { kAsComputed = 0, kBfloat16 = 1, kFloat16 = 2 };

// The 8-bit copy of a cache: arrays with one entry per key or per page of every head, with room for more.
struct CachedPages {
  std::int8_t* levels;  // [head][page][quad of features][key][feature of the quad]
  float* scale;         // of a key
  std::int32_t* start;  // of a key: -128 times the sum of its levels
  float* residual;      // of a page: see QuantisedKeys
  float* length;        // of a page
  std::uint64_t* wild;  // of a page: bits of the keys that are not all finite
  std::int8_t* centre_levels;  // [head][section][quad of features][page][feature of the quad]
  float* centre_scale;         // of a page
  std::int32_t* centre_start;  // of a page
  float* radius;               // of a page: the distance of its keys from the centre; infinite until it is full
  float* centre_length;        // of a page
  std::int64_t pages;          // of a head: how many there is room for

  std::int64_t sections() const { return (pages + kSection - 1) / kSection; }
};

template <class T>
struct QuantisePages {
  const void* key;  // [head][capacity][size]
  std::int64_t elements;
  std::int64_t kv_heads, size;
  CachedPages pages;
  const std::int64_t* begin;  // of an item of the batch: the first new key
  const std::int64_t* end;    // and the key after the last
  std::int64_t span;          // tasks of a head: as many pages as an item has new keys on, or more
};

// Candidates of one row of queries in one section. Memory by malloc.
struct CandidateBlock {
  std::int32_t* indices;
  float* scores;  // approximate
  std::int64_t size, capacity;
};

template <class T>
struct Decode {
  const T* query;  // (batch, heads, queries, size)
  const void* key;
  const void* value;
  T* output;
  std::int64_t elements;
  AttentionShape shape;
  CachedPages pages;
  AttentionOperator op;
  double scale;
  const std::int64_t* limits;    // (batch, queries): how many keys a query sees
  const std::int64_t* n_allowed;  // of a row: how many keys the mask leaves; or null: as many as it sees
  Broadcast<bool> mask;
  std::int64_t fine;
  std::int64_t may_refuse;  // whether rows with many candidates, or with wild keys, may be left to the caller
  float* uppers;            // [row][page]: no score on the page is larger
  float* floors;            // of a row: scores at or below have no weight
  std::uint8_t* unknown;    // of a row: it cannot be screened
  CandidateBlock* blocks;   // [head of the keys][section][row of the head]
  std::int64_t* n_read;     // of a section of a head: pages whose keys were read
  SupportBlock<T>* support;  // of a head of the queries, or null: not wanted
  std::uint8_t* refused;     // of a row

  std::int64_t capacity() const { return pages.pages * kKeyGroup; }
  std::int64_t rows() const { return shape.heads / shape.kv_heads * shape.queries; }  // of a head of the keys
  std::int64_t used_sections() const { return (shape.key_groups() + kSection - 1) / kSection; }
};

template <class T>
struct DecodeSample {
  Decode<T> call;
};

template <class T>
struct DecodeScan {
  Decode<T> call;
};

template <class T>
struct DecodeSolve {
  Decode<T> call;
};

}  // namespace omegamax
