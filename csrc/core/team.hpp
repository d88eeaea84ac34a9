// The threads that PyTorch already has, borrowed for a moment.
//
// PyTorch's OpenMP threads stay awake for about a millisecond after each of its operations, and on a machine with as
// many threads as cores a second pool then waits for a core until that is over. So where PyTorch's OpenMP runtime is
// already in the process, its team does the work. Nothing is linked against OpenMP and no copy is shipped: the one
// function is looked up in the library that is loaded. A forked child cannot use the parent's team (it would hang), and
// gets the pool of its own in pool.hpp, as does a process without that library.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#if defined(__linux__)
#include <dlfcn.h>
#endif

#include "core/pool.hpp"

namespace omegamax {

class Team {
 public:
  // To be called once, when the module is loaded: from then on a fork is noticed.
  static void prepare() {
    pthread_atfork(nullptr, nullptr, [] { forked().store(true, std::memory_order_relaxed); });
  }

  static void run(std::int64_t total, std::int64_t grain, int threads, RangeBody body, const void* context) {
    if (total <= 0) return;
    if (threads <= 1 || total <= grain) return body(context, 0, total);
    const Runtime& runtime = loaded();
    if (runtime.parallel == nullptr || forked().load(std::memory_order_relaxed))
      return Pool::run(total, grain, threads, body, context);
    if (runtime.in_parallel()) return body(context, 0, total);
    Work work(total, grain, threads, body, context, runtime.thread_number);
    // Always the team size that PyTorch uses: a change of size would end and start threads.
    runtime.parallel(&Work::consume, &work, static_cast<unsigned>(threads), 0);
    if (work.error != nullptr) std::rethrow_exception(work.error);
  }

  static bool is_borrowed() { return loaded().parallel != nullptr && !forked().load(std::memory_order_relaxed); }

 private:
  struct Runtime {
    void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags);
    int (*in_parallel)();
    int (*thread_number)();
  };

  // Each thread has a share of its own, the same in every call, as PyTorch's threads have: what one call leaves in the
  // cache of a core, the next one finds there. A thread that has finished helps the others.
  struct Work {
    struct alignas(64) Share {
      std::atomic<std::int64_t> next;
      std::int64_t end;
    };
    static constexpr int kMostShares = 64;

    std::int64_t grain;
    int n_shares;
    RangeBody body;
    const void* context;
    int (*thread_number)();
    Share shares[kMostShares];
    std::atomic<bool> failed{false};
    std::exception_ptr error;

    Work(std::int64_t total, std::int64_t grain_, int threads, RangeBody body_, const void* context_,
         int (*thread_number_)())
        : grain(grain_), n_shares(std::min(threads, kMostShares)), body(body_), context(context_),
          thread_number(thread_number_) {
      const std::int64_t blocks = (total + grain - 1) / grain;
      for (int i = 0; i < n_shares; ++i) {
        shares[i].next.store(blocks * i / n_shares * grain, std::memory_order_relaxed);
        shares[i].end = std::min(blocks * (i + 1) / n_shares * grain, total);
      }
    }

    static void consume(void* self) {
      Work& work = *static_cast<Work*>(self);
      const int own = work.thread_number() % work.n_shares;
      try {
        for (int i = 0; i < work.n_shares; ++i) work.finish(work.shares[(own + i) % work.n_shares]);
      } catch (...) {  // no memory: the rest of the work is dropped and the caller raises
        for (int i = 0; i < work.n_shares; ++i)
          work.shares[i].next.store(work.shares[i].end, std::memory_order_relaxed);
        if (!work.failed.exchange(true)) work.error = std::current_exception();
      }
    }

    void finish(Share& share) {
      for (;;) {
        const std::int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= share.end) return;
        body(context, begin, std::min(begin + grain, share.end));
      }
    }
  };

  static std::atomic<bool>& forked() {
    static std::atomic<bool> flag{false};
    return flag;
  }

  static const Runtime& loaded() {
    static const Runtime runtime = [] {
      Runtime found{nullptr, nullptr, nullptr};
#if defined(__linux__)
      if (void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
        found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(library, "GOMP_parallel"));
        found.in_parallel = reinterpret_cast<decltype(found.in_parallel)>(dlsym(library, "omp_in_parallel"));
        found.thread_number = reinterpret_cast<decltype(found.thread_number)>(dlsym(library, "omp_get_thread_num"));
        if (found.in_parallel == nullptr || found.thread_number == nullptr) found.parallel = nullptr;
      }
#endif
      return found;
    }();
    return runtime;
  }
};

}  // namespace omegamax
