// SparseMAP as Python sees it: a solve returns an object, which then writes its results into tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/interruption.hpp"
#include "core/problems.hpp"
#include "sparsemap/sparsemap.hpp"

namespace omegamax {

class Faces {
 public:
  explicit Faces(std::vector<SparsemapItem> items) : items_(std::move(items)) {}

  std::int64_t width() const {  // the most vertices of an item
    std::int64_t most = 0;
    for (const SparsemapItem& item : items_) most = std::max<std::int64_t>(most, item.members.size());
    return most;
  }
  std::int64_t n_entries() const {
    std::int64_t total = 0;
    for (const SparsemapItem& item : items_)
      for (const ActiveSet::Member& member : item.members) total += member.places.size();
    return total;
  }

  // Numbers per item: how it ended, the gap, the calls, the vertices. Per vertex (items, width): probabilities. Per
  // entry: its place in the batch, its value, its vertex in the batch. `factor` (items, width, width) is the identity
  // where there is nothing.
  void write(std::uintptr_t endings, std::uintptr_t gaps, std::uintptr_t calls, std::uintptr_t counts,
             std::uintptr_t probabilities, std::uintptr_t places, std::uintptr_t values, std::uintptr_t owners,
             std::uintptr_t factor, std::int64_t n_parts) const {
    const std::int64_t wide = width();
    std::int64_t entry = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(items_.size()); ++i) {
      const SparsemapItem& item = items_[i];
      at<std::int64_t>(endings)[i] = static_cast<std::int64_t>(item.ending);
      at<double>(gaps)[i] = item.gap;
      at<std::int64_t>(calls)[i] = item.n_calls;
      const std::int64_t n = at<std::int64_t>(counts)[i] = item.members.size();
      for (std::int64_t v = 0; v < wide; ++v) {
        const std::int64_t owner = i * wide + v;
        at<double>(probabilities)[owner] = v < n ? item.probabilities[v] : 0;
        for (std::int64_t j = 0; factor != 0 && j < wide; ++j)
          at<double>(factor)[owner * wide + j] = v < n && j < n ? item.factor[v * n + j] : v == j;
        if (v >= n) continue;
        const ActiveSet::Member& member = item.members[v];
        for (std::size_t e = 0; e < member.places.size(); ++e, ++entry) {
          at<std::int64_t>(places)[entry] = i * n_parts + member.places[e];
          at<double>(values)[entry] = member.values[e];
          at<std::int64_t>(owners)[entry] = owner;
        }
      }
    }
  }

 private:
  template <class T>
  static T* at(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
  }

  std::vector<SparsemapItem> items_;
};

// Vertices known before, per item one after the other.
struct Starts {
  std::vector<SparsemapStart> items;

  Starts(std::uintptr_t counts, std::uintptr_t sizes, std::uintptr_t places, std::uintptr_t values,
         std::uintptr_t probabilities, std::int64_t n_items) {
    if (counts == 0) return;
    const auto* n = reinterpret_cast<const std::int64_t*>(counts);
    const auto* size = reinterpret_cast<const std::int64_t*>(sizes);
    const auto* place = reinterpret_cast<const std::int32_t*>(places);
    const auto* value = reinterpret_cast<const double*>(values);
    const auto* probability = reinterpret_cast<const double*>(probabilities);
    for (std::int64_t i = 0; i < n_items; ++i) {
      items.push_back({n[i], size, place, value, probability});
      for (std::int64_t v = 0; v < n[i]; ++v) place += size[v], value += size[v];
      size += n[i], probability += n[i];
    }
  }
};

// Runs the handlers of signals that have come; true where one raised.
inline bool signal_came() {
  nanobind::gil_scoped_acquire hold;
  return PyErr_CheckSignals() != 0;
}

// Calls f, which releases the interpreter lock and may be stopped by a signal.
template <class F>
auto interruptible(F f) {
  try {
    return f();
  } catch (const Interrupted&) {
    throw nanobind::python_error();  // which the signal's handler has set
  }
}

inline void bind_sparsemap(nanobind::module_& m, const Table& (*active_table)()) {
  namespace nb = nanobind;
  using At = std::uintptr_t;
  nb::class_<Faces>(m, "Faces")
      .def_prop_ro("width", &Faces::width)
      .def_prop_ro("n_entries", &Faces::n_entries)
      .def("write", &Faces::write);
  m.def(
      "sparsemap",
      [active_table](int kind, const std::vector<std::int64_t>& sizes, const std::vector<At>& integers, At numbers,
                     At scores, std::int64_t n_items, std::int64_t n_parts, std::int64_t n_regularized,
                     std::int64_t max_calls, double atol, bool wants_face, const std::vector<At>& start, int threads) {
        OracleSpec spec{static_cast<OracleKind>(kind), n_parts, {}, {}, reinterpret_cast<const double*>(numbers)};
        for (std::size_t i = 0; i < sizes.size(); ++i) spec.sizes[i] = sizes[i];
        for (std::size_t i = 0; i < integers.size(); ++i)
          spec.integers[i] = reinterpret_cast<const std::int64_t*>(integers[i]);
        return interruptible([&] {
          nb::gil_scoped_release release;
          const Starts starts(start[0], start[1], start[2], start[3], start[4], n_items);
          Interruption interruption(&signal_came);
          return Faces(sparsemap(active_table().oracle, active_table().algebra, spec,
                                 {n_parts, n_regularized, max_calls, atol, wants_face},
                                 reinterpret_cast<const double*>(scores), n_items,
                                 starts.items.empty() ? nullptr : starts.items.data(), threads, interruption));
        });
      },
      "SparseMAP of a batch with a compiled oracle.");
  m.def(
      "sparsemap_with",
      [active_table](nb::callable ask, At asked, At answer, At scores, std::int64_t n_items, std::int64_t n_parts,
                     std::int64_t n_regularized, std::int64_t max_calls, double atol, bool wants_face,
                     const std::vector<At>& start) {
        double* question = reinterpret_cast<double*>(asked);
        const double* dense = reinterpret_cast<const double*>(answer);
        const Starts starts(start[0], start[1], start[2], start[3], start[4], n_items);
        const SparsemapOptions options{n_parts, n_regularized, max_calls, atol, wants_face};
        std::vector<SparsemapItem> items;
        for (std::int64_t item = 0; item < n_items; ++item)
          items.push_back(sparsemap_item(active_table().algebra,
                                         reinterpret_cast<const double*>(scores) + item * n_parts, options,
                                         starts.items.empty() ? SparsemapStart{} : starts.items[item],
                                         [&](const double* scores_now, Vertex& found) {
                                           std::copy(scores_now, scores_now + n_parts, question);
                                           found.size = nb::cast<std::int64_t>(ask(item));
                                           if (found.size < 0) return;
                                           found.size = 0;
                                           for (std::int64_t i = 0; i < n_parts; ++i) {
                                             if (dense[i] == 0) continue;
                                             found.places[found.size] = static_cast<std::int32_t>(i);
                                             found.values[found.size++] = dense[i];
                                           }
                                         }));
        return Faces(std::move(items));
      },
      "SparseMAP with any oracle: ask(item) reads n_parts scores at `asked`, writes a vertex at `answer`, returns 0.");
}

}  // namespace omegamax
