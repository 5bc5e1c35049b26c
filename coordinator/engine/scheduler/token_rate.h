// TokenRate: how many tokens a second were sampled recently, for a gauge.
//
// It averages over windows of a second or more in which sequences ran; it is 0 as soon as none run. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/check.h"

namespace numoe::engine {

class TokenRate {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kWindow{1};

  /// Returns the rate. `tokens`: the number of tokens since the start, which never decreases.
  double Measure(uint64_t tokens, Time now, bool idle) {
    if (idle) {
      begun_.reset();
      return rate_ = 0;
    }
    if (!begun_) {
      begun_ = now;
      tokens_ = tokens;
    }
    NUMOE_CHECK_GE(tokens, tokens_);
    if (now - *begun_ < kWindow) return rate_;
    rate_ = static_cast<double>(tokens - tokens_) / std::chrono::duration<double>(now - *begun_).count();
    begun_ = now;
    tokens_ = tokens;
    return rate_;
  }

 private:
  std::optional<Time> begun_;  // when the window began; nullopt while nothing runs
  uint64_t tokens_ = 0;        // at its beginning
  double rate_ = 0;
};

}  // namespace numoe::engine
