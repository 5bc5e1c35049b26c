#include "coordinator/device/cuda/expert_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/call_layout.h"
#include "coordinator/device/cuda/kernels/elementwise.h"

namespace numoe::cuda {
namespace {

// The same place of a segment, at the device's address.
template <typename T>
T* Moved(T* pointer, const std::byte* from, std::byte* to) {
  return reinterpret_cast<T*>(to + (reinterpret_cast<const std::byte*>(pointer) - from));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertExchange>> ExpertExchange::Create(int rows_max, Runtime& runtime,
                                                                       Stream stream) {
  auto exchange = std::unique_ptr<ExpertExchange>(new ExpertExchange(rows_max, runtime, stream));
  ASSIGN_OR_RETURN(exchange->fault_, runtime.AllocateHost(sizeof(HandoverFault)));
  ASSIGN_OR_RETURN(exchange->release_, runtime.AllocateHost(sizeof(std::atomic<uint32_t>)));
  ASSIGN_OR_RETURN(exchange->blocks_done_, runtime.Allocate(kPortsMax * sizeof(uint32_t)));
  ASSIGN_OR_RETURN(exchange->ready_, runtime.NewEvent());
  runtime.Clear(exchange->blocks_done_->device(), exchange->blocks_done_->bytes(), stream);
  return exchange;
}

absl::StatusOr<std::byte*> ExpertExchange::DeviceAddress(const DirectPort& port) {
  for (const Registered& known : segments_)
    if (known.mapping == port.mapping) return known.memory->device();
  ASSIGN_OR_RETURN(auto memory, runtime_.RegisterHost(port.segment));
  segments_.push_back({port.mapping, std::move(memory)});
  return segments_.back().memory->device();
}

// Of sessions that are gone.
void ExpertExchange::DropOldSegments(const DirectStep& direct) {
  segments_.remove_if([&](const Registered& known) {
    return std::none_of(direct.ports.begin(), direct.ports.end(),
                        [&](const DirectPort& port) { return port.mapping == known.mapping; });
  });
}

absl::Status ExpertExchange::Open(ExpertBackend& experts, bool exact, absl::Span<HandoverStep> steps) {
  if (open_ != nullptr) return absl::OkStatus();
  std::memset(fault_->host(), 0, fault_->bytes());
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  ASSIGN_OR_RETURN(const DirectStep direct, experts.BeginDirect(release));
  open_ = &experts;
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
      direct_ = false;
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

void ExpertExchange::EnqueueSend(const ExchangeCall& call, const HandoverStep* step) {
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

void ExpertExchange::EnqueueAdd(ReplyPart part, float* residual, int rows, int hidden_size,
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

absl::Status ExpertExchange::Describe(const HandoverFault& fault) const {
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

absl::Status ExpertExchange::Close(const absl::Status& result, bool ran) {
  if (open_ == nullptr) return result;
  ExpertBackend& experts = *std::exchange(open_, nullptr);
  HandoverFault fault;
  std::memcpy(&fault, fault_->host(), sizeof fault);
  const absl::Status status = result.ok() && ran ? Describe(fault) : result;
  if (!ran) replies_ = {};
  return experts.EndDirect(replies(ReplyPart::kImmediate), replies(ReplyPart::kDeferred), status);
}

absl::Status ExpertExchange::Reserve(const ExchangeCall& call) {
  const auto host = [&](std::unique_ptr<Memory>& memory, size_t row_bytes) -> absl::Status {
    const size_t bytes = row_bytes * static_cast<size_t>(rows_max_);
    if (memory != nullptr && memory->bytes() >= bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(memory, runtime_.AllocateHost(bytes));
    return absl::OkStatus();
  };
  const size_t hidden = static_cast<size_t>(call.hidden_size) * sizeof(float);
  const size_t entries = static_cast<size_t>(call.experts_per_token) * sizeof(float);
  RETURN_IF_ERROR(host(host_hidden_, hidden));
  RETURN_IF_ERROR(host(host_sums_, hidden));
  if (call.deferred_experts > 0) RETURN_IF_ERROR(host(host_deferred_, hidden));
  RETURN_IF_ERROR(host(host_experts_, entries));
  return host(host_weights_, entries);
}

void ExpertExchange::Ask(ExpertBackend& experts) {
  auto* release = new (release_->host()) std::atomic<uint32_t>(0);
  const absl::Status begun = experts.BeginDirect(release).status();
  if (absl::IsUnavailable(begun)) return;  // asked again when the slice is back
  asked_ = true;
  direct_ = begun.ok() && experts.EndDirect(0, 0, absl::OkStatus()).ok();
}

void ExpertExchange::Stage(const ExchangeCall& call) {
  staged_ = call;
  reserved_ = Reserve(call);
  if (!reserved_.ok()) return;
  const auto first = static_cast<size_t>(call.first), tokens = static_cast<size_t>(call.tokens);
  const auto hidden = static_cast<size_t>(call.hidden_size), k = static_cast<size_t>(call.experts_per_token);
  LaunchConvert(call.hidden, reinterpret_cast<float*>(host_hidden_->device()) + first * hidden,
                static_cast<int64_t>(tokens * hidden), stream_);
  runtime_.Copy(host_experts_->host() + first * k * sizeof(ExpertId), call.experts,
                tokens * k * sizeof(ExpertId), stream_);
  runtime_.Copy(host_weights_->host() + first * k * sizeof(float), call.weights, tokens * k * sizeof(float),
                stream_);
  runtime_.Record(ready_, stream_);
}

absl::Status ExpertExchange::Start(ExpertBackend& experts) {
  if (!asked_) Ask(experts);
  RETURN_IF_ERROR(reserved_);
  RETURN_IF_ERROR(runtime_.Await(ready_));
  called_ = staged_;
  const ExchangeCall& call = called_;
  const auto first = static_cast<size_t>(call.first), tokens = static_cast<size_t>(call.tokens);
  const auto hidden = static_cast<size_t>(call.hidden_size), k = static_cast<size_t>(call.experts_per_token);
  return experts.Start(
      {.layer = call.layer,
       .tokens = call.tokens,
       .hidden_size = call.hidden_size,
       .experts_per_token = call.experts_per_token,
       .deferred_experts = call.deferred_experts,
       .exact = call.exact,
       .hidden = {reinterpret_cast<const float*>(host_hidden_->host()) + first * hidden, tokens * hidden},
       .experts = {reinterpret_cast<const ExpertId*>(host_experts_->host()) + first * k, tokens * k},
       .weights = {reinterpret_cast<const float*>(host_weights_->host()) + first * k, tokens * k}});
}

// The call's rows. What was there before was added before these rows were staged again, and Start has waited
// for that.
absl::Span<float> ExpertExchange::Cleared(const Memory& sums) const {
  const auto hidden = static_cast<size_t>(called_.hidden_size);
  const absl::Span<float> cleared(
      reinterpret_cast<float*>(sums.host()) + static_cast<size_t>(called_.first) * hidden,
      static_cast<size_t>(called_.tokens) * hidden);
  std::fill(cleared.begin(), cleared.end(), 0.0f);
  return cleared;
}

const float* ExpertExchange::OnDevice(absl::Span<float> sums, const Memory& memory) const {
  return Moved(static_cast<const float*>(sums.data()), memory.host(), memory.device());
}

absl::Status ExpertExchange::Finish(ExpertBackend& experts, float* residual) {
  const absl::Span<float> sums = Cleared(*host_sums_);
  RETURN_IF_ERROR(experts.Finish(sums));
  LaunchAdd(residual, OnDevice(sums, *host_sums_), static_cast<int64_t>(sums.size()), stream_);
  return absl::OkStatus();
}

absl::Status ExpertExchange::FinishDeferred(ExpertBackend& experts, float* residual) {
  const absl::Span<float> sums = Cleared(*host_deferred_);
  RETURN_IF_ERROR(experts.FinishDeferred(sums));
  LaunchAdd(residual, OnDevice(sums, *host_deferred_), static_cast<int64_t>(sums.size()), stream_);
  return absl::OkStatus();
}

}  // namespace numoe::cuda
