#include "coordinator/execution/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cuda/captured_step.h"
#include "coordinator/execution/device/cuda/eager_step.h"
#include "coordinator/execution/device/cuda/fetched_step.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kGraphRowsMax = 256;  // a step of more rows is bound by its arithmetic, not by its launches

// Counts the tokens of sequences that have more than one token in the step.
int PromptTokens(const StepLayout& layout) {
  int prompt = 0;
  const std::vector<int32_t>& sequences = layout.sequences;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool before = i > 0 && sequences[i - 1] == sequences[i];
    const bool after = i + 1 < sequences.size() && sequences[i + 1] == sequences[i];
    prompt += before || after ? 1 : 0;
  }
  return prompt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const StepBounds& bounds,
                                                               std::unique_ptr<Runtime> runtime) {
  ASSIGN_OR_RETURN(const Stream stream, runtime->NewStream());
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice(bounds, std::move(runtime), stream));
  Runtime& owned = *device->runtime_;
  ASSIGN_OR_RETURN(auto buffers, StepBuffers::Create(bounds, owned));
  device->buffers_ = std::make_unique<StepBuffers>(std::move(buffers));
  ASSIGN_OR_RETURN(device->direct_, DirectExchange::Create(owned, stream));
  ASSIGN_OR_RETURN(device->staged_, StagedExchange::Create(bounds.rows, owned, stream));
  return device;
}

CudaDevice::CudaDevice(const StepBounds& bounds, std::unique_ptr<Runtime> runtime, Stream stream)
    : runtime_(std::move(runtime)),
      stream_(stream),
      store_(bounds, runtime_->facts(), runtime_.get(), stream) {}

absl::Status CudaDevice::ReserveKvCache(const KvCacheSize& size) {
  RETURN_IF_ERROR(store_.ReserveKvCache(size));
  ASSIGN_OR_RETURN(kernels_, ChooseAttention(store_.attended(), size.type, store_.facts()));
  ASSIGN_OR_RETURN(sampling_, SamplingTables::Create(store_.sampling(), *runtime_));
  ASSIGN_OR_RETURN(logits_, LogitReader::Create(store_, *sampling_, *runtime_, stream_));
  return runtime_->Synchronize(stream_);
}

absl::StatusOr<ExpertSlots*> CudaDevice::ReserveExperts(const ExpertSlotSpec& spec) {
  store_.CountExperts(spec);
  ASSIGN_OR_RETURN(products_, ExpertProducts::Create(spec, store_.bounds().rows, *runtime_, stream_));
  if (spec.window > 0) {
    ASSIGN_OR_RETURN(windows_, ExpertWindows::Create(spec, *runtime_, stream_));
  }
  if (spec.slots == 0) return nullptr;
  ASSIGN_OR_RETURN(hot_, CudaExperts::Create(spec, *runtime_, stream_));
  return hot_.get();
}

void CudaDevice::ConnectExperts(ExpertBackend& experts) {
  direct_experts_ = experts.direct();
  staged_->Connect(experts);
  direct_->Connect(direct_experts_);
}

absl::Status CudaDevice::FetchExperts(int prompt_tokens_min) {
  NUMOE_CHECK(windows_ != nullptr) << "ReserveExperts reserved no windows";
  NUMOE_CHECK_GT(prompt_tokens_min, 0);
  if (direct_experts_ == nullptr)
    return absl::UnavailableError("this process cannot map the memory that contains the experts");
  fetch_tokens_min_ = prompt_tokens_min;
  return windows_->Adopt(*direct_experts_);
}

bool CudaDevice::MayBeGraph(const StepLayout& layout, const StepBucket& bucket) const {
  if (!direct_->possible() || bucket.rows > std::min(kGraphRowsMax, store_.bounds().rows)) return false;
  if (layout.logit_rows.size() != layout.tokens.size()) return false;
  return std::all_of(store_.tensors().begin(), store_.tensors().end(),
                     [&](const CudaStore::StoredTensor& tensor) { return bucket.rows <= tensor.rows; });
}

bool CudaDevice::Fetches(const StepLayout& layout) {
  if (windows_ == nullptr) return false;
  windows_->EndStep();  // the previous step may have ended without being waited for
  // Where an exact step's experts are computed must not depend on the batch.
  if (fetch_tokens_min_ == 0 || layout.exact || PromptTokens(layout) < fetch_tokens_min_) return false;
  return windows_->BeginStep(*direct_experts_, [&](LayerId layer, ExpertId expert) {
    return hot_ != nullptr && hot_->Holds(layer, expert);
  });
}

CudaParts CudaDevice::Parts() {
  return {.store = store_,
          .buffers = *buffers_,
          .runtime = *runtime_,
          .stream = stream_,
          .kernels = kernels_,
          .sampling = *sampling_,
          .logits = *logits_,
          .staged = *staged_,
          .direct = *direct_,
          .graphs = graphs_,
          .hot = hot_.get(),
          .products = products_.get(),
          .windows = windows_.get()};
}

std::unique_ptr<Step> CudaDevice::Begin(const StepLayout& layout) {
  NUMOE_CHECK(logits_ != nullptr) << "ReserveKvCache must be called before the first step";
  // If no logits of the previous step were needed, it was not waited for; its buffers are about to be
  // refilled.
  (void)runtime_->Synchronize(stream_);  // the error is kept for ReadLogits
  StepBucket bucket = BucketFor(layout, store_.bounds());
  const bool fetches = Fetches(layout);
  const bool graph = !fetches && MayBeGraph(layout, bucket);
  if (!graph) {
    bucket.rows = layout.rows();
    bucket.second_half = fetches ? 0 : layout.second_half;
  }
  StepFrame frame = PlanFrame(
      layout, bucket, [&](const PrefillRun& run) { return !graph && Prefills(store_, run); },
      store_.latent() ? CudaStore::kExpandedRows : 0);
  buffers_->Fill(layout, frame.split, bucket);
  buffers_->FillTasks(frame.passes);
  sampling_->Fill(layout, graph ? bucket.rows : frame.logit_rows);
  direct_->BeginStep();
  if (hot_ != nullptr) hot_->BeginStep();
  if (graph && graphs_.Find(bucket) != nullptr)
    return std::make_unique<ReplayedStep>(std::move(frame), Parts());
  if (graph && runtime_->BeginCapture(stream_).ok())
    return std::make_unique<RecordingStep>(std::move(frame), Parts());
  if (fetches) return std::make_unique<FetchedStep>(std::move(frame), Parts());
  return std::make_unique<EagerStep>(std::move(frame), Parts());
}

std::string CudaDevice::Describe() const {
  const DeviceFacts& facts = runtime_->facts();
  return fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB", facts.name,
                     facts.compute_major, facts.compute_minor, facts.multiprocessors,
                     static_cast<double>(facts.memory_bytes) / (1 << 30));
}

}  // namespace numoe::execution::cuda
