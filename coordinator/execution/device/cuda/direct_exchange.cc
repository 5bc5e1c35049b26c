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

// Translates an address in a segment from the host's mapping to the device's.
template <typename T>
T* Moved(T* pointer, const std::byte* from, std::byte* to) {
  return reinterpret_cast<T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectExchange>> DirectExchange::Create(Runtime& runtime, Stream stream) {
  auto exchange = std::unique_ptr<DirectExchange>(new DirectExchange(runtime, stream));
  ASSIGN_OR_RETURN(exchange->fault_, runtime.AllocateHost(sizeof(HandoverFault)));
  ASSIGN_OR_RETURN(exchange->release_, runtime.AllocateHost(sizeof(std::atomic<uint32_t>)));
  ASSIGN_OR_RETURN(exchange->blocks_done_, runtime.Allocate(kEndpointsMax * sizeof(uint32_t)));
  runtime.Clear(exchange->blocks_done_->device(), exchange->blocks_done_->bytes(), stream);
  return exchange;
}

void DirectExchange::CheckOnce() {
  if (checked_ || experts_ == nullptr) return;
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  const absl::Status begun = experts_->BeginDirect(release).status();
  if (absl::IsUnavailable(begun)) return;  // checked again when the missing slice is back
  checked_ = true;
  possible_ = begun.ok() && experts_->EndDirect(0, 0, absl::OkStatus()).ok();
}

absl::StatusOr<std::byte*> DirectExchange::DeviceAddress(const MailboxEndpoint& endpoint) {
  for (const Registered& known : segments_)
    if (known.mapping == endpoint.mapping) return known.memory->device();
  ASSIGN_OR_RETURN(auto memory, runtime_.RegisterHost(endpoint.segment));
  segments_.push_back({endpoint.mapping, std::move(memory)});
  return segments_.back().memory->device();
}

// Drops the segments of sessions that have ended.
void DirectExchange::DropOldSegments(const DirectStep& direct) {
  segments_.remove_if([&](const Registered& known) {
    return std::none_of(direct.endpoints.begin(), direct.endpoints.end(),
                        [&](const MailboxEndpoint& endpoint) { return endpoint.mapping == known.mapping; });
  });
}

absl::Status DirectExchange::Open(bool exact, absl::Span<HandoverStep> steps) {
  if (open_) return absl::OkStatus();
  std::memset(fault_->host(), 0, fault_->bytes());
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  NUMOE_CHECK(experts_ != nullptr) << "steps can be captured only with a backend that has shared memory";
  ASSIGN_OR_RETURN(const DirectStep direct, experts_->BeginDirect(release));
  open_ = true;
  NUMOE_CHECK_LE(direct.endpoints.size(), static_cast<size_t>(kEndpointsMax));
  HandoverStep& step = steps.front();
  step.first_call_id = direct.first_call_id;
  step.flags = exact ? kBatchInvariantFlag : 0;
  step.endpoint_count = static_cast<int32_t>(direct.endpoints.size());
  DropOldSegments(direct);
  for (size_t p = 0; p < direct.endpoints.size(); ++p) {
    const MailboxEndpoint& endpoint = direct.endpoints[p];
    const absl::StatusOr<std::byte*> device = DeviceAddress(endpoint);
    if (!device.ok()) {
      LogWarning(
          "from now on, layer calls go through the host, because a worker's memory cannot be pinned: {}",
          std::string(device.status().message()));
      possible_ = false;
      RETURN_IF_ERROR(Close(absl::OkStatus(), /*ran=*/false));
      return absl::UnavailableError("the step will be repeated with layer calls through the host");
    }
    const std::byte* host = endpoint.segment.data();
    step.endpoints[p] = {.instance = endpoint.instance,
                         .request = Moved(endpoint.request.data(), host, *device),
                         .request_published = Moved(endpoint.request_published, host, *device),
                         .request_length = Moved(endpoint.request_length, host, *device),
                         .reply = Moved(endpoint.reply.data(), host, *device),
                         .reply_published = Moved(endpoint.reply_published, host, *device),
                         .deferred_reply = Moved(endpoint.deferred_reply.data(), host, *device),
                         .deferred_published = Moved(endpoint.deferred_published, host, *device),
                         .requests = endpoint.requests,
                         .replies = endpoint.replies,
                         .deferred = endpoint.deferred};
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
                   .endpoints_max = kEndpointsMax,
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
                      // A deferred reply belongs to the call whose immediate reply came last.
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
          fmt::format("slice {} did not answer call {} of the step", fault.endpoint, fault.call));
    case FaultKind::kOtherCall:
      return absl::InternalError(
          fmt::format("slice {} answered a different call, expected an answer to call {} of the step",
                      fault.endpoint, fault.call));
    case FaultKind::kRefused:
      return absl::InternalError(
          fmt::format("slice {} refused call {} of the step with code {}; its log says why", fault.endpoint,
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
