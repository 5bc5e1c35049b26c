// The first bytes of the messages in a mailbox slot, as plain structs that device code can include, too.
//
// A request is a RequestDescriptor in the first kDescriptorBytes, then hidden [tokens, hidden_size] fp32,
// expert ids int32 [tokens, experts_per_token] (kNoExpert is an entry that no worker computes) and weights
// fp32 of the same shape. A reply is a ReplyDescriptor, then partial sums [tokens, hidden_size] fp32, or an
// error text. A request with deferred experts has two replies, in two mailboxes (CONTRACT.md). Numbers are in
// host order, because both ends are on one host. call_codec.h encodes and checks these bytes. A device that
// drives the mailbox itself (coordinator/execution/device/cuda) writes them, too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

inline constexpr size_t kDescriptorBytes = 64;
inline constexpr uint32_t kBatchInvariantFlag = 1;

struct RequestDescriptor {
  uint64_t call_id;
  uint64_t instance;  // of the worker for which the call is, from its handshake
  int32_t layer;
  int32_t tokens;
  int32_t experts_per_token;
  uint32_t flags;
  int32_t deferred_experts;  // the last experts of every token, which have a reply of their own
};
struct ReplyDescriptor {
  uint64_t call_id;
  int32_t status_code;  // 0 means that partial sums follow
  int32_t tokens;
  uint32_t text_bytes;
};
// The device writes and reads these structs, too, so every compiler must lay them out in the same way.
static_assert(offsetof(RequestDescriptor, layer) == 16 &&
              offsetof(RequestDescriptor, deferred_experts) == 32);
static_assert(offsetof(ReplyDescriptor, status_code) == 8 && offsetof(ReplyDescriptor, text_bytes) == 16);
static_assert(sizeof(RequestDescriptor) <= kDescriptorBytes && sizeof(ReplyDescriptor) <= kDescriptorBytes);

}  // namespace numoe
