// Becomes: waits until other threads have made a condition true.
//
// It is for conditions that become true soon or, if something is broken, never. The limit is a minute, which
// only a failing test reaches. It checks every 2 ms; the calling thread evaluates the condition.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace numoe {

/// Returns whether `so` became true within a minute.
inline bool Becomes(const std::function<bool()>& so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace numoe
