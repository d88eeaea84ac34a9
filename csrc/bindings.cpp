// The Python module: raw addresses and sizes in, nothing out. The Python layer owns every tensor, has checked every
// shape, and passes contiguous memory; calls release the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kbest.hpp"
#include "team.hpp"
#include "problems.hpp"
#include "sparsemap_bindings.hpp"
#include "attention/attention_bindings.hpp"

namespace nb = nanobind;

namespace omegamax {

namespace baseline { extern const Table table; }
#ifdef OMEGAMAX_DISPATCH_X86
namespace v3 { extern const Table table; }
namespace v4 { extern const Table table; }
#endif

namespace {

// The instruction sets that were compiled and that this processor runs, the best first.
std::vector<const Table*> find_tables() {
  std::vector<const Table*> tables;
#ifdef OMEGAMAX_DISPATCH_X86
  __builtin_cpu_init();
  const bool v3_runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4_runs = v3_runs && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl");
  if (v4_runs) tables.push_back(&v4::table);
  if (v3_runs) tables.push_back(&v3::table);
#endif
  tables.push_back(&baseline::table);
  return tables;
}

const std::vector<const Table*> supported = find_tables();
std::atomic<const Table*> active{supported.front()};

std::vector<std::string> supported_archs() {
  std::vector<std::string> names;
  for (const Table* table : supported) names.push_back(table->arch);
  return names;
}

void use_arch(const std::string& name) {
  if (name == "auto") return active.store(supported.front());
  std::string expected = "'auto'";
  for (const Table* table : supported) {
    if (name == table->arch) return active.store(table);
    expected += std::string(", '") + table->arch + "'";
  }
  throw nb::value_error(("use_arch: expected one of " + expected + " on this processor, got '" + name + "'").c_str());
}

// An address from Python becomes whichever pointer the problem's field asks for; 0 becomes nullptr.
struct Address {
  std::uintptr_t bits;
  template <class P>
  operator P*() const { return reinterpret_cast<P*>(bits); }
};

// The same, or working memory until the end of the call where Python does not want these results (address 0).
class Wanted {
 public:
  Wanted(std::uintptr_t bits, std::int64_t bytes)
      : unwanted_(bits == 0 ? new char[static_cast<std::size_t>(bytes)] : nullptr),
        address_{bits == 0 ? reinterpret_cast<std::uintptr_t>(unwanted_.get()) : bits} {}
  template <class P>
  operator P*() const { return address_; }

