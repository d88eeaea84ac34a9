// A small pool of threads that survives fork() and follows the thread count of each call.
//
// For processes in which PyTorch's own threads cannot be used (team.hpp). The caller always works too, so a call that
// finds the pool busy (two Python threads at once) simply runs alone.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
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
    helpers = hire(helpers);
    if (helpers == 0) return body(context, 0, total);
    {
      std::lock_guard<std::mutex> lock(state_);
      body_ = body;
      context_ = context;
      total_ = total;
      grain_ = grain;
      error_ = nullptr;
      next_.store(0, std::memory_order_relaxed);
      invited_ = helpers;
      pending_.store(helpers, std::memory_order_relaxed);
      round_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    consume();
    {
      // A worker that has not started yet must not join any more: the work is done, and `context` will end.
      std::lock_guard<std::mutex> lock(state_);
      pending_.fetch_sub(invited_, std::memory_order_relaxed);
      invited_ = 0;
    }
    // The other workers are in their last block, so the wait is usually short.
    if (!spin([this] { return pending_.load(std::memory_order_acquire) == 0; })) {
      std::unique_lock<std::mutex> lock(state_);
      done_.wait(lock, [this] { return pending_.load(std::memory_order_relaxed) == 0; });
    }
    std::lock_guard<std::mutex> lock(state_);
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

  // Starts workers until there are that many, or as many as the system allows.
  int hire(int helpers) {
    while (workers_ < helpers) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) { break; }
      ++workers_;
    }
    return std::min(helpers, workers_);
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      // Calls come in bursts (forward, backward, the next layer): wait a moment for the next one before sleeping.
      spin([&] { return round_.load(std::memory_order_acquire) != seen; });
      std::unique_lock<std::mutex> lock(state_);
      wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
      seen = round_.load(std::memory_order_relaxed);
      if (invited_ == 0) continue;
      --invited_;
      lock.unlock();
      consume();
      lock.lock();
      if (pending_.fetch_sub(1, std::memory_order_release) == 1) done_.notify_one();
    }
  }

  void consume() {
    try {
      for (;;) {
        const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
        if (begin >= total_) return;
        body_(context_, begin, std::min(begin + grain_, total_));
      }
    } catch (...) {  // no memory: the rest of the work is dropped and the caller raises
      next_.store(total_, std::memory_order_relaxed);
      std::lock_guard<std::mutex> lock(state_);
      error_ = std::current_exception();
    }
  }

  // Waits for a few microseconds at most; returns whether the condition became true. A longer wait would take the
  // processor from threads that have work, among them PyTorch's own.
  template <class Condition>
  static bool spin(Condition condition) {
    for (int i = 0; i < kSpins; ++i) {
      if (condition()) return true;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    return condition();
  }
  static constexpr int kSpins = 1000;

  std::mutex turn_;   // one parallel call at a time
  std::mutex state_;  // guards everything below but the atomic numbers, which it guards for writing
  std::condition_variable wake_, done_;
  RangeBody body_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t total_ = 0, grain_ = 1;
  std::exception_ptr error_;
  int workers_ = 0, invited_ = 0;
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<std::uint64_t> round_{0};
};

}  // namespace omegamax
