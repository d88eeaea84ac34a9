// A small pool of threads that survives fork() and follows the thread count of each call.
//
// OpenMP is not used: it hangs after a fork and fights with PyTorch's own copy of the runtime. The caller always
// works too, so a call that finds the pool busy (two Python threads at once) simply runs alone.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace omegamax {

using RangeBody = void (*)(const void* context, std::int64_t begin, std::int64_t end);

class Pool {
 public:
  // Runs body over [0, total) in blocks of `grain`, on at most `threads` threads, and returns when all is done.
  static void run(std::int64_t total, std::int64_t grain, int threads, RangeBody body, const void* context) {
    if (total <= 0) return;
    const std::int64_t blocks = (total + grain - 1) / grain;
    const int helpers = static_cast<int>(std::min<std::int64_t>(threads, blocks)) - 1;
    if (helpers <= 0) return body(context, 0, total);
    Pool& pool = instance();
    std::unique_lock<std::mutex> turn(pool.turn_, std::try_to_lock);
    if (!turn.owns_lock()) return body(context, 0, total);
    pool.run_with(helpers, total, grain, body, context);
  }

 private:
  // The pool is leaked on purpose: its threads may still be parked when the process ends, and after a fork the
  // child must not touch the parent's mutexes, so it forgets the old pool and makes its own.
  static Pool& instance() {
    static std::atomic<Pool*> current{nullptr};
    static std::atomic<Pool*>* const slot = [] {
      pthread_atfork(nullptr, nullptr, [] { current.store(nullptr, std::memory_order_relaxed); });
      return &current;
    }();
    Pool* pool = slot->load(std::memory_order_acquire);
    if (pool == nullptr) {
      Pool* fresh = new Pool;
      if (slot->compare_exchange_strong(pool, fresh)) return *fresh;
      delete fresh;  // another thread was first; this one has no workers yet
    }
    return *pool;
  }

  void run_with(int helpers, std::int64_t total, std::int64_t grain, RangeBody body, const void* context) {
    while (workers_ < helpers) {
      std::thread([this, index = workers_] { work(index); }).detach();
      ++workers_;
    }
    {
      std::lock_guard<std::mutex> lock(state_);
      body_ = body;
      context_ = context;
      total_ = total;
      grain_ = grain;
      next_.store(0, std::memory_order_relaxed);
      invited_ = helpers;
      pending_ = helpers;
      ++round_;
    }
    wake_.notify_all();
    consume();
    std::unique_lock<std::mutex> lock(state_);
    // Nobody who has not started yet may join any more: the work is gone, and so will be `context`.
    pending_ -= invited_;
    invited_ = 0;
    done_.wait(lock, [this] { return pending_ == 0; });
  }

  void work(int) {
    std::uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(state_);
    for (;;) {
      wake_.wait(lock, [&] { return round_ != seen && invited_ > 0; });
      seen = round_;
      --invited_;
      lock.unlock();
      consume();
      lock.lock();
      if (--pending_ == 0) done_.notify_one();
    }
  }

  void consume() {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= total_) return;
      body_(context_, begin, std::min(begin + grain_, total_));
    }
  }

  std::mutex turn_;   // one parallel call at a time
  std::mutex state_;  // guards everything below but next_
  std::condition_variable wake_, done_;
  RangeBody body_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t total_ = 0, grain_ = 1;
  std::atomic<std::int64_t> next_{0};
  int workers_ = 0, invited_ = 0, pending_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace omegamax
