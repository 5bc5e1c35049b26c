// Step: one forward pass on a device, from Device::Begin to its destructor.
//
// A step knows the layout that it was begun with; its arithmetic is in operations.h. Results are on the host
// only after ReadLogits, and errors of asynchronous work surface there or in AddExperts. A layer's routed
// work goes through three values that can each be used once:
//
//   StageExperts -> StagedExperts -> SendExperts -> SentExperts -> AddExperts -> DeferredExperts, if any
//
// At most one call is out: between SendExperts and AddExperts another call may be staged, but not sent. A
// step that failed drops what it holds. One thread, the engine's; a device has at most one step at a time.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "coordinator/execution/device/operations.h"
#include "coordinator/execution/device/step_layout.h"
#include "coordinator/execution/device/tensors.h"
#include "coordinator/execution/sampling/sample_spec.h"

namespace numoe::execution {

/// How a step's routed experts are computed.
enum class StepWay : uint8_t {
  kWhole,    // by the workers, a layer's call for all rows
  kHalves,   // by the workers, a call for each half, one of which the device computes meanwhile
  kFetched,  // on the device: their weights come from the workers' memory (Device::FetchExperts)
};
inline constexpr std::string_view kStepWayNames[] = {"whole", "halves", "fetched"};
inline constexpr size_t kStepWays = std::size(kStepWayNames);
static_assert(kStepWays == static_cast<size_t>(StepWay::kFetched) + 1);

/// One layer's routed work: the normed input of the MoE block and the routes of some rows.
struct RoutedRows {
  Rows rows;
  LayerId layer = 0;
  Tensor in;
  RouteTable routes;
};

/// How far a layer's routed work has come.
enum class CallState : uint8_t { kStaged, kSent, kDeferred };

/// A layer's routed work in one state. It can be moved and used up, not copied.
template <CallState kState>
class ExpertTicket {
 public:
  ExpertTicket(ExpertTicket&& other) noexcept
      : work_(other.work_), valid_(std::exchange(other.valid_, false)) {}
  ExpertTicket& operator=(ExpertTicket&& other) noexcept {
    work_ = other.work_;
    valid_ = std::exchange(other.valid_, false);
    return *this;
  }
  /// REQUIRES: the ticket was not moved from.
  const RoutedRows& work() const {
    NUMOE_CHECK(valid_) << "a ticket for routed experts was used twice";
    return work_;
  }

 private:
  friend class Step;
  explicit ExpertTicket(const RoutedRows& work) : work_(work) {}

  RoutedRows work_;
  bool valid_ = true;
};
using StagedExperts = ExpertTicket<CallState::kStaged>;
using SentExperts = ExpertTicket<CallState::kSent>;
using DeferredExperts = ExpertTicket<CallState::kDeferred>;

/// What came of the rows that want logits. Spans are valid until the device's next step begins.
struct StepOutput {
  absl::Span<const float> logits;    // [rows that nothing was drawn from, cols]
  absl::Span<const DrawnRow> drawn;  // [logit rows], nullopt for those in `logits`; empty: nothing was drawn
};

class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;

  virtual StepWay way() const = 0;
  virtual Rows all() const = 0;
  /// What the layers run on, one after another: all rows, or first one half and then the other. A row of the
  /// second half attends to what the first half wrote, so a layer's WriteKv of the first half comes before.
  virtual absl::Span<const Rows> parts() const = 0;

  /// What the layers are computed with.
  virtual Operations& ops() = 0;

  /// Makes ready what SendExperts hands out. The call of other rows may be out.
  StagedExperts StageExperts(Rows rows, LayerId layer, Tensor in, RouteTable routes);
  /// Hands the staged work to the workers, the step's deferred experts as such; residual += what the device
  /// itself computes of it. REQUIRES: no call is out. UNAVAILABLE: the step must be made again.
  absl::StatusOr<SentExperts> SendExperts(StagedExperts staged, Tensor residual);
  /// residual += the workers' weighted sums, in the rows of the call. What it returns is still being computed
  /// and wants AddDeferredExperts. UNAVAILABLE: the step must be made again.
  absl::StatusOr<std::optional<DeferredExperts>> AddExperts(SentExperts sent, Tensor residual);
  /// residual += the sums of the experts that were deferred. Comes before the next call is staged, and before
  /// SelectLogitRows. UNAVAILABLE: the step must be made again.
  absl::Status AddDeferredExperts(DeferredExperts deferred, Tensor residual);

  /// Copies the rows that want logits to the front of `out`. REQUIRES: no call is out.
  virtual Rows SelectLogitRows(Tensor in, Tensor out) = 0;
  /// Draws a token from each row that has a SampleSpec, as TokenDrawer does, except from those that the
  /// device leaves to the host, and brings the other rows' logits to the host.
  virtual absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) = 0;

 private:
  virtual void Stage(const RoutedRows& work) = 0;
  virtual absl::Status Send(const RoutedRows& work, Tensor residual) = 0;
  virtual absl::Status Add(const RoutedRows& work, Tensor residual) = 0;
  virtual absl::Status AddDeferred(const RoutedRows& work, Tensor residual) = 0;
  /// Whether some experts of this step's calls are answered by themselves, after the others.
  virtual bool defers() const = 0;

  // How many tickets of each kind are held: what the comments above require is checked against these.
  int staged_ = 0, sent_ = 0, deferred_ = 0;
};

}  // namespace numoe::execution
