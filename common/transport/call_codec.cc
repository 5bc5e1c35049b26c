#include "common/transport/call_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/transport/call_layout.h"
#include "common/transport/transport_limits.h"

namespace numoe {
namespace {

size_t Entries(int tokens, int experts_per_token) {
  return static_cast<size_t>(tokens) * static_cast<size_t>(experts_per_token);
}
size_t Values(int tokens, int hidden_size) {
  return static_cast<size_t>(tokens) * static_cast<size_t>(hidden_size);
}

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("layer call: " + what); }

}  // namespace

size_t RequestBytes(int tokens, int experts_per_token, int hidden_size) {
  NUMOE_DCHECK(tokens > 0 && experts_per_token > 0 && hidden_size > 0);
  return kDescriptorBytes + Values(tokens, hidden_size) * sizeof(float) +
         Entries(tokens, experts_per_token) * (sizeof(ExpertId) + sizeof(float));
}

size_t ReplyBytes(int tokens, int hidden_size) {
  NUMOE_DCHECK(tokens > 0 && hidden_size > 0);
  return kDescriptorBytes + Values(tokens, hidden_size) * sizeof(float);
}

int MessageBytesMax(size_t call_bytes) {
  return static_cast<int>(std::min<size_t>(call_bytes + limits::kMessageSlackBytes, INT32_MAX));
}

size_t EncodeRequest(uint64_t call_id, const LayerCallView& call, absl::Span<std::byte> slot) {
  // What DecodeRequest refuses is never sent.
  NUMOE_CHECK(0 < call.tokens && call.tokens <= limits::kCallTokensMax) << call.tokens;
  NUMOE_CHECK(0 <= call.deferred_experts && call.deferred_experts < call.experts_per_token);
  NUMOE_CHECK_EQ(call.hidden.size() % static_cast<size_t>(call.tokens), 0u);
  NUMOE_CHECK_EQ(call.experts.size(), Entries(call.tokens, call.experts_per_token));
  NUMOE_CHECK_EQ(call.weights.size(), call.experts.size());
  const size_t bytes = kDescriptorBytes + call.hidden.size() * sizeof(float) +
                       call.experts.size() * sizeof(ExpertId) + call.weights.size() * sizeof(float);
  NUMOE_CHECK_LE(bytes, slot.size());
  const RequestDescriptor d{call_id,
                            call.instance,
                            call.layer,
                            call.tokens,
                            call.experts_per_token,
                            call.batch_invariant ? kBatchInvariantFlag : 0,
                            call.deferred_experts};
  std::byte* out = slot.data();
  std::memcpy(out, &d, sizeof d);
  out += kDescriptorBytes;
  std::memcpy(out, call.hidden.data(), call.hidden.size() * sizeof(float));
  out += call.hidden.size() * sizeof(float);
  std::memcpy(out, call.experts.data(), call.experts.size() * sizeof(ExpertId));
  out += call.experts.size() * sizeof(ExpertId);
  std::memcpy(out, call.weights.data(), call.weights.size() * sizeof(float));
  NUMOE_DCHECK_EQ(out + call.weights.size() * sizeof(float) - slot.data(), static_cast<ptrdiff_t>(bytes));
  return bytes;
}

