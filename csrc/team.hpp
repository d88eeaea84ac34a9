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

#include "pool.hpp"

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
    Work work{total, grain, body, context};
    // Always the team size that PyTorch uses: a change of size would end and start threads.
    runtime.parallel(&Work::consume, &work, static_cast<unsigned>(threads), 0);
    if (work.error != nullptr) std::rethrow_exception(work.error);
  }

  static bool is_borrowed() { return loaded().parallel != nullptr && !forked().load(std::memory_order_relaxed); }

 private:
  struct Runtime {
    void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags);
    int (*in_parallel)();
  };

  struct Work {
    std::int64_t total, grain;
    RangeBody body;
    const void* context;
    std::atomic<std::int64_t> next{0};
    std::atomic<bool> failed{false};
    std::exception_ptr error;

    Work(std::int64_t total_, std::int64_t grain_, RangeBody body_, const void* context_)
        : total(total_), grain(grain_), body(body_), context(context_) {}

    static void consume(void* self) {
      Work& work = *static_cast<Work*>(self);
      try {
        for (;;) {
          const std::int64_t begin = work.next.fetch_add(work.grain, std::memory_order_relaxed);
          if (begin >= work.total) return;
          work.body(work.context, begin, std::min(begin + work.grain, work.total));
        }
      } catch (...) {  // no memory: the rest of the work is dropped and the caller hears of it
        work.next.store(work.total, std::memory_order_relaxed);
        if (!work.failed.exchange(true)) work.error = std::current_exception();
      }
    }
  };

  static std::atomic<bool>& forked() {
    static std::atomic<bool> flag{false};
    return flag;
  }

  static const Runtime& loaded() {
    static const Runtime runtime = [] {
      Runtime found{nullptr, nullptr};
#if defined(__linux__)
      if (void* library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
        found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(library, "GOMP_parallel"));
        found.in_parallel = reinterpret_cast<decltype(found.in_parallel)>(dlsym(library, "omp_in_parallel"));
        if (found.in_parallel == nullptr) found.parallel = nullptr;
      }
#endif
      return found;
    }();
    return runtime;
  }
};

}  // namespace omegamax
