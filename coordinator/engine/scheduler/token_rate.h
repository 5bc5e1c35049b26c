// TokenRate: how many tokens a second were sampled lately, for a gauge.
//
// Of windows of a second or more in which something ran; 0 once nothing runs. One thread.
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

  /// The rate after so many tokens in all, which never become fewer.
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
  std::optional<Time> begun_;  // the window; none: nothing runs
  uint64_t tokens_ = 0;        // at its beginning
  double rate_ = 0;
};

}  // namespace numoe::engine
