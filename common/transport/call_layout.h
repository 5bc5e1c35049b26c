// The bytes at the head of a mailbox slot's messages, as plain structs that device code can include too.
//
// A request is a RequestDescriptor in the first kDescriptorBytes, then hidden [tokens, hidden_size] fp32,
// expert ids int32 [tokens, experts_per_token] (kNoExpert: a place that no worker computes) and weights fp32
// of the same shape; a reply is a ReplyDescriptor, then partial sums [tokens, hidden_size] fp32, or an error
// text. A request with deferred experts has two replies, in two mailboxes (CONTRACT.md). Numbers are in host
// order: both ends are on one host. Encoded and checked in call_codec.h, and written by a device that drives
// the mailbox itself (coordinator/execution/device/cuda).
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe {

inline constexpr size_t kDescriptorBytes = 64;
inline constexpr uint32_t kExactFlag = 1;

struct RequestDescriptor {
  uint64_t call_id;
  uint64_t instance;  // of the worker that the call is for, as its handshake said
  int32_t layer;
  int32_t tokens;
  int32_t experts_per_token;
  uint32_t flags;
  int32_t deferred_experts;  // the last places of every token, answered by themselves
};
struct ReplyDescriptor {
  uint64_t call_id;
  int32_t status_code;  // 0: partial sums follow
  int32_t tokens;
  uint32_t text_bytes;
};
// The device writes and reads them, too: no compiler may lay them out in another way.
static_assert(offsetof(RequestDescriptor, layer) == 16 &&
              offsetof(RequestDescriptor, deferred_experts) == 32);
static_assert(offsetof(ReplyDescriptor, status_code) == 8 && offsetof(ReplyDescriptor, text_bytes) == 16);
static_assert(sizeof(RequestDescriptor) <= kDescriptorBytes && sizeof(ReplyDescriptor) <= kDescriptorBytes);

}  // namespace numoe