absl::Status DecodeRequest(absl::Span<const std::byte> message, const CallShape& shape, DecodedCall& out) {
  if (message.size() < kDescriptorBytes)
    return Bad(fmt::format("{} bytes, expected at least {}", message.size(), kDescriptorBytes));
  RequestDescriptor d;
  std::memcpy(&d, message.data(), sizeof d);
  if (d.tokens < 1 || d.tokens > limits::kCallTokensMax)
    return Bad(fmt::format("{} tokens, expected 1 to {}", d.tokens, limits::kCallTokensMax));
  if (d.experts_per_token < 1 || d.experts_per_token > limits::kExpertsPerTokenMax) {
    return Bad(fmt::format("{} experts per token, expected 1 to {}", d.experts_per_token,
                           limits::kExpertsPerTokenMax));
  }
  if (d.deferred_experts < 0 || d.deferred_experts >= d.experts_per_token) {
    return Bad(fmt::format("{} deferred experts of {} per token, expected 0 to {}", d.deferred_experts,
                           d.experts_per_token, d.experts_per_token - 1));
  }
  if (d.deferred_experts > 0 && d.tokens > limits::kDeferringTokensMax) {
    return Bad(fmt::format("{} tokens with deferred experts, expected 1 to {}", d.tokens,
                           limits::kDeferringTokensMax));
  }
  if (d.flags > kBatchInvariantFlag) return Bad(fmt::format("unknown flags {:#x}", d.flags));
  const size_t expected = RequestBytes(d.tokens, d.experts_per_token, shape.hidden_size);
  if (message.size() != expected)
    return Bad(fmt::format("{} bytes, expected {} for {} tokens", message.size(), expected, d.tokens));
  const std::byte* hidden = message.data() + kDescriptorBytes;
  const size_t values = Values(d.tokens, shape.hidden_size);
  const size_t entries = Entries(d.tokens, d.experts_per_token);
  out.experts.resize(entries);
  out.weights.resize(entries);
  std::memcpy(out.experts.data(), hidden + values * sizeof(float), entries * sizeof(ExpertId));
  std::memcpy(out.weights.data(), hidden + values * sizeof(float) + entries * sizeof(ExpertId),
              entries * sizeof(float));
  for (const ExpertId expert : out.experts) {
    if (expert != kNoExpert && (expert < 0 || expert >= shape.num_experts)) {
      return Bad(fmt::format("expert id {}, expected 0 to {}, or {} for none", expert, shape.num_experts - 1,
                             kNoExpert));
    }
  }
  if (reinterpret_cast<uintptr_t>(hidden) % alignof(float) != 0) return Bad("hidden states are not aligned");
  out.call_id = d.call_id;
  out.view = {.instance = d.instance,
              .layer = d.layer,
              .tokens = d.tokens,
              .experts_per_token = d.experts_per_token,
              .deferred_experts = d.deferred_experts,
              .batch_invariant = (d.flags & kBatchInvariantFlag) != 0,
              .hidden = absl::MakeConstSpan(reinterpret_cast<const float*>(hidden), values),
              .experts = out.experts,
              .weights = out.weights};
  return absl::OkStatus();
}

absl::Span<float> ReplyPartial(absl::Span<std::byte> slot, int tokens, int hidden_size) {
  NUMOE_CHECK_LE(ReplyBytes(tokens, hidden_size), slot.size());
  NUMOE_DCHECK_EQ(reinterpret_cast<uintptr_t>(slot.data()) % alignof(float), 0u);
  return absl::MakeSpan(reinterpret_cast<float*>(slot.data() + kDescriptorBytes),
                        Values(tokens, hidden_size));
}

size_t EncodeReply(uint64_t call_id, const absl::Status& status, int tokens, int hidden_size,
                   absl::Span<std::byte> slot) {
  NUMOE_CHECK_GE(slot.size(), kDescriptorBytes);
  const size_t text = status.ok() ? 0 : std::min(status.message().size(), slot.size() - kDescriptorBytes);
  const ReplyDescriptor d{call_id, static_cast<int32_t>(status.code()), status.ok() ? tokens : 0,
                          static_cast<uint32_t>(text)};
  std::memcpy(slot.data(), &d, sizeof d);
  NUMOE_CHECK(!status.ok() || ReplyBytes(tokens, hidden_size) <= slot.size());
  if (status.ok()) return ReplyBytes(tokens, hidden_size);
  std::memcpy(slot.data() + kDescriptorBytes, status.message().data(), text);
  return kDescriptorBytes + text;
}

absl::StatusOr<absl::Span<const float>> DecodeReply(absl::Span<const std::byte> message, uint64_t call_id,
                                                    size_t values) {
  if (message.size() < kDescriptorBytes)
    return absl::InvalidArgumentError(
        fmt::format("reply of {} bytes, expected at least {}", message.size(), kDescriptorBytes));
  ReplyDescriptor d;
  std::memcpy(&d, message.data(), sizeof d);
  if (d.call_id != call_id)
    return absl::InvalidArgumentError(fmt::format("reply to call {}, expected {}", d.call_id, call_id));
  if (d.status_code != 0) {
    if (d.text_bytes > message.size() - kDescriptorBytes)
      return absl::InvalidArgumentError("reply with an error text beyond its end");
    const std::string text(reinterpret_cast<const char*>(message.data()) + kDescriptorBytes,
                           std::min<size_t>(d.text_bytes, limits::kPeerTextBytesMax));
    return absl::InternalError(fmt::format("the worker refused the call (code {}): {}", d.status_code, text));
  }
  if (message.size() != kDescriptorBytes + values * sizeof(float)) {
    return absl::InvalidArgumentError(fmt::format("reply of {} bytes, expected {}", message.size(),
                                                  kDescriptorBytes + values * sizeof(float)));
  }
  return absl::MakeConstSpan(reinterpret_cast<const float*>(message.data() + kDescriptorBytes), values);
}

}  // namespace numoe
