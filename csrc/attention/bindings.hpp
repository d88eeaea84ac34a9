// Sparse attention for the Python module: addresses and sizes in, and the support of a call as an object.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "attention/problems.hpp"
#include "core/interruption.hpp"
#include "core/problems.hpp"
#include "core/team.hpp"
#include "sparsemap/bindings.hpp"

namespace omegamax {

// The levels and bounds of all keys of a call.
class KeyMemory {
 public:
  KeyMemory(const AttentionShape& shape, bool fine) {
    const std::size_t groups = static_cast<std::size_t>(shape.batch * shape.kv_heads * shape.key_groups());
    levels_.reset(new Line[groups * shape.quads() * (kKeyGroup * 4 / sizeof(Line))]);
    scale_.reset(new float[groups * kKeyGroup]);
    start_.reset(new std::int32_t[groups * kKeyGroup]);
    bounds_.reset(new float[2 * groups]);
    wild_.reset(new std::uint64_t[groups]);
    keys_ = {reinterpret_cast<std::int8_t*>(levels_.get()),
             scale_.get(),
             start_.get(),
             bounds_.get(),
             bounds_.get() + groups,
             wild_.get(),
             fine};
  }
  const QuantisedKeys& keys() const { return keys_; }

 private:
  struct alignas(64) Line {  // of a cache: vectors of levels must not lie across two
    std::int8_t bytes[64];
  };
  std::unique_ptr<Line[]> levels_;
  std::unique_ptr<float[]> scale_, bounds_;
  std::unique_ptr<std::int32_t[]> start_;
  std::unique_ptr<std::uint64_t[]> wild_;
  QuantisedKeys keys_;
};

// The support of one call, until Python has made tensors for it. T is float or double, told by `bytes`.
class SupportHolder {
 public:
  SupportHolder(int bytes, const AttentionShape& shape)
      : bytes_(bytes), shape_(shape), singles_(bytes == 4 ? n_tasks() : 0), doubles_(bytes == 4 ? 0 : n_tasks()) {}
  ~SupportHolder() {
    for (auto& block : singles_) release(block);
    for (auto& block : doubles_) release(block);
  }
  SupportHolder(SupportHolder&& other) noexcept
      : bytes_(other.bytes_), shape_(other.shape_), singles_(std::move(other.singles_)),
        doubles_(std::move(other.doubles_)) {
    other.singles_.clear();
    other.doubles_.clear();
  }
  SupportHolder(const SupportHolder&) = delete;

  std::size_t n_tasks() const { return static_cast<std::size_t>(shape_.batch * shape_.heads * shape_.query_blocks()); }
  template <class T>
  SupportBlock<T>* blocks() {
    if constexpr (sizeof(T) == 4) return singles_.data();
    else return doubles_.data();
  }
  std::int64_t n_entries() const {
    std::int64_t total = 0;
    for (const auto& block : singles_) total += block.size;
    for (const auto& block : doubles_) total += block.size;
    return total;
  }
  // Offsets of all rows and the end; labels may be 0.
  void write(std::uintptr_t offsets, std::uintptr_t indices, std::uintptr_t weights, std::uintptr_t labels) const {
    if (bytes_ == 4) write_blocks(singles_, offsets, indices, weights, labels);
    else write_blocks(doubles_, offsets, indices, weights, labels);
  }

 private:
  template <class T>
  static void release(SupportBlock<T>& block) {
    std::free(block.indices);
    std::free(block.labels);
    std::free(block.weights);
  }

  template <class T>
  void write_blocks(const std::vector<SupportBlock<T>>& blocks, std::uintptr_t offsets, std::uintptr_t indices,
                    std::uintptr_t weights, std::uintptr_t labels) const {
    std::int64_t* offset = reinterpret_cast<std::int64_t*>(offsets);
    std::int64_t entry = 0, row = 0;
    const auto copy = [&](std::uintptr_t to, const auto* from, std::int64_t n) {
      if (n > 0 && to != 0) std::memcpy(reinterpret_cast<char*>(to) + entry * sizeof(*from), from, n * sizeof(*from));
    };
    for (std::size_t task = 0; task < blocks.size(); ++task) {
      const SupportBlock<T>& block = blocks[task];
      const std::int64_t first = static_cast<std::int64_t>(task) % shape_.query_blocks() * kQueryBlock;
      std::int64_t within = entry;
      for (std::int64_t r = 0; r < kQueryBlock && first + r < shape_.queries; ++r, ++row) {
        offset[row] = within;
        within += block.counts[r];
      }
      copy(indices, block.indices, block.size);
      copy(weights, block.weights, block.size);
      if (labels != 0) copy(labels, block.labels, block.size);
      entry = within;
    }
    offset[row] = entry;
  }

