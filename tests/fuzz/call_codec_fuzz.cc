// Any bytes of a peer in a mailbox slot: a decoder accepts them only if everything that it returns is inside
// the slot and the model; otherwise its error is one line.
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/transport/call_codec.h"
#include "common/transport/transport_limits.h"

namespace numoe {
namespace {

constexpr CallShape kShape{.hidden_size = 4, .num_experts = 8};

// INTERNAL contains the worker's own message, which logs escape.
void CheckMessage(const absl::Status& status) {
  NUMOE_CHECK_LT(status.message().size(), 1100u);
  const bool one_line = std::string(status.message()).find('\n') == std::string::npos;
  NUMOE_CHECK(one_line || status.code() == absl::StatusCode::kInternal) << status.ToString();
}

void CheckRequest(absl::Span<const std::byte> slot) {
  DecodedCall call;
  if (const absl::Status status = DecodeRequest(slot, kShape, call); !status.ok())
    return CheckMessage(status);
  const LayerCallView& view = call.view;
  NUMOE_CHECK(view.tokens >= 1 && view.tokens <= limits::kCallTokensMax);
  NUMOE_CHECK(view.experts_per_token >= 1 && view.experts_per_token <= limits::kExpertsPerTokenMax);
  NUMOE_CHECK(view.deferred_experts >= 0 && view.deferred_experts < view.experts_per_token);
  NUMOE_CHECK(view.deferred_experts == 0 || view.tokens <= limits::kDeferringTokensMax);
  SplitCall split;
  split.Split(view);
  NUMOE_CHECK_EQ(
      split.part(ReplyPart::kImmediate).experts.size() + split.part(ReplyPart::kDeferred).experts.size(),
      view.experts.size());
  const auto entries = static_cast<size_t>(view.tokens) * static_cast<size_t>(view.experts_per_token);
  NUMOE_CHECK_EQ(view.hidden.size(), static_cast<size_t>(view.tokens) * kShape.hidden_size);
  NUMOE_CHECK(view.experts.size() == entries && view.weights.size() == entries);
  for (const ExpertId expert : view.experts)
    NUMOE_CHECK(expert == kNoExpert || (expert >= 0 && expert < kShape.num_experts));
  const auto* begin = reinterpret_cast<const std::byte*>(view.hidden.data());
  const auto* end = begin + view.hidden.size() * sizeof(float);
  NUMOE_CHECK(begin >= slot.data() && end <= slot.data() + slot.size());
}

void CheckReply(absl::Span<const std::byte> slot) {
  constexpr size_t kValues = 3 * kShape.hidden_size;
  const auto reply = DecodeReply(slot, 7, kValues);
  if (!reply.ok()) return CheckMessage(reply.status());
  NUMOE_CHECK_EQ(reply->size(), kValues);
  const auto* begin = reinterpret_cast<const std::byte*>(reply->data());
  NUMOE_CHECK(begin >= slot.data() && begin + kValues * sizeof(float) <= slot.data() + slot.size());
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Slots in a segment are aligned to 64 bytes; one that is not must also be refused or read correctly.
  std::vector<std::byte> storage(size + 64);
  auto* aligned = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64) % 64;
  if (size > 0) std::memcpy(aligned, data, size);
  numoe::CheckRequest({aligned, size});
  numoe::CheckReply({aligned, size});
  return 0;
}
