// Step: one forward pass on a device, from Device::Begin to its destructor.
//
// A step knows the layout that it was begun with; its arithmetic is in operations.h. Results are on the host
// only after ReadLogits, and errors of asynchronous work are returned there or by AddExperts. A layer's
// routed work passes through three values (tickets) that can each be used once:
//
//   StageExperts -> StagedExperts -> SendExperts -> SentExperts -> AddExperts -> DeferredExperts, if any
//
// At most one layer call is in flight: between SendExperts and AddExperts another call may be staged, but
// not sent. A step that failed drops its tickets. One thread, the engine's; a device has at most one step at
// a time.
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
enum class ExpertExecution : uint8_t {
  kWhole,    // by the workers, with one call per layer for all rows
  kHalves,   // by the workers, with one call per half; the device computes one half during the other's call
  kFetched,  // on the device, with weights from the workers' memory (Device::FetchExperts)
};
inline constexpr std::string_view kExpertExecutionNames[] = {"whole", "halves", "fetched"};
inline constexpr size_t kExpertExecutions = std::size(kExpertExecutionNames);
static_assert(kExpertExecutions == static_cast<size_t>(ExpertExecution::kFetched) + 1);

/// One layer's routed work: the normed input of the MoE block and the routes of some rows.
struct RoutedRows {
  Rows rows;
  LayerId layer = 0;
  Tensor in;
  RouteTable routes;
};

/// The state that a layer's routed work is in.
enum class CallState : uint8_t { kStaged, kSent, kDeferred };

/// A layer's routed work in one state. It can be moved and used once, not copied.
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

/// The results of the rows whose logits are needed. Spans are valid until the device's next step begins.
struct StepOutput {
  absl::Span<const float> logits;    // [rows without a drawn token, cols]
  absl::Span<const DrawnRow> drawn;  // [logit rows], nullopt for those in `logits`; empty if none was drawn
};

class Step {
 public:
  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;

  virtual ExpertExecution expert_execution() const = 0;
  virtual Rows all() const = 0;
  /// The sets of rows that each layer runs on in order: all rows, or the first half and then the second. A
  /// row of the second half attends to what the first half wrote, so the first half's WriteKv of a layer
  /// comes before the second half's attention.
  virtual absl::Span<const Rows> parts() const = 0;

  /// The operations with which the layers are computed.
  virtual Operations& ops() = 0;

  /// Prepares what SendExperts sends. A call for other rows may be in flight.
  StagedExperts StageExperts(Rows rows, LayerId layer, Tensor in, RouteTable routes);
  /// Sends the staged work to the workers, and marks the step's deferred experts as deferred; residual += the
  /// sums of the experts that the device itself computes. REQUIRES: no call is in flight. UNAVAILABLE: the
  /// step must be repeated.
  absl::StatusOr<SentExperts> SendExperts(StagedExperts staged, Tensor residual);
  /// residual += the workers' weighted sums, in the rows of the call. The returned experts, if any, are still
  /// being computed and must be passed to AddDeferredExperts. UNAVAILABLE: the step must be repeated.
  absl::StatusOr<std::optional<DeferredExperts>> AddExperts(SentExperts sent, Tensor residual);
  /// residual += the sums of the experts that were deferred. Must be called before the next call is staged
  /// and before SelectLogitRows. UNAVAILABLE: the step must be repeated.
  absl::Status AddDeferredExperts(DeferredExperts deferred, Tensor residual);

  /// Copies the rows whose logits are needed to the front of `out`. REQUIRES: no call is in flight.
  virtual Rows SelectLogitRows(Tensor in, Tensor out) = 0;
  /// Draws a token, as TokenDrawer does, from each row that has a SampleSpec, except from the rows that the
  /// device leaves to the host. Copies the logits of all rows without a drawn token to the host.
  virtual absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) = 0;

 private:
  virtual void Stage(const RoutedRows& work) = 0;
  virtual absl::Status Send(const RoutedRows& work, Tensor residual) = 0;
  virtual absl::Status Add(const RoutedRows& work, Tensor residual) = 0;
  virtual absl::Status AddDeferred(const RoutedRows& work, Tensor residual) = 0;
  /// Whether the workers answer for some experts of this step's calls in a separate, later reply.
  virtual bool defers() const = 0;

  // The number of live tickets of each kind, with which the requirements above are checked.
  int staged_ = 0, sent_ = 0, deferred_ = 0;
};

}  // namespace numoe::execution
