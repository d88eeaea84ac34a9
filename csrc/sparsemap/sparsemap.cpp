// SparseMAP over a batch: items are independent, and each thread has an oracle of its own.
#include "sparsemap/sparsemap.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "core/team.hpp"

namespace omegamax {
namespace {

// The oracle of one item, as the search asks it.
struct CompiledAsk {
  const OracleTable& table;
  void* oracle;
  std::int64_t item;
  Interruption& interruption;

  void operator()(const double* scores, Vertex& vertex) {
    interruption.check();
    table.best(oracle, item, scores, vertex);
  }
  bool equalities(EqualitySystem& system) { return table.equalities(oracle, item, system); }
};

struct FunctionAsk {
  const std::function<void(const double*, Vertex&)>& function;

  void operator()(const double* scores, Vertex& vertex) { function(scores, vertex); }
  bool equalities(EqualitySystem&) { return false; }
};

// Counts the items that threads have taken and finished. A thread that waits at the end of a parallel call cannot react
// to signals, so when all items are taken, the thread that made the call waits here for the others.
class Progress {
 public:
  explicit Progress(std::int64_t n_items) : n_items_(n_items) {}

  class Share {
   public:
    Share(Progress& progress, std::int64_t n) : progress_(progress), n_(n) { progress_.move(n, 0); }
    ~Share() { progress_.move(0, n_); }

   private:
    Progress& progress_;
    std::int64_t n_;
  };

  void wait(Interruption& interruption) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (taken_ == n_items_ && done_ < n_items_) {
      changed_.wait_for(lock, Interruption::kPause);
      lock.unlock();
      interruption.check();
      lock.lock();
    }
  }

 private:
  void move(std::int64_t taken, std::int64_t done) {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ += taken, done_ += done;
    if (done_ == n_items_) changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t n_items_, taken_ = 0, done_ = 0;
};

struct Batch {
  const OracleTable* oracle;
  const DenseAlgebra* algebra;
  const OracleSpec* spec;
  const SparsemapOptions* options;
  const double* scores;
  const SparsemapStart* starts;  // per item, or null
  std::vector<SparsemapItem>* found;
  Interruption* interruption;
  Progress* progress;

  static void range(const void* self, std::int64_t begin, std::int64_t end) {
    const Batch& batch = *static_cast<const Batch*>(self);
    {
      const Progress::Share share(*batch.progress, end - begin);
      solve(batch, begin, end);
    }
    if (batch.interruption->is_owner() && batch.interruption->is_long()) batch.progress->wait(*batch.interruption);
  }

  static void solve(const Batch& batch, std::int64_t begin, std::int64_t end) {
    struct Open {
      const OracleTable& table;
      void* oracle;
      ~Open() { table.close(oracle); }
    } open{*batch.oracle, batch.oracle->open(*batch.spec)};
    for (std::int64_t item = begin; item < end; ++item) {
      const SparsemapStart start = batch.starts ? batch.starts[item] : SparsemapStart{};
      CompiledAsk ask{open.table, open.oracle, item, *batch.interruption};
      (*batch.found)[item] = SparsemapSearch::run(*batch.algebra, batch.scores + item * batch.options->n_parts,
                                                  *batch.options, start, ask);
    }
  }
};

}  // namespace

std::vector<SparsemapItem> sparsemap(const OracleTable& oracle, const DenseAlgebra& algebra, const OracleSpec& spec,
                                     const SparsemapOptions& options, const double* scores, std::int64_t n_items,
                                     const SparsemapStart* starts, int threads, Interruption& interruption) {
  std::vector<SparsemapItem> found(n_items);
  Progress progress(n_items);
  SparsemapOptions watched = options;
  watched.interruption = &interruption;
  const Batch batch{&oracle, &algebra, &spec, &watched, scores, starts, &found, &interruption, &progress};
  Team::run(n_items, 1, threads, &Batch::range, &batch);
  return found;
}

SparsemapItem sparsemap_item(const DenseAlgebra& algebra, const double* scores, const SparsemapOptions& options,
                             const SparsemapStart& start, const std::function<void(const double*, Vertex&)>& function) {
  FunctionAsk ask{function};
  return SparsemapSearch::run(algebra, scores, options, start, ask);
}

}  // namespace omegamax
