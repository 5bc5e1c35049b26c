#include "common/transport/call_layout.h"
#include "coordinator/execution/device/cuda/kernels/handover.h"
#include "coordinator/execution/device/cuda/words.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ bool Failed(const HandoverFault* fault) {
  return LoadVolatile(&fault->kind) != static_cast<uint32_t>(FaultKind::kNone);
}

// Returns the same for all threads of a block. Only one thread reads the word, because it is on the other
// side of PCIe.
__device__ __forceinline__ bool BlockFailed(const HandoverFault* fault) {
  return __syncthreads_or(threadIdx.x == 0 && Failed(fault) ? 1 : 0) != 0;
}

__device__ __forceinline__ void Note(HandoverFault* fault, FaultKind kind, uint32_t endpoint, uint32_t call,
                                     uint32_t status) {
  fault->endpoint = endpoint;
  fault->call = call;
  fault->status = status;
  StoreReleaseSystem(&fault->kind, static_cast<uint32_t>(kind));
}

// Writes a block's share of one worker's request: hidden states widened to fp32, then ids and weights.
__device__ __forceinline__ void WriteRequest(const SendCallsArgs& args, const HandoverStep& step,
                                             std::byte* slot) {
  const int rows = step.rows;
  const int thread = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x) * kThreads;
  auto* hidden = reinterpret_cast<float4*>(slot + kDescriptorBytes);
  const int quads = rows * args.hidden_size / 4;
  for (int i = thread; i < quads; i += threads) {
    const uint2 pairs = reinterpret_cast<const uint2*>(args.hidden)[i];
    const float2 low = UnpackBf16(pairs.x), high = UnpackBf16(pairs.y);
    hidden[i] = make_float4(low.x, low.y, high.x, high.y);
  }
  const int entries = rows * args.experts_per_token;
  auto* ids = reinterpret_cast<int32_t*>(hidden + quads);
  auto* weights = reinterpret_cast<float*>(ids + entries);
  for (int i = thread; i < entries; i += threads) {
    ids[i] = args.experts[i];
    weights[i] = args.weights[i];
  }
}

// The grid is [blocks, endpoints]. The last block of an endpoint to finish publishes the request, because it
// sees all that the others wrote.
__global__ void __launch_bounds__(kThreads) SendCalls(SendCallsArgs args) {
  const HandoverStep& step = *args.step;
  const int index = static_cast<int>(blockIdx.y);
  if (index >= step.endpoint_count || BlockFailed(args.fault)) return;
  const DeviceMailboxEndpoint& endpoint = step.endpoints[index];
  WriteRequest(args, step, endpoint.request);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (atomicAdd(&args.blocks_done[index], 1u) + 1 != gridDim.x) return;
  args.blocks_done[index] = 0;
  *reinterpret_cast<RequestDescriptor*>(endpoint.request) = {
      step.first_call_id + static_cast<uint64_t>(args.call),
      endpoint.instance,
      args.layer,
      step.rows,
      args.experts_per_token,
      step.flags,
      args.deferred_experts};
  const uint64_t values = static_cast<uint64_t>(step.rows) * static_cast<uint64_t>(args.hidden_size);
  const uint64_t entries = static_cast<uint64_t>(step.rows) * static_cast<uint64_t>(args.experts_per_token);
  *endpoint.request_length = kDescriptorBytes + 4 * values + 8 * entries;
  __threadfence_system();
  StoreReleaseSystem(endpoint.request_published, endpoint.requests + static_cast<uint32_t>(args.call) + 1);
}

// Waits for one endpoint's reply to the call. Returns what is wrong with it, or kNone.
__device__ __forceinline__ FaultKind AwaitReply(const AwaitRepliesArgs& args,
                                                const DeviceMailboxEndpoint& endpoint, uint64_t call_id,
                                                uint32_t& status) {
  const uint32_t* const published = args.deferred ? endpoint.deferred_published : endpoint.reply_published;
  const uint32_t before = args.deferred ? endpoint.deferred : endpoint.replies;
  while (LoadAcquireSystem(published) != before + static_cast<uint32_t>(args.reply) + 1) {
    if (LoadVolatile(args.release) != 0) return FaultKind::kReleased;
    __nanosleep(200);  // a poll over PCIe takes about a microsecond, so polling more often is useless
  }
  const std::byte* const slot = args.deferred ? endpoint.deferred_reply : endpoint.reply;
  const auto& reply = *reinterpret_cast<const volatile ReplyDescriptor*>(slot);
  if (reply.call_id != call_id) return FaultKind::kOtherCall;
  status = static_cast<uint32_t>(reply.status_code);
  return status != 0 ? FaultKind::kRefused : FaultKind::kNone;
}

// There is one lane per endpoint. A reply has arrived when its counter has the value for this call. The first
// lane that finds a fault records it.
__global__ void AwaitReplies(AwaitRepliesArgs args) {
  const HandoverStep& step = *args.step;
  const auto lane = static_cast<uint32_t>(threadIdx.x);
  const bool waits = static_cast<int>(lane) < step.endpoint_count && !Failed(args.fault);
  uint32_t status = 0;
  const FaultKind kind = waits ? AwaitReply(args, step.endpoints[lane],
                                            step.first_call_id + static_cast<uint64_t>(args.call), status)
                               : FaultKind::kNone;
  const unsigned failing = __ballot_sync(~0u, kind != FaultKind::kNone);
  if (failing != 0 && (failing & (0u - failing)) == 1u << lane)
    Note(args.fault, kind, lane, static_cast<uint32_t>(args.call), status);
}

__global__ void __launch_bounds__(kThreads) AddReplies(AddRepliesArgs args) {
  const HandoverStep& step = *args.step;
  if (BlockFailed(args.fault)) return;
  const int quads = step.rows * args.hidden_size / 4;
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= quads) return;
  auto* residual = reinterpret_cast<float4*>(args.residual);
  float4 sum = residual[i];
  for (int p = 0; p < step.endpoint_count; ++p) {
    const std::byte* const reply = args.deferred ? step.endpoints[p].deferred_reply : step.endpoints[p].reply;
    const auto* partial = reinterpret_cast<const float4*>(reply + kDescriptorBytes);
    const float4 part = partial[i];
    sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
  }
  residual[i] = sum;
}

}  // namespace

void LaunchSendCalls(const SendCallsArgs& args, Stream stream) {
  // 16 KiB of reads per block: enough blocks to fill the link, few enough that counting them costs little.
  const int blocks = std::max(1, std::min(64, args.rows_max * args.hidden_size / 8192));
  const LaunchShape shape{
      .blocks = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(args.endpoints_max)),
      .threads = dim3(kThreads)};
  NUMOE_LAUNCH((SendCalls), shape, stream, args);
}

void LaunchAwaitReplies(const AwaitRepliesArgs& args, Stream stream) {
  NUMOE_LAUNCH((AwaitReplies), LaunchShape{.threads = dim3(32)}, stream, args);
}

void LaunchAddReplies(const AddRepliesArgs& args, Stream stream) {
  const int blocks = (args.rows_max * args.hidden_size / 4 + kThreads - 1) / kThreads;
  NUMOE_LAUNCH((AddReplies),
               LaunchShape{.blocks = dim3(static_cast<unsigned>(blocks)), .threads = dim3(kThreads)}, stream,
               args);
}

}  // namespace numoe::execution::cuda
