// FaultyBackend: passes calls to a real backend, loses one of them, at its start or on its way back, and
// checks the rules of calls, for tests.
//
// The lost call is UNAVAILABLE, as when a worker dies, and a call that was sent is forgotten. It records the
// layer and the tokens of every call. One thread.
#pragma once

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "coordinator/execution/transport/expert_backend.h"

namespace numoe {

class FaultyBackend final : public execution::ExpertBackend {
 public:
  struct Call {
    LayerId layer = 0;
    int tokens = 0;
    bool operator==(const Call&) const = default;
  };
  enum class At : uint8_t { kStart, kFinish };

  explicit FaultyBackend(execution::ExpertBackend& inner) : inner_(inner) {}

  /// Loses one call, after this number of further calls.
  void Lose(int calls, At at) {
    left_ = calls;
    at_ = at;
  }
  bool lost() const { return left_ < 0; }
  /// Since the last time.
  std::vector<Call> TakeCalls() { return std::exchange(calls_, {}); }

  absl::Status Start(const LayerCallView& call) override {
    NUMOE_CHECK(!out_) << "two calls are out at once";
    calls_.push_back({call.layer, call.tokens});
    if (Lost(At::kStart)) return absl::UnavailableError("lost before it was sent");
    tokens_ = call.hidden.size();
    out_ = true;
    return inner_.Start(call);
  }
  absl::Status Finish(absl::Span<float> out) override {
    NUMOE_CHECK(std::exchange(out_, false)) << "no call is out";
    NUMOE_CHECK_EQ(out.size(), tokens_) << "other rows than those that were sent";
    if (!Lost(At::kFinish)) return inner_.Finish(out);
    std::vector<float> dropped(out.size());
    (void)inner_.Finish(absl::MakeSpan(dropped));
    return absl::UnavailableError("lost on its way back");
  }
  absl::Status AwaitReady(int64_t deadline_ms) override { return inner_.AwaitReady(deadline_ms); }
  bool Ready() const override { return inner_.Ready(); }

 private:
  // Counts a call at the point where it may be lost.
  bool Lost(At at) { return at_ == at && left_ >= 0 && left_-- == 0; }

  execution::ExpertBackend& inner_;
  int left_ = -1;
  At at_ = At::kStart;
  bool out_ = false;
  size_t tokens_ = 0;  // values of the call that was sent
  std::vector<Call> calls_;
};

}  // namespace numoe