 private:
  std::unique_ptr<char[]> unwanted_;
  Address address_;
};

constexpr std::int64_t kRowsAtOnce = 16;
constexpr std::int64_t kGrain = 1 << 14;  // elements a thread takes at a time

constexpr std::int64_t kLong = 1 << 22;   // elements that may take so long that a signal should be heard meanwhile

template <class Problem>
struct Job {
  const Problem* problem;
  void (*run)(const Problem&, std::int64_t, std::int64_t);
  Interruption* interruption = nullptr;
  static void range(const void* self, std::int64_t begin, std::int64_t end) {
    const Job& job = *static_cast<const Job*>(self);
    if (job.interruption != nullptr) job.interruption->check();
    job.run(*job.problem, begin, end);
  }
};

// Every problem begins with the address of what it reads. A tensor whose storage has been released (`resize_(0)`) keeps its
// shape, and its address is null, or its offset into nothing: no program has memory that low.
template <class Problem>
std::uintptr_t first_address(const Problem& problem) {
  std::uintptr_t first;
  std::memcpy(&first, &problem, sizeof first);
  return first;
}
constexpr std::uintptr_t kLowest = 1 << 16;
// Points without coordinates have no memory, and soft-DTW begins with a grid that it never writes down.
template <class T>
std::uintptr_t first_address(const PairwiseSquared<T>& problem) {
  return problem.n_coordinates == 0 ? kLowest : reinterpret_cast<std::uintptr_t>(problem.x);
}
template <class T>
std::uintptr_t first_address(const SoftDtw<T>& problem) {
  return problem.n_coordinates == 0 ? kLowest : reinterpret_cast<std::uintptr_t>(problem.x);
}

template <class Problem>
void check_memory(const Problem& problem) {
  if (first_address(problem) < kLowest)
    throw nb::value_error("omegamax: scores must hold numbers, got a tensor whose storage has been released; keep its "
                          "storage, or pass a clone made before");
}

template <class Problem>
void launch(void (*run)(const Problem&, std::int64_t, std::int64_t), const Problem& problem, std::int64_t rows,
            int threads) {
  if (rows > 0 && problem.columns > 0) check_memory(problem);
  const Job<Problem> job{&problem, run};
  // At least a few rows each where there are enough: some kernels solve rows side by side.
  const std::int64_t share = std::min<std::int64_t>(kRowsAtOnce, rows / (2 * std::max(threads, 1)));
  const std::int64_t grain = problem.columns > 0 ? std::max<std::int64_t>({1, share, kGrain / problem.columns}) : rows;
  if (rows <= grain || rows * std::max<std::int64_t>(problem.columns, 1) < kLong)
    return Team::run(rows, grain, threads, &Job<Problem>::range, &job);
  Interruption interruption(&signal_came);
  const Job<Problem> watched{&problem, run, &interruption};
  if (threads > 1) return Team::run(rows, grain, threads, &Job<Problem>::range, &watched);
  const std::int64_t piece = std::max(grain, kLong / 4 / problem.columns);  // kernels prepare something for each
  for (std::int64_t begin = 0; begin < rows; begin += piece)
    Job<Problem>::range(&watched, begin, std::min(begin + piece, rows));
}

// Declares `name(bytes, addresses and numbers ..., rows, columns, threads)`; bytes is 4 or 8, the size of a number.
#define OMEGAMAX_BIND(module, name, Name, ARGUMENTS, FIELDS)                                          \
  module.def(name, [](int bytes, OMEGAMAX_UNPACK ARGUMENTS, std::int64_t rows, std::int64_t columns,  \
                      int threads) {                                                                  \
    interruptible([&] {                                                                               \
      nb::gil_scoped_release release;                                                                 \
      const Table& table = *active.load(std::memory_order_relaxed);                                   \
      if (bytes == 4)                                                                                 \
        launch(table.Name##_float, Name<float>{OMEGAMAX_UNPACK FIELDS, columns}, rows, threads);    \
      else                                                                                            \
        launch(table.Name##_double, Name<double>{OMEGAMAX_UNPACK FIELDS, columns}, rows, threads);  \
    });                                                                                               \
  })
#define OMEGAMAX_UNPACK(...) __VA_ARGS__

using At = std::uintptr_t;

// The k best derivations of one goal: their scores, all their edges in a row, how many each has (raw memory), and
// whether there are no others.
nb::tuple kbest(At tails, At first, std::int64_t n_tails, std::int64_t n_edges, std::int64_t n_leaves,
                std::int64_t n_nodes, At scores, At values, std::int64_t goal, std::int64_t k) {
  std::vector<double> best;
  std::vector<std::int64_t> edges, sizes;
  bool complete;
  interruptible([&] {
    nb::gil_scoped_release release;
    Interruption interruption(&signal_came);
    const Graph graph{Address{tails}, Address{first}, n_tails, n_edges, n_leaves, n_nodes};
    complete = KBest(graph, Address{scores}, Address{values}).top(goal, k, best, edges, sizes, interruption);
  });
  const auto raw = [](const auto& numbers) { return nb::bytes(numbers.data(), numbers.size() * sizeof(numbers[0])); };
  return nb::make_tuple(raw(best), raw(edges), raw(sizes), complete);
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Row kernels of omegamax.";
  Team::prepare();
  m.def("threads_are_borrowed", [] { return Team::is_borrowed(); },
        "Whether PyTorch's own threads do the work, or a pool of omegamax's.");
  m.def("arch", [] { return active.load()->arch; }, "The instruction set in use.");
  m.def("supported_archs", &supported_archs, "The instruction sets this processor can run, the best first.");
  m.def("use_arch", &use_arch, "Forces an instruction set, or 'auto'; for tests and benchmarks.");

  bind_sparsemap(m, []() -> const Table& { return *active.load(std::memory_order_relaxed); });
  bind_attention(m, []() -> const Table& { return *active.load(std::memory_order_relaxed); });
  m.def("kbest", &kbest, "The k best derivations of a hypergraph.");

  OMEGAMAX_BIND(m, "pairwise_squared", PairwiseSquared,
                (At x, At turned, At distances, std::int64_t n_points, std::int64_t n_coordinates),
                (Address{x}, Address{turned}, Address{distances}, n_points, n_coordinates));
  OMEGAMAX_BIND(m, "sparsemax", Sparsemax, (At scores, At weights, At value),
                (Address{scores}, Address{weights}, Address{value}));
  OMEGAMAX_BIND(m, "sparsemax_product", SparsemaxProduct, (At weights, At direction, At product),
                (Address{weights}, Address{direction}, Address{product}));
  OMEGAMAX_BIND(m, "hardmax", Hardmax, (At scores, At weights, At value),
                (Address{scores}, Address{weights}, Wanted(value, rows * bytes)));
  OMEGAMAX_BIND(m, "softmax", Softmax, (At scores, At weights, At value),
                (Address{scores}, Address{weights}, Wanted(value, rows * bytes)));
  OMEGAMAX_BIND(m, "softmax_product", SoftmaxProduct, (At weights, At direction, At product),
                (Address{weights}, Address{direction}, Address{product}));
  OMEGAMAX_BIND(m, "entmax", Entmax, (At scores, At alphas, double alpha, At weights, At value),
                (Address{scores}, Address{weights}, Address{value}, Address{alphas}, alpha));
  OMEGAMAX_BIND(m, "entmax_product", EntmaxProduct, (At weights, At alphas, double alpha, At direction, At product),
                (Address{weights}, Address{direction}, Address{product}, Address{alphas}, alpha));
  OMEGAMAX_BIND(m, "entmax_slope", EntmaxSlope, (At weights, At alphas, double alpha, At slope, At gradient),
                (Address{weights}, Address{slope}, Address{gradient}, Address{alphas}, alpha));
  OMEGAMAX_BIND(m, "entmax_pull", EntmaxPull,
                (At weights, At alphas, double alpha, At direction, At product, At along),
                (Address{weights}, Address{direction}, Address{product}, Address{along}, Address{alphas}, alpha));
  OMEGAMAX_BIND(m, "sqpnormmax", Sqpnormmax, (At scores, At /* one p for all rows */, double p, At weights, At value),
                (Address{scores}, Address{weights}, Wanted(value, rows * bytes), p));
  OMEGAMAX_BIND(m, "sqpnormmax_product", SqpnormmaxProduct, (At weights, double p, At direction, At product),
                (Address{weights}, Address{direction}, Address{product}, p));
  OMEGAMAX_BIND(m, "prox_tv1d", ProxTv1d, (At rows_, At strengths, double strength, At solution, At joined),
                (Address{rows_}, Address{strengths}, strength, Address{solution}, Address{joined}));
  OMEGAMAX_BIND(m, "segment_mean", SegmentMean, (At joined, At direction, At mean),
                (Address{joined}, Address{direction}, Address{mean}));
  OMEGAMAX_BIND(m, "fusedmax", Fusedmax,
                (At scores, At strengths, double strength, At weights, At value, At joined),
                (Address{scores}, Address{strengths}, strength, Address{weights}, Wanted(value, rows * bytes),
                 Wanted(joined, rows * columns)));
  OMEGAMAX_BIND(m, "fusedmax_product", FusedmaxProduct, (At weights, At joined, At direction, At product),
                (Address{weights}, Address{joined}, Address{direction}, Address{product}));
  OMEGAMAX_BIND(m, "isotonic", Isotonic, (At rows_, At solution, At joined),
                (Address{rows_}, Address{solution}, Address{joined}));
  OMEGAMAX_BIND(m, "oscarmax", Oscarmax,
                (At scores, At strengths, double strength, double most, At weights, At value, At labels),
                (Address{scores}, Address{strengths}, strength, most, Address{weights}, Wanted(value, rows * bytes),
                 Address{labels}));
  OMEGAMAX_BIND(m, "oscarmax_product", OscarmaxProduct, (At weights, At labels, At direction, At product),
                (Address{weights}, Address{labels}, Address{direction}, Address{product}));
  OMEGAMAX_BIND(m, "prox_owl", ProxOwl,
                (At rows_, At owl_weights, std::int64_t owl_stride, At solution, At labels),
                (Address{rows_}, Address{owl_weights}, owl_stride, Address{solution}, Address{labels}));
  OMEGAMAX_BIND(m, "owl_product", OwlProduct, (At solution, At labels, At direction, At product),
                (Address{solution}, Address{labels}, Address{direction}, Address{product}));
  OMEGAMAX_BIND(m, "groupmax", Groupmax,
                (At scores, At groups, At strengths, double strength, At weights, At value),
                (Address{scores}, Address{groups}, Address{strengths}, strength, Address{weights},
                 Wanted(value, rows * bytes)));
  OMEGAMAX_BIND(m, "groupmax_product", GroupmaxProduct,
                (At weights, At groups, At strengths, double strength, At direction, At product),
                (Address{weights}, Address{groups}, Address{strengths}, strength, Address{direction},
                 Address{product}));
  OMEGAMAX_BIND(m, "projective_value", ProjectiveValue,
                (At scores, At lengths, At charts, At value, std::int64_t size, std::int64_t single_root,
                 std::int64_t omega),
                (Address{scores}, Address{lengths}, Address{charts}, Address{value}, size, single_root, omega));
  OMEGAMAX_BIND(m, "projective_marginals", ProjectiveMarginals,
                (At lengths, At charts, At visits, At marginals, std::int64_t size, std::int64_t single_root,
                 std::int64_t omega),
                (Address{lengths}, Address{charts}, Address{visits}, Address{marginals}, size, single_root, omega));
  OMEGAMAX_BIND(m, "projective_tangent", ProjectiveTangent,
                (At lengths, At charts, At visits, At direction, At product, std::int64_t size,
                 std::int64_t single_root, std::int64_t omega),
                (Address{lengths}, Address{charts}, Address{visits}, Address{direction}, Address{product}, size,
                 single_root, omega));
  OMEGAMAX_BIND(m, "constituency_value", ConstituencyValue,
                (At scores, At lengths, At charts, At value, std::int64_t size, std::int64_t labels,
                 std::int64_t omega),
                (Address{scores}, Address{lengths}, Address{charts}, Address{value}, size, labels, omega));
  OMEGAMAX_BIND(m, "constituency_marginals", ConstituencyMarginals,
                (At scores, At lengths, At charts, At visits, At marginals, std::int64_t size, std::int64_t labels,
                 std::int64_t omega),
                (Address{scores}, Address{lengths}, Address{charts}, Address{visits}, Address{marginals}, size,
                 labels, omega));
  OMEGAMAX_BIND(m, "constituency_tangent", ConstituencyTangent,
                (At scores, At lengths, At charts, At visits, At direction, At product, std::int64_t size,
                 std::int64_t labels, std::int64_t omega),
                (Address{scores}, Address{lengths}, Address{charts}, Address{visits}, Address{direction},
                 Address{product}, size, labels, omega));
  OMEGAMAX_BIND(m, "arborescence_best", ArborescenceBest,
                (At scores, At lengths, At value, At arcs, std::int64_t size, std::int64_t single_root),
                (Address{scores}, Address{lengths}, Address{value}, Address{arcs}, size, single_root));
  OMEGAMAX_BIND(m, "arborescence_value", ArborescenceValue,
                (At scores, At lengths, At value, std::int64_t size, std::int64_t single_root),
                (Address{scores}, Address{lengths}, Address{value}, size, single_root));
  OMEGAMAX_BIND(m, "arborescence_marginals", ArborescenceMarginals,
                (At scores, At lengths, At value, At marginals, std::int64_t size, std::int64_t single_root),
                (Address{scores}, Address{lengths}, Address{value}, Address{marginals}, size, single_root));
  OMEGAMAX_BIND(m, "arborescence_tangent", ArborescenceTangent,
                (At scores, At lengths, At value, At direction, At product, std::int64_t size,
                 std::int64_t single_root),
                (Address{scores}, Address{lengths}, Address{value}, Address{direction}, Address{product}, size,
                 single_root));
  OMEGAMAX_BIND(m, "arborescence_sample", ArborescenceSample,
                (At scores, At lengths, At levels, At roots, At seeds, At heads, std::int64_t size,
                 std::int64_t items, std::int64_t max_steps),
                (Address{scores}, Address{lengths}, Address{levels}, Address{roots}, Address{seeds},
                 Address{heads}, size, items, max_steps));
  OMEGAMAX_BIND(m, "matching_best", MatchingBest,
                (At pairs, At row, At column, At row_lengths, At column_lengths, At value, At columns_of, At prices,
                 std::int64_t n_rows, std::int64_t width),
                (Address{pairs}, Address{row}, Address{column}, Address{row_lengths}, Address{column_lengths},
                 Address{value}, Address{columns_of}, Address{prices}, n_rows, width));
  OMEGAMAX_BIND(m, "selection", Selection,
                (At scores, At lengths, At value, At chosen, std::int64_t width, std::int64_t lo, std::int64_t hi),
                (Address{scores}, Address{lengths}, Address{value}, Address{chosen}, width, lo, hi));
  OMEGAMAX_BIND(m, "budget_up", BudgetUp,
                (At scores, At lengths, At taken, At last, std::int64_t width, std::int64_t lo, std::int64_t hi,
                 std::int64_t omega),
                (Address{scores}, Address{lengths}, Address{taken}, Address{last}, width, lo, hi, omega));
  OMEGAMAX_BIND(m, "budget_down", BudgetDown,
                (At lengths, At taken, At goal, At marginals, std::int64_t width, std::int64_t lo, std::int64_t hi),
                (Address{lengths}, Address{taken}, Address{goal}, Address{marginals}, width, lo, hi));
  OMEGAMAX_BIND(m, "budget_move_up", BudgetMoveUp,
                (At lengths, At taken, At direction, At moved, At last, std::int64_t width, std::int64_t lo,
                 std::int64_t hi, std::int64_t omega),
                (Address{lengths}, Address{taken}, Address{direction}, Address{moved}, Address{last}, width, lo, hi,
                 omega));
  OMEGAMAX_BIND(m, "budget_move_down", BudgetMoveDown,
                (At lengths, At taken, At moved, At goal, At moved_goal, At product, std::int64_t width,
                 std::int64_t lo, std::int64_t hi),
                (Address{lengths}, Address{taken}, Address{moved}, Address{goal}, Address{moved_goal},
                 Address{product}, width, lo, hi));
#define OMEGAMAX_GRID                                                                                              \
  At scores, std::int64_t item_stride, std::int64_t row_stride, double scale, At lengths, At first, At last,       \
      std::int64_t band_stride, std::int64_t packed, std::int64_t kind, std::int64_t grid_rows, std::int64_t width, \
      std::int64_t grid_columns, At checkpoints
#define OMEGAMAX_GRID_FIELDS                                                                                   \
  Address{scores}, item_stride, row_stride, scale, Address{lengths}, Address{first}, Address{last}, band_stride, \
      packed, kind, grid_rows, width, grid_columns, Address{checkpoints}
  OMEGAMAX_BIND(m, "alignment_value", AlignmentValue, (OMEGAMAX_GRID, At value),
                (OMEGAMAX_GRID_FIELDS, Address{value}));
  OMEGAMAX_BIND(m, "alignment_marginals", AlignmentMarginals, (OMEGAMAX_GRID, At value, At marginals),
                (OMEGAMAX_GRID_FIELDS, Address{value}, Address{marginals}));
  OMEGAMAX_BIND(m, "alignment_both", AlignmentBoth, (OMEGAMAX_GRID, At value, At marginals),
                (OMEGAMAX_GRID_FIELDS, Address{value}, Address{marginals}));
  OMEGAMAX_BIND(m, "alignment_tangent", AlignmentTangent, (OMEGAMAX_GRID, At value, At direction, At tangent),
                (OMEGAMAX_GRID_FIELDS, Address{value}, Address{direction}, Address{tangent}));
  OMEGAMAX_BIND(m, "soft_dtw", SoftDtw,
                (At x, At y, At lengths, double scale, std::int64_t kind, std::int64_t n_rows, std::int64_t n_columns,
                 std::int64_t n_coordinates, At value, At to_x, At to_y),
                ({nullptr, 0, 0, scale, Address{lengths}, nullptr, nullptr, 0, 0, kind, n_rows, n_columns, n_columns,
                  nullptr},
                 Address{x}, Address{y}, n_coordinates, Address{value}, Address{to_x}, Address{to_y}));

  // Chains: four parts with four strides; parts that a form does not have are 0.
#define OMEGAMAX_PARTS(p, s) \
  {Address{p[0]}, Address{p[1]}, Address{p[2]}, Address{p[3]}, s[0], s[1], s[2], s[3]}
#define OMEGAMAX_WEIGHTS(p) {Address{p[0]}, Address{p[1]}, Address{p[2]}, Address{p[3]}}
  using Addresses = std::array<At, 4>;
  using Strides = std::array<std::int64_t, 4>;
  OMEGAMAX_BIND(m, "chain_value", ChainValue,
                (Addresses parts, Strides strides, At lengths, At value, At total, At values, At levels, int omega,
                 std::int64_t n_places, std::int64_t n_tags),
                (OMEGAMAX_PARTS(parts, strides), Address{lengths}, Address{value}, Address{total}, Address{values},
                 Address{levels}, omega, n_places, n_tags));
  OMEGAMAX_BIND(m, "chain_marginals", ChainMarginals,
                (Addresses parts, Strides strides, At lengths, At total, At values, At levels, Addresses weights,
                 int omega, std::int64_t n_places, std::int64_t n_tags),
                (OMEGAMAX_PARTS(parts, strides), Address{lengths}, Address{total}, Address{values}, Address{levels},
                 OMEGAMAX_WEIGHTS(weights), omega, n_places, n_tags));
  OMEGAMAX_BIND(m, "chain_tangent", ChainTangent,
                (Addresses parts, Strides strides, At lengths, At total, At values, At levels, Addresses along,
                 Strides along_strides, Addresses weights, int omega, std::int64_t n_places, std::int64_t n_tags),
                (OMEGAMAX_PARTS(parts, strides), Address{lengths}, Address{total}, Address{values}, Address{levels},
                 OMEGAMAX_PARTS(along, along_strides), OMEGAMAX_WEIGHTS(weights), omega, n_places, n_tags));
}

}  // namespace omegamax
