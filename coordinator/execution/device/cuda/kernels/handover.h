// A layer's routed work from the device to the expert workers on this host, and their sums back, without the
// host's help: the mailboxes of common/transport/CONTRACT.md, driven by kernels.
//
//   SendCalls     writes hidden states and routing into every worker's request slot, then publishes
//   AwaitReplies  one thread a worker spins on the reply's counter; the host's release word frees it
//   AddReplies    residual += the workers' sums, in the order of the ports
//
// A call with deferred experts (coordinator/execution/transport/expert_backend.h) is awaited and added twice;
// its second reply has a mailbox of its own.
//
// What changes from step to step - pointers, counters, rows - lies in a HandoverStep in device memory, so the
// three can be part of a graph that is replayed; a graph's own flag waits could not, because their values are
// fixed. A call is named by its number in the step. The first thing that goes wrong is noted in HandoverFault
// (host memory): from then on nothing is sent, awaited or added, the step runs to its end and its results are
// void. Slots are host memory: 16-byte accesses over PCIe, each byte crosses once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe::execution::cuda {

inline constexpr int kPortsMax = 16;  // workers on one host

/// One worker's mailboxes, at addresses of the device (DirectPort of
/// coordinator/execution/transport/direct_experts.h).
struct HandoverPort {
  uint64_t instance = 0;  // that a call repeats
  std::byte* request = nullptr;
  uint32_t* request_published = nullptr;
  uint64_t* request_length = nullptr;
  const std::byte* reply = nullptr;
  const uint32_t* reply_published = nullptr;
  const std::byte* deferred_reply = nullptr;
  const uint32_t* deferred_published = nullptr;
  uint32_t requests = 0;  // published and ...
  uint32_t replies = 0;   // ... received before this step
  uint32_t deferred = 0;  // the same of deferred replies
};

struct HandoverStep {
  uint64_t first_call_id = 0;
  int32_t rows = 0;    // tokens of the step, without the bucket's padding
  uint32_t flags = 0;  // of RequestDescriptor
  int32_t ports = 0;
  int32_t unused = 0;
  HandoverPort port[kPortsMax];
};

enum class FaultKind : uint32_t { kNone = 0, kReleased, kOtherCall, kRefused };
struct HandoverFault {
  uint32_t kind = 0;  // FaultKind; written last
  uint32_t port = 0;
  uint32_t call = 0;
  uint32_t status = 0;  // kRefused: the worker's status code
};

struct SendCallsArgs {
  const HandoverStep* step = nullptr;
  HandoverFault* fault = nullptr;
  uint32_t* blocks_done = nullptr;   // [kPortsMax] zero between launches
  const Bf16* hidden = nullptr;      // [rows_max, hidden_size]
  const int32_t* experts = nullptr;  // [rows_max, experts_per_token]; kNoExpert is allowed
  const float* weights = nullptr;    // [rows_max, experts_per_token]
  int hidden_size = 0;               // a multiple of 8
  int experts_per_token = 0;
  int deferred_experts = 0;  // the last places of every row
  int rows_max = 0;
  int ports_max = 0;
  int layer = 0;
  int call = 0;
};
void LaunchSendCalls(const SendCallsArgs& args, Stream stream);

struct AwaitRepliesArgs {
  const HandoverStep* step = nullptr;
  HandoverFault* fault = nullptr;
  const uint32_t* release = nullptr;  // host memory: 1 frees whoever waits
  int call = 0;
  int reply = 0;  // which of the step's in its mailbox
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
