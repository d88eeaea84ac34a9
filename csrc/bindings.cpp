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
#include <tuple>
#include <utility>
#include <vector>

#include "attention/decode_bindings.hpp"
#include "core/fields.hpp"
#include "core/problems.hpp"
#include "core/team.hpp"
#include "hypergraphs/kbest.hpp"
#include "series/problems.hpp"
#include "sparsemap/bindings.hpp"

namespace nb = nanobind;

namespace omegamax {

// clang-format off
namespace baseline { extern const Table table; extern const SeriesTable series_table; }
#ifdef OMEGAMAX_DISPATCH_X86
namespace v3 { extern const Table table; extern const SeriesTable series_table; }
namespace v4 { extern const Table table; extern const SeriesTable series_table; }
#endif
// clang-format on

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

// The table of kernels on series of the instruction set in use.
const SeriesTable& active_series() {
#ifdef OMEGAMAX_DISPATCH_X86
  const Table* table = active.load(std::memory_order_relaxed);
  if (table == &v4::table) return v4::series_table;
  if (table == &v3::table) return v3::series_table;
#endif
  return baseline::series_table;
}

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
  operator P*() const {
    return reinterpret_cast<P*>(bits);
  }
};

// The same, or working memory until the end of the call where Python does not want these results (address 0).
class Wanted {
 public:
  Wanted(std::uintptr_t bits, std::int64_t bytes)
      : unwanted_(bits == 0 ? new char[static_cast<std::size_t>(bytes)] : nullptr),
        address_{bits == 0 ? reinterpret_cast<std::uintptr_t>(unwanted_.get()) : bits} {}
  template <class P>
  operator P*() const {
    return address_;
  }

 private:
  std::unique_ptr<char[]> unwanted_;
  Address address_;
};

constexpr std::int64_t kRowsAtOnce = 16;
constexpr std::int64_t kGrain = 1 << 14;  // elements a thread takes at a time

constexpr std::int64_t kLong = 1 << 22;  // calls on more elements than this check for signals

template <class Problem>
struct Job {
  const Problem* problem;
  void (*run)(const Problem&, std::int64_t, std::int64_t);
  Interruption* interruption = nullptr;
  static void range(const void* self, std::int64_t begin, std::int64_t end) {
    const Job& job = *static_cast<const Job*>(self);
    if (job.interruption == nullptr) return job.run(*job.problem, begin, end);
    job.interruption->check();
    const InterruptionScope scope(job.interruption);
    job.run(*job.problem, begin, end);
  }
};

// Every problem begins with the address of what it reads. A tensor whose storage has been released (`resize_(0)`) keeps
// its shape, and its address is null, or its offset into nothing: no program has memory that low.
template <class Problem>
std::uintptr_t first_address(const Problem& problem) {
  std::uintptr_t first;
  std::memcpy(&first, &problem, sizeof first);
  return first;
}
constexpr std::uintptr_t kLowest = 1 << 16;
// Points without coordinates have no memory.
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
    throw nb::value_error(
        "omegamax: scores must hold numbers, got a tensor whose storage has been released; keep its "
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
  if (rows * std::max<std::int64_t>(problem.columns, 1) < kLong)
    return Team::run(rows, grain, threads, &Job<Problem>::range, &job);
  Interruption interruption(&signal_came);
  const Job<Problem> watched{&problem, run, &interruption};
  if (threads > 1) return Team::run(rows, grain, threads, &Job<Problem>::range, &watched);
  const std::int64_t piece = std::max(grain, kLong / 4 / problem.columns);  // kernels prepare something for each
  for (std::int64_t begin = 0; begin < rows; begin += piece)
    Job<Problem>::range(&watched, begin, std::min(begin + piece, rows));
}

using At = std::uintptr_t;

// How a field comes from Python: `Type` is the argument, `make` turns it into what initialises the field.
template <class Field>
struct Argument {
  using Type = Field;
  static Field make(Field number, std::int64_t, std::int64_t) { return number; }
};
template <class P>
struct Argument<P*> {
  using Type = At;
  static Address make(At bits, std::int64_t, std::int64_t) { return {bits}; }
};
template <>
struct Argument<Omega> {
  using Type = std::int64_t;
  static Omega make(std::int64_t number, std::int64_t, std::int64_t) { return static_cast<Omega>(number); }
};
template <>
struct Argument<SeriesBand> {
  using Type = std::int64_t;
  static SeriesBand make(std::int64_t number, std::int64_t, std::int64_t) { return static_cast<SeriesBand>(number); }
};
template <class P>
struct Argument<PerRow<P>> {
  using Type = At;
  static Wanted make(At bits, std::int64_t rows, std::int64_t) { return {bits, rows * std::int64_t(sizeof(P))}; }
};
template <class P>
struct Argument<PerEntry<P>> {
  using Type = At;
  static Wanted make(At bits, std::int64_t rows, std::int64_t columns) {
    return {bits, rows * columns * std::int64_t(sizeof(P))};
  }
};

