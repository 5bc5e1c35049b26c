#include "coordinator/execution/device/cuda/direct_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/call_layout.h"

namespace numoe::execution::cuda {
namespace {

// The same place of a segment, at the device's address.
template <typename T>
T* Moved(T* pointer, const std::byte* from, std::byte* to) {
  return reinterpret_cast<T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectExchange>> DirectExchange::Create(Runtime& runtime, Stream stream) {
  auto exchange = std::unique_ptr<DirectExchange>(new DirectExchange(runtime, stream));
  ASSIGN_OR_RETURN(exchange->fault_, runtime.AllocateHost(sizeof(HandoverFault)));
  ASSIGN_OR_RETURN(exchange->release_, runtime.AllocateHost(sizeof(std::atomic<uint32_t>)));
  ASSIGN_OR_RETURN(exchange->blocks_done_, runtime.Allocate(kPortsMax * sizeof(uint32_t)));
  runtime.Clear(exchange->blocks_done_->device(), exchange->blocks_done_->bytes(), stream);
  return exchange;
}

void DirectExchange::AskOnce() {
  if (asked_ || experts_ == nullptr) return;
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  const absl::Status begun = experts_->BeginDirect(release).status();
  if (absl::IsUnavailable(begun)) return;  // asked again when the slice is back
  asked_ = true;
  possible_ = begun.ok() && experts_->EndDirect(0, 0, absl::OkStatus()).ok();
}

absl::StatusOr<std::byte*> DirectExchange::DeviceAddress(const DirectPort& port) {
  for (const Registered& known : segments_)
    if (known.mapping == port.mapping) return known.memory->device();
  ASSIGN_OR_RETURN(auto memory, runtime_.RegisterHost(port.segment));
  segments_.push_back({port.mapping, std::move(memory)});
  return segments_.back().memory->device();
}

// Of sessions that are gone.
void DirectExchange::DropOldSegments(const DirectStep& direct) {
  segments_.remove_if([&](const Registered& known) {
    return std::none_of(direct.ports.begin(), direct.ports.end(),
                        [&](const DirectPort& port) { return port.mapping == known.mapping; });
  });
}

absl::Status DirectExchange::Open(bool exact, absl::Span<HandoverStep> steps) {
  if (open_) return absl::OkStatus();
  std::memset(fault_->host(), 0, fault_->bytes());
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  NUMOE_CHECK(experts_ != nullptr) << "only a backend with shared memory has steps that are captured";
  ASSIGN_OR_RETURN(const DirectStep direct, experts_->BeginDirect(release));
  open_ = true;
  NUMOE_CHECK_LE(direct.ports.size(), static_cast<size_t>(kPortsMax));
  HandoverStep& step = steps.front();
  step.first_call_id = direct.first_call_id;
  step.flags = exact ? kExactFlag : 0;
  step.ports = static_cast<int32_t>(direct.ports.size());
  DropOldSegments(direct);
  for (size_t p = 0; p < direct.ports.size(); ++p) {
    const DirectPort& port = direct.ports[p];
    const absl::StatusOr<std::byte*> device = DeviceAddress(port);
    if (!device.ok()) {
      LogWarning("workers are reached through the host from now on: {}",
                 std::string(device.status().message()));
      possible_ = false;
      RETURN_IF_ERROR(Close(absl::OkStatus(), /*ran=*/false));
      return absl::UnavailableError("the step is made again, through the host");
    }
    const std::byte* host = port.segment.data();
    step.port[p] = {.instance = port.instance,
                    .request = Moved(port.request.data(), host, *device),
                    .request_published = Moved(port.request_published, host, *device),
                    .request_length = Moved(port.request_length, host, *device),
                    .reply = Moved(port.reply.data(), host, *device),
                    .reply_published = Moved(port.reply_published, host, *device),
                    .deferred_reply = Moved(port.deferred_reply.data(), host, *device),
                    .deferred_published = Moved(port.deferred_published, host, *device),
                    .requests = port.requests,
                    .replies = port.replies,
                    .deferred = port.deferred};
  }
  for (HandoverStep& other : steps.subspan(1)) {
    const int32_t rows = other.rows;
    other = step;
    other.rows = rows;
  }
  return absl::OkStatus();
}

void DirectExchange::EnqueueSend(const RoutedCall& call, const HandoverStep* step) {
  LaunchSendCalls({.step = step,
                   .fault = reinterpret_cast<HandoverFault*>(fault_->device()),
                   .blocks_done = reinterpret_cast<uint32_t*>(blocks_done_->device()),
                   .hidden = call.hidden,
                   .experts = call.experts,
                   .weights = call.weights,
                   .hidden_size = call.hidden_size,
                   .experts_per_token = call.experts_per_token,
                   .deferred_experts = call.deferred_experts,
                   .rows_max = call.rows,
                   .ports_max = kPortsMax,
                   .layer = call.layer,
                   .call = replies(ReplyPart::kImmediate)},
                  stream_);
}

void DirectExchange::EnqueueAdd(ReplyPart part, float* residual, int rows, int hidden_size,
                                const HandoverStep* step) {
  const bool deferred = part == ReplyPart::kDeferred;
  auto* fault = reinterpret_cast<HandoverFault*>(fault_->device());
  LaunchAwaitReplies({.step = step,
                      .fault = fault,
                      .release = reinterpret_cast<const uint32_t*>(release_->device()),
                      // A deferred reply is to the call whose other one came last.
                      .call = replies(ReplyPart::kImmediate) - (deferred ? 1 : 0),
                      .reply = replies(part),
                      .deferred = deferred},
                     stream_);
  LaunchAddReplies({.step = step,
                    .fault = fault,
                    .residual = residual,
                    .hidden_size = hidden_size,
                    .rows_max = rows,
                    .deferred = deferred},
                   stream_);
}

absl::Status DirectExchange::Describe(const HandoverFault& fault) const {
  switch (static_cast<FaultKind>(fault.kind)) {
    case FaultKind::kNone:
      return absl::OkStatus();
    case FaultKind::kReleased:
      return absl::UnavailableError(
          fmt::format("slice {} did not answer call {} of the step", fault.port, fault.call));
    case FaultKind::kOtherCall:
      return absl::InternalError(
          fmt::format("slice {} answered another call than call {} of the step", fault.port, fault.call));
    case FaultKind::kRefused:
      return absl::InternalError(
          fmt::format("slice {} refused call {} of the step with code {}; its log says why", fault.port,
                      fault.call, fault.status));
  }
  return absl::InternalError(fmt::format("unknown fault {}", fault.kind));
}

absl::Status DirectExchange::Close(const absl::Status& result, bool ran) {
  if (!std::exchange(open_, false)) return result;
  HandoverFault fault;
  std::memcpy(&fault, fault_->host(), sizeof fault);
  const absl::Status status = result.ok() && ran ? Describe(fault) : result;
  if (!ran) replies_ = {};
  return experts_->EndDirect(replies(ReplyPart::kImmediate), replies(ReplyPart::kDeferred), status);
}

}  // namespace numoe::execution::cuda
