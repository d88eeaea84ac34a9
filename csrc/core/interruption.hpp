// Ctrl-C during a long call: the thread that made the call asks now and then whether to stop, and tells the others.
//
// Only the thread of the call may ask Python (a signal handler runs on the main thread), so the others read a flag. A
// thread that finds that the call must stop throws `Interrupted`, which unwinds to the call as any exception does.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace omegamax {

struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

class Interruption {
 public:
  using Ask = bool (*)();  // whether to stop; called on the thread that made this object, every kPause

  static constexpr std::chrono::milliseconds kPause{50};

  explicit Interruption(Ask ask) : ask_(ask), owner_(std::this_thread::get_id()), begun_(Clock::now()), last_(begun_) {}

  // Call this now and then, from any thread.
  void check() {
    if (stop_.load(std::memory_order_relaxed)) throw Interrupted();
    if (std::this_thread::get_id() != owner_) return;
    const Clock::time_point now = Clock::now();
    if (now - last_ < kPause) return;
    last_ = now;
    if (!ask_()) return;
    stop_.store(true, std::memory_order_relaxed);
    throw Interrupted();
  }

  bool is_owner() const { return std::this_thread::get_id() == owner_; }
  bool is_long() const { return Clock::now() - begun_ > kPause; }  // the call has lasted for some time

 private:
  using Clock = std::chrono::steady_clock;

  Ask ask_;
  std::thread::id owner_;
  Clock::time_point begun_, last_;  // only the owner reads `last_`
  std::atomic<bool> stop_{false};
};

// The interruption of the call that this thread works for, or nullptr. A kernel in which one row or item may take long
// checks it; between rows `launch` does.
inline thread_local Interruption* current_interruption = nullptr;

class InterruptionScope {
 public:
  explicit InterruptionScope(Interruption* interruption) : before_(current_interruption) {
    current_interruption = interruption;
  }
  ~InterruptionScope() { current_interruption = before_; }
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;

 private:
  Interruption* before_;
};

inline void check_interruption() {
  if (current_interruption != nullptr) current_interruption->check();
}

}  // namespace omegamax
