// Sends a layer's routed work from the device to the expert workers on this host and receives their sums,
// without the host: kernels use the mailboxes of common/transport/CONTRACT.md.
//
//   SendCalls     writes hidden states and routing into every worker's request slot, then publishes
//   AwaitReplies  one thread per worker spins on the reply's counter; the host's release word ends the wait
//   AddReplies    residual += the workers' sums, in the order of the endpoints
//
// A call with deferred experts (coordinator/execution/transport/expert_backend.h) is awaited and added twice;
// its second reply has a separate mailbox.
//
// All data that changes from step to step (pointers, counters, rows) is in a HandoverStep in device memory,
// so the three kernels can be part of a graph that is replayed. Waits of the graph itself could not be used,
// because their values are fixed. A call is identified by its number in the step. The first fault is recorded
// in HandoverFault (host memory): afterwards nothing is sent, awaited or added, the step runs to its end, and
// its results are invalid. Slots are host memory, accessed with 16 bytes at a time over PCIe; each byte is
// transferred once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kEndpointsMax = 16;  // workers on one host

/// The device's addresses of one worker's mailboxes; MailboxEndpoint
/// (coordinator/execution/transport/direct_experts.h) has the host's.
struct DeviceMailboxEndpoint {
  uint64_t instance = 0;  // of the worker process; every call contains it
  std::byte* request = nullptr;
  uint32_t* request_published = nullptr;
  uint64_t* request_length = nullptr;
  const std::byte* reply = nullptr;
  const uint32_t* reply_published = nullptr;
  const std::byte* deferred_reply = nullptr;
  const uint32_t* deferred_published = nullptr;
  uint32_t requests = 0;  // requests that were published before this step
  uint32_t replies = 0;   // replies that were received before this step
  uint32_t deferred = 0;  // deferred replies that were received before this step
};

struct HandoverStep {
  uint64_t first_call_id = 0;
  int32_t rows = 0;    // tokens of the step, without the bucket's padding
  uint32_t flags = 0;  // flags of RequestDescriptor
  int32_t endpoint_count = 0;
  int32_t unused = 0;
  DeviceMailboxEndpoint endpoints[kEndpointsMax];
};

enum class FaultKind : uint32_t { kNone = 0, kReleased, kOtherCall, kRefused };
struct HandoverFault {
  uint32_t kind = 0;  // FaultKind; written last
  uint32_t endpoint = 0;
  uint32_t call = 0;
  uint32_t status = 0;  // kRefused: the worker's status code
};

struct SendCallsArgs {
  const HandoverStep* step = nullptr;
  HandoverFault* fault = nullptr;
  uint32_t* blocks_done = nullptr;   // [kEndpointsMax], zero between launches
  const Bf16* hidden = nullptr;      // [rows_max, hidden_size]
  const int32_t* experts = nullptr;  // [rows_max, experts_per_token]; kNoExpert is allowed
  const float* weights = nullptr;    // [rows_max, experts_per_token]
  int hidden_size = 0;               // a multiple of 8
  int experts_per_token = 0;
  int deferred_experts = 0;  // the last selected experts of every row
  int rows_max = 0;
  int endpoints_max = 0;
  int layer = 0;
  int call = 0;
};
void LaunchSendCalls(const SendCallsArgs& args, Stream stream);

struct AwaitRepliesArgs {
  const HandoverStep* step = nullptr;
  HandoverFault* fault = nullptr;
  const uint32_t* release = nullptr;  // host memory; 1 ends all waits
  int call = 0;
  int reply = 0;  // number of the reply in this step, counted per mailbox
  bool deferred = false;
};
void LaunchAwaitReplies(const AwaitRepliesArgs& args, Stream stream);

struct AddRepliesArgs {
  const HandoverStep* step = nullptr;
  const HandoverFault* fault = nullptr;
  float* residual = nullptr;  // [rows_max, hidden_size]
  int hidden_size = 0;        // a multiple of 4
  int rows_max = 0;
  bool deferred = false;
};
void LaunchAddReplies(const AddRepliesArgs& args, Stream stream);

}  // namespace numoe::execution::cuda