  int bytes_;
  AttentionShape shape_;
  std::vector<SupportBlock<float>> singles_;
  std::vector<SupportBlock<double>> doubles_;
};

// Shares the tasks between threads, and hears a signal meanwhile.
template <class Problem>
void run_tasks(void (*run)(const Problem&, std::int64_t, std::int64_t), const Problem& problem, std::int64_t n_tasks,
               std::int64_t grain, int threads, Interruption& interruption) {
  struct Tasks {
    const Problem* problem;
    void (*run)(const Problem&, std::int64_t, std::int64_t);
    Interruption* interruption;
    std::int64_t grain;
    static void range(const void* self, std::int64_t begin, std::int64_t end) {
      const Tasks& tasks = *static_cast<const Tasks*>(self);
      for (std::int64_t first = begin; first < end; first += tasks.grain) {  // without threads the range is everything
        tasks.interruption->check();
        tasks.run(*tasks.problem, first, std::min(first + tasks.grain, end));
      }
    }
  };
  const Tasks tasks{&problem, run, &interruption, grain};
  Team::run(n_tasks, grain, threads, &Tasks::range, &tasks);
}

inline std::atomic<bool>& vnni_allowed() {
  static std::atomic<bool> allowed{true};
  return allowed;
}

inline void bind_attention(nanobind::module_& m, const Table& (*active_table)()) {
  namespace nb = nanobind;
  using At = std::uintptr_t;
  using Sizes = std::array<std::int64_t, 7>;
  using Operator = std::tuple<std::int64_t, double, At, double>;
  using Spread = std::array<std::int64_t, 5>;  // an address and four strides
  const auto shape_of = [](const Sizes& s) { return AttentionShape{s[0], s[1], s[2], s[3], s[4], s[5], s[6]}; };
  const auto operator_of = [](const Operator& op) {
    return AttentionOperator{std::get<0>(op), std::get<1>(op), reinterpret_cast<const double*>(std::get<2>(op)),
                             std::get<3>(op)};
  };
  m.def(
      "allow_vnni", [](bool allowed) { vnni_allowed().store(allowed); },
      "Whether sparse attention may use VNNI where there is; for tests and benchmarks.");
  nb::class_<SupportHolder>(m, "AttentionSupport")
      .def_prop_ro("n_entries", &SupportHolder::n_entries)
      .def("write", &SupportHolder::write);
  m.def(
      "sparse_attention",
      [=](int bytes, At query, At key, At value, At output, const Sizes& sizes, const Operator& op, double dropout,
          std::uint64_t seed, double scale, bool causal, At lengths, const Spread& mask, const Spread& bias,
          std::int64_t budget, bool may_refuse, bool wants_support, At refused, int threads) {
        return interruptible([&] {
          nb::gil_scoped_release release;
          const AttentionShape shape = shape_of(sizes);
          SupportHolder support(bytes, shape);
          const KeyMemory memory(shape, vnni_allowed().load());
          Interruption interruption(&signal_came);
          const auto forward = [&](auto zero, auto run_keys, auto run_forward) {
            using T = decltype(zero);
            const auto at = [](At address) { return reinterpret_cast<T*>(address); };
            run_tasks(run_keys, AttentionKeys<T>{at(key), shape, memory.keys()},
                      shape.batch * shape.kv_heads * shape.key_groups(), 8, threads, interruption);
            const AttentionForward<T> problem{
                at(query),
                at(key),
                at(value),
                at(output),
                shape,
                memory.keys(),
                operator_of(op),
                {dropout, seed},
                scale,
                causal,
                reinterpret_cast<const std::int64_t*>(lengths),
                {reinterpret_cast<const bool*>(mask[0]), mask[1], mask[2], mask[3], mask[4]},
                {reinterpret_cast<const T*>(bias[0]), bias[1], bias[2], bias[3], bias[4]},
                budget,
                may_refuse,
                wants_support ? support.blocks<T>() : nullptr,
                reinterpret_cast<std::uint8_t*>(refused)};
            const std::int64_t n_tasks = static_cast<std::int64_t>(support.n_tasks());
            // A few tasks at once share their working memory.
            const std::int64_t grain = std::clamp<std::int64_t>(n_tasks / (8 * std::max(threads, 1)), 1, 8);
            run_tasks(run_forward, problem, n_tasks, grain, threads, interruption);
          };
          const Table& table = active_table();
          if (bytes == 4) forward(0.0f, table.AttentionKeys_float, table.AttentionForward_float);
          else forward(0.0, table.AttentionKeys_double, table.AttentionForward_double);
          return support;
        });
      },
      "Sparse attention: writes the output, and returns the support.");
  m.def(
      "sparse_attention_gradient",
      [=](int bytes, At query, At key, At value, At grad_output, const Sizes& sizes, const std::array<At, 4>& support,
          const Operator& op, double dropout, std::uint64_t seed, double scale, At grad_scores, At grad_query,
          At grad_key, At grad_value, At along, int threads) {
        interruptible([&] {
          nb::gil_scoped_release release;
          const AttentionShape shape = shape_of(sizes);
          Interruption interruption(&signal_came);
          const auto backward = [&](auto zero, auto run_rows, auto run_keys) {
            using T = decltype(zero);
            const auto at = [](At address) { return reinterpret_cast<T*>(address); };
            const AttentionSupport<T> csr{reinterpret_cast<const std::int64_t*>(support[0]),
                                          reinterpret_cast<const std::int32_t*>(support[1]),
                                          reinterpret_cast<const std::int32_t*>(support[3]), at(support[2])};
            run_tasks(run_rows,
                      AttentionRowGradient<T>{at(query),
                                              at(key),
                                              at(value),
                                              at(grad_output),
                                              shape,
                                              csr,
                                              operator_of(op),
                                              {dropout, seed},
                                              scale,
                                              at(grad_scores),
                                              at(grad_query),
                                              at(along)},
                      shape.batch * shape.heads * shape.query_blocks(), 4, threads, interruption);
            run_tasks(run_keys,
                      AttentionKeyGradient<T>{at(query),
                                              at(grad_output),
                                              shape,
                                              csr,
                                              {dropout, seed},
                                              scale,
                                              at(grad_scores),
                                              at(grad_key),
                                              at(grad_value)},
                      shape.batch * shape.kv_heads * shape.key_ranges(), 1, threads, interruption);
          };
          const Table& table = active_table();
          if (bytes == 4) backward(0.0f, table.AttentionRowGradient_float, table.AttentionKeyGradient_float);
          else backward(0.0, table.AttentionRowGradient_double, table.AttentionKeyGradient_double);
        });
      },
      "Gradients of sparse attention from its support.");
  m.def(
      "sparse_attention_dense_gradient",
      [=](int bytes, At query, At key, At value, At grad_output, const Sizes& sizes, const Operator& op, double dropout,
          std::uint64_t seed, double scale, bool causal, At lengths, const Spread& mask, const Spread& bias, At refused,
          At grad_query, At grad_key, At grad_value, At along, At grad_scores, std::int64_t first_row, int threads) {
        interruptible([&] {
          nb::gil_scoped_release release;
          const AttentionShape shape = shape_of(sizes);
          Interruption interruption(&signal_came);
          const auto backward = [&](auto zero, auto run_blocks, auto run_sums) {
            using T = decltype(zero);
            const auto at = [](At address) { return reinterpret_cast<T*>(address); };
            const std::int64_t n_parts = shape.gradient_parts(), kv_heads = shape.batch * shape.kv_heads;
            const std::unique_ptr<T[]> parts(new T[(n_parts - 1) * kv_heads * shape.head_numbers()]);
            std::vector<std::uint8_t> used(n_parts * kv_heads, 0);
            run_tasks(run_blocks,
                      AttentionDenseGradient<T>{
                          at(query),
                          at(key),
                          at(value),
                          at(grad_output),
                          shape,
                          operator_of(op),
                          {dropout, seed},
                          scale,
                          causal,
                          reinterpret_cast<const std::int64_t*>(lengths),
                          {reinterpret_cast<const bool*>(mask[0]), mask[1], mask[2], mask[3], mask[4]},
                          {reinterpret_cast<const T*>(bias[0]), bias[1], bias[2], bias[3], bias[4]},
                          reinterpret_cast<const std::uint8_t*>(refused),
                          at(grad_query),
                          at(grad_key),
                          at(grad_value),
                          at(along),
                          at(grad_scores),
                          first_row,
                          parts.get(),
                          used.data(),
                          n_parts},
                      n_parts * kv_heads, 1, threads, interruption);
            run_tasks(run_sums,
                      AttentionPartSum<T>{shape, parts.get(), used.data(), n_parts, at(grad_key), at(grad_value)},
                      kv_heads * shape.key_ranges(), 1, threads, interruption);
          };
          const Table& table = active_table();
          if (bytes == 4) backward(0.0f, table.AttentionDenseGradient_float, table.AttentionPartSum_float);
          else backward(0.0, table.AttentionDenseGradient_double, table.AttentionPartSum_double);
        });
      },
      "Gradients of sparse attention where the support was not kept.");
}

}  // namespace omegamax
