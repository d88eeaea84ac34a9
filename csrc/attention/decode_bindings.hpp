// Decoding over a cache of keys, for the Python module: addresses and sizes in, and the support of a call as an object.
#pragma once

#include "attention/bindings.hpp"
#include "attention/decode_problems.hpp"

namespace omegamax {

// The working memory of one call.
class DecodeMemory {
 public:
  DecodeMemory(const AttentionShape& shape, std::int64_t sections)
      : rows_(static_cast<std::size_t>(shape.batch * shape.heads * shape.queries)),
        uppers_(new float[rows_ * static_cast<std::size_t>(sections * kSection)]),
        floors_(rows_, -std::numeric_limits<float>::infinity()), unknown_(rows_, 0),
        blocks_(rows_ * static_cast<std::size_t>(sections)),  // rows of all heads of the keys, in each section
        n_read_(static_cast<std::size_t>(shape.batch * shape.kv_heads * sections), 0) {}
  ~DecodeMemory() {
    for (CandidateBlock& block : blocks_) {
      std::free(block.indices);
      std::free(block.scores);
    }
  }
  DecodeMemory(const DecodeMemory&) = delete;

  template <class T>
  void give_to(Decode<T>& call) {
    call.uppers = uppers_.get();
    call.floors = floors_.data();
    call.unknown = unknown_.data();
    call.blocks = blocks_.data();
    call.n_read = n_read_.data();
  }
  std::int64_t n_read() const {
    std::int64_t total = 0;
    for (const std::int64_t pages : n_read_) total += pages;
    return total;
  }

 private:
  std::size_t rows_;
  std::unique_ptr<float[]> uppers_;
  std::vector<float> floors_;
  std::vector<std::uint8_t> unknown_;
  std::vector<CandidateBlock> blocks_;
  std::vector<std::int64_t> n_read_;
};

constexpr std::int64_t kShared = 1 << 22;  // features of all keys from which on threads share a call

inline void bind_decoding(nanobind::module_& m, const Table& (*active_table)()) {
  namespace nb = nanobind;
  using At = std::uintptr_t;
  using Pages = std::array<At, 12>;  // the arrays of CachedPages, and their number of pages
  const auto pages_of = [](const Pages& p) {
    const auto floats = [&](int i) { return reinterpret_cast<float*>(p[i]); };
    const auto integers = [&](int i) { return reinterpret_cast<std::int32_t*>(p[i]); };
    const auto bytes = [&](int i) { return reinterpret_cast<std::int8_t*>(p[i]); };
    return CachedPages{bytes(0),
                       floats(1),
                       integers(2),
                       floats(3),
                       floats(4),
                       reinterpret_cast<std::uint64_t*>(p[5]),
                       bytes(6),
                       floats(7),
                       integers(8),
                       floats(9),
                       floats(10),
                       static_cast<std::int64_t>(p[11])};
  };
  m.def(
      "quantise_pages",
      [=](int bytes, std::int64_t elements, At key, std::int64_t heads, std::int64_t kv_heads, std::int64_t size,
          const Pages& pages, At begin, At end, std::int64_t span, int threads) {
        interruptible([&] {
          nb::gil_scoped_release release;
          Interruption interruption(&signal_came);
          const auto quantise = [&](auto zero, auto run) {
            using T = decltype(zero);
            run_tasks(run,
                      QuantisePages<T>{reinterpret_cast<const void*>(key), elements, kv_heads, size, pages_of(pages),
                                       reinterpret_cast<const std::int64_t*>(begin),
                                       reinterpret_cast<const std::int64_t*>(end), span},
                      heads * span, span == 1 ? 64 : 8, threads, interruption);
          };
          const Table& table = active_table();
          if (bytes == 4) quantise(0.0f, table.QuantisePages_float);
          else quantise(0.0, table.QuantisePages_double);
        });
      },
      "Appends keys to the 8-bit copy of a cache.");
  m.def(
      "decode",
      [=](int bytes, std::int64_t elements, At query, At key, At value, At output, const std::array<std::int64_t, 7>& s,
          const Pages& pages, const std::tuple<std::int64_t, double, At, double>& op, double scale, At limits,
          At n_allowed, const std::array<std::int64_t, 5>& mask, bool may_refuse, bool wants_support, At refused,
          int threads) {
        return interruptible([&] {
          nb::gil_scoped_release release;
          const AttentionShape shape{s[0], s[1], s[2], s[3], s[4], s[5], s[6]};
          SupportHolder support(bytes, shape);
          const CachedPages cached = pages_of(pages);
          Interruption interruption(&signal_came);
          std::int64_t n_read = 0;
          const auto decode = [&](auto zero, auto run_sample, auto run_scan, auto run_solve) {
            using T = decltype(zero);
            Decode<T> call{};
            call.query = reinterpret_cast<const T*>(query);
            call.key = reinterpret_cast<const void*>(key);
            call.value = reinterpret_cast<const void*>(value);
            call.output = reinterpret_cast<T*>(output);
            call.elements = elements;
            call.shape = shape;
            call.pages = cached;
            call.op = {std::get<0>(op), std::get<1>(op), reinterpret_cast<const double*>(std::get<2>(op)),
                       std::get<3>(op)};
            call.scale = scale;
            call.limits = reinterpret_cast<const std::int64_t*>(limits);
            call.n_allowed = reinterpret_cast<const std::int64_t*>(n_allowed);
            call.mask = {reinterpret_cast<const bool*>(mask[0]), mask[1], mask[2], mask[3], mask[4]};
            call.fine = vnni_allowed().load();
            call.may_refuse = may_refuse;
            call.support = wants_support ? support.blocks<T>() : nullptr;
            call.refused = reinterpret_cast<std::uint8_t*>(refused);
            DecodeMemory memory(shape, call.used_sections());
            memory.give_to(call);
            const std::int64_t sections = shape.batch * shape.kv_heads * call.used_sections();
            const std::int64_t grain = std::clamp<std::int64_t>(sections / (8 * std::max(threads, 1)), 1, 8);
            const bool is_short = shape.batch * shape.kv_heads * shape.keys * shape.size < kShared;
            const int team = is_short ? 1 : threads;
            run_tasks(run_sample, DecodeSample<T>{call}, sections, 2 * grain, team, interruption);
            run_tasks(run_scan, DecodeScan<T>{call}, sections, grain, team, interruption);
            run_tasks(run_solve, DecodeSolve<T>{call}, shape.batch * shape.heads, 1, team, interruption);
            n_read = memory.n_read();
          };
          const Table& table = active_table();
          if (bytes == 4) decode(0.0f, table.DecodeSample_float, table.DecodeScan_float, table.DecodeSolve_float);
          else decode(0.0, table.DecodeSample_double, table.DecodeScan_double, table.DecodeSolve_double);
          return std::make_tuple(std::move(support), n_read);
        });
      },
      "Sparse attention of a few queries over a cache: writes the output, returns the support and the pages read.");
}

}  // namespace omegamax