template <class P>
struct Argument<ChainPointers<P>> {
  using Type = std::array<At, 4>;
  static ChainPointers<P> make(const Type& p, std::int64_t, std::int64_t) {
    return {Address{p[0]}, Address{p[1]}, Address{p[2]}, Address{p[3]}};
  }
};
template <>
struct Argument<ChainStrides> {
  using Type = std::array<std::int64_t, 4>;
  static ChainStrides make(const Type& s, std::int64_t, std::int64_t) { return {s[0], s[1], s[2], s[3]}; }
};

// The fields of a problem, with those of a grid, of a chain or of lists of series in their place.
template <class Field>
struct Flat {
  using Type = std::tuple<Field>;
};
template <class T>
struct Flat<AlignmentGrid<T>> {
  using Type = Fields<AlignmentGrid<T>>;
};
template <class T>
struct Flat<ChainParts<T>> {
  using Type = Fields<ChainParts<T>>;
};
template <class T>
struct Flat<SeriesPairs<T>> {
  using Type = Fields<SeriesPairs<T>>;
};
template <class... Field>
auto flatten(std::tuple<Field...>) -> decltype(std::tuple_cat(std::declval<typename Flat<Field>::Type>()...));
template <class Problem>
using FlatFields = decltype(flatten(std::declval<Fields<Problem>>()));
template <class Problem, std::size_t i>
using ArgumentOf = Argument<std::tuple_element_t<i, FlatFields<Problem>>>;

// Defines `name(bytes, fields ..., rows, columns, threads)`, where the fields are those of the problem but `columns`.
// `in_float()` and `in_double()` give the functions of the instruction set in use.
template <template <class> class Problem, class InFloat, class InDouble, std::size_t... i>
void bind(nb::module_& m, const char* name, InFloat in_float, InDouble in_double, std::index_sequence<i...>) {
  m.def(name, [=](int bytes, typename ArgumentOf<Problem<float>, i>::Type... arguments, std::int64_t rows,
                  std::int64_t columns, int threads) {
    interruptible([&] {
      nb::gil_scoped_release release;
      if (bytes == 4)
        launch<Problem<float>>(in_float(), {ArgumentOf<Problem<float>, i>::make(arguments, rows, columns)..., columns},
                               rows, threads);
      else
        launch<Problem<double>>(
            in_double(), {ArgumentOf<Problem<double>, i>::make(arguments, rows, columns)..., columns}, rows, threads);
    });
  });
}

// ProxTv1d -> prox_tv1d
std::string python_name(const std::string& name) {
  std::string found;
  for (const char letter : name) {
    const bool capital = letter >= 'A' && letter <= 'Z';
    if (capital && !found.empty()) found += '_';
    found += capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return found;
}

template <template <class> class Problem, class InFloat, class InDouble>
void bind(nb::module_& m, const char* name, InFloat in_float, InDouble in_double) {
  constexpr std::size_t n = std::tuple_size_v<FlatFields<Problem<float>>> - 1;
  bind<Problem>(m, python_name(name).c_str(), in_float, in_double, std::make_index_sequence<n>());
}

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
  m.def(
      "threads_are_borrowed", [] { return Team::is_borrowed(); },
      "Whether PyTorch's own threads do the work, or a pool of omegamax's.");
  m.def(
      "arch", [] { return active.load()->arch; }, "The instruction set in use.");
  m.def("supported_archs", &supported_archs, "The instruction sets this processor can run, the best first.");
  m.def("use_arch", &use_arch, "Forces an instruction set, or 'auto'; for tests and benchmarks.");

  bind_sparsemap(m, []() -> const Table& { return *active.load(std::memory_order_relaxed); });
  bind_attention(m, []() -> const Table& { return *active.load(std::memory_order_relaxed); });
  bind_decoding(m, []() -> const Table& { return *active.load(std::memory_order_relaxed); });
  m.def("kbest", &kbest, "The k best derivations of a hypergraph.");

#define OMEGAMAX_BIND(Name)                                                          \
  bind<Name>(                                                                        \
      m, #Name, [] { return active.load(std::memory_order_relaxed)->Name##_float; }, \
      [] { return active.load(std::memory_order_relaxed)->Name##_double; });
  OMEGAMAX_KERNELS(OMEGAMAX_BIND)
#undef OMEGAMAX_BIND
#define OMEGAMAX_BIND(Name) \
  bind<Name>(m, #Name, [] { return active_series().Name##_float; }, [] { return active_series().Name##_double; });
  OMEGAMAX_SERIES_KERNELS(OMEGAMAX_BIND)
#undef OMEGAMAX_BIND
}

}  // namespace omegamax
