// Becomes: waits until something is so that other threads bring about.
//
// For conditions that become true soon or, where something is broken, never: a minute is the limit, and no
// test waits for it where all is well. Looks every 2 ms; the condition is read by the calling thread.
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
