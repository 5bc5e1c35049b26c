// Measures only the layer calls from the device to a worker's process and back, as in a captured step.
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/direct_exchange.h"
#include "coordinator/execution/transport/expert_fan_out.h"

namespace numoe::clients {
namespace {

constexpr int64_t kPatienceMs = 60'000;

absl::Status BenchRows(BenchContext& context, const HandoverSizes& sizes, execution::ExpertFanOut& workers,
                       int rows) {
  NUMOE_CHECK(rows > 0 && sizes.layers > 0);
  execution::cuda::Runtime& runtime = context.runtime();
  const execution::cuda::Stream stream = context.stream();
  ASSIGN_OR_RETURN(const auto exchange, execution::cuda::DirectExchange::Create(runtime, stream));
  exchange->Connect(workers.direct());
  const auto values = static_cast<size_t>(rows) * static_cast<size_t>(sizes.hidden);
  const auto entries = static_cast<size_t>(rows) * static_cast<size_t>(sizes.experts_per_token);
  std::vector<ExpertId> chosen(entries);
  for (size_t i = 0; i < entries; ++i) chosen[i] = static_cast<ExpertId>(i) % sizes.experts_per_token;
  ASSIGN_OR_RETURN(const auto hidden, context.Random(values * sizeof(execution::cuda::Bf16)));
  ASSIGN_OR_RETURN(const auto residual, context.Zeros(values * sizeof(float)));
  ASSIGN_OR_RETURN(const auto experts, context.Upload(chosen));
  ASSIGN_OR_RETURN(const auto weights, context.Upload(std::vector<float>(entries, 0.125f)));
  ASSIGN_OR_RETURN(const auto host_step, runtime.AllocateHost(sizeof(execution::cuda::HandoverStep)));
  ASSIGN_OR_RETURN(const auto device_step, runtime.Allocate(sizeof(execution::cuda::HandoverStep)));
  auto& step = *new (host_step->host()) execution::cuda::HandoverStep;
  execution::cuda::RoutedCall call{.rows = rows,
                                   .tokens = rows,
                                   .hidden_size = sizes.hidden,
                                   .experts_per_token = sizes.experts_per_token,
                                   .hidden = As<execution::cuda::Bf16>(hidden),
                                   .experts = As<ExpertId>(experts),
                                   .weights = As<float>(weights)};
  RETURN_IF_ERROR(runtime.Synchronize(stream));
  RETURN_IF_ERROR(runtime.BeginCapture(stream));
  for (call.layer = 0; call.layer < sizes.layers; ++call.layer) {
    exchange->EnqueueSend(call, As<execution::cuda::HandoverStep>(device_step));
    exchange->EnqueueAdd(ReplyPart::kImmediate, As<float>(residual), rows, sizes.hidden,
                         As<execution::cuda::HandoverStep>(device_step));
    exchange->NextReply(ReplyPart::kImmediate);
  }
  ASSIGN_OR_RETURN(const auto graph, runtime.EndCapture(stream));
  absl::Status opened;
  const auto close = [&](bool ran) {
    for (int layer = 0; ran && layer < sizes.layers; ++layer) exchange->NextReply(ReplyPart::kImmediate);
    const absl::Status closed = exchange->Close(runtime.Synchronize(stream), ran);
    if (opened.ok()) opened = closed;
  };
  // Every repetition is one step, and the step before is closed first.
  bool open = false;
  const auto begin = [&](int) {
    if (open) close(/*ran=*/true);
    exchange->BeginStep();
    step.rows = rows;
    const absl::Status status = exchange->Open(/*exact=*/false, {&step, 1});
    if (opened.ok()) opened = status;
    open = status.ok();
    runtime.Copy(device_step->device(), &step, sizeof step, stream);
  };
  const absl::StatusOr<double> seconds = context.Seconds(
      [&](int) {
        if (open) runtime.Launch(*graph, stream);
      },
      begin);
  if (open) close(/*ran=*/true);
  RETURN_IF_ERROR(opened);
  RETURN_IF_ERROR(seconds.status());
  context.Report({{"op", "handover_layer"}, {"rows", rows}, {"layers", sizes.layers}},
                 *seconds / sizes.layers, 0, 0);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchHandover(BenchContext& context, BenchWorker& worker, const HandoverSizes& sizes) {
  NUMOE_CHECK_EQ(sizes.hidden, worker.options().hidden);
  NUMOE_CHECK_LE(sizes.experts_per_token, worker.options().experts) << "the worker has every selected expert";
  worker.SetComputing(false);
  Metrics metrics(MetricOwner::kCoordinator);
  ASSIGN_OR_RETURN(const auto workers,
                   execution::ExpertFanOut::Connect({.addresses = {worker.address()},
                                                     .link = {.data_path = execution::DataPath::kSharedMemory,
                                                              .hidden_size = sizes.hidden,
                                                              .num_experts = worker.options().experts,
                                                              .call_deadline_ms = kPatienceMs},
                                                     .start_deadline_ms = kPatienceMs},
                                                    metrics));
  for (const int rows : sizes.rows) RETURN_IF_ERROR(BenchRows(context, sizes, *workers, rows));
  return absl::OkStatus();
}

}  // namespace numoe::clients
