#include "coordinator/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::cuda {
namespace {

constexpr int kGraphRowsMax = 256;  // a step of more rows is bound by its arithmetic, not by its launches

// Tokens of sequences that have more than one in the step.
int PromptTokens(const StepLayout& layout) {
  int prompt = 0;
  const std::vector<int32_t>& sequences = layout.sequences;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool before = i > 0 && sequences[i - 1] == sequences[i];
    const bool behind = i + 1 < sequences.size() && sequences[i + 1] == sequences[i];
    prompt += before || behind ? 1 : 0;
  }
  return prompt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const StepBounds& bounds,
                                                               std::unique_ptr<Runtime> runtime) {
  ASSIGN_OR_RETURN(const Stream stream, runtime->NewStream());
  const DeviceFacts facts = runtime->facts();
  auto device = std::unique_ptr<CudaDevice>(new CudaDevice(bounds, facts, std::move(runtime), stream));
  Runtime& owned = *device->runtime_;
  ASSIGN_OR_RETURN(auto buffers, StepBuffers::Create(bounds, owned));
  device->buffers_ = std::make_unique<StepBuffers>(std::move(buffers));
  ASSIGN_OR_RETURN(device->exchange_, ExpertExchange::Create(bounds.rows, owned, stream));
  return device;
}

CudaDevice::CudaDevice(const StepBounds& bounds, const DeviceFacts& facts, std::unique_ptr<Runtime> runtime,
                       Stream stream)
    : CudaStorage(bounds, facts, std::move(runtime), stream) {}

absl::Status CudaDevice::ReserveKvCache(const KvCacheSpec& spec) {
  RETURN_IF_ERROR(CudaStorage::ReserveKvCache(spec));
  RETURN_IF_ERROR(ChooseAttention(spec));
  size_t logit_values = 0;
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.use == TensorUse::kLogits)
      logit_values =
          std::max(logit_values, static_cast<size_t>(tensor.rows) * static_cast<size_t>(tensor.cols));
  }
  ASSIGN_OR_RETURN(sampling_tables_, SamplingTables::Create(sampling_, *runtime_));
  ASSIGN_OR_RETURN(host_logits_, runtime_->AllocateHost(std::max<size_t>(logit_values * sizeof(float), 1)));
  return runtime_->Synchronize(stream_);
}

absl::StatusOr<ExpertSlots*> CudaDevice::ReserveExperts(const ExpertSlotSpec& spec) {
  RETURN_IF_ERROR(CudaStorage::ReserveExperts(spec).status());
  ASSIGN_OR_RETURN(products_, ExpertProducts::Create(spec, bounds_.rows, *runtime_, stream_));
  if (spec.window > 0) {
    ASSIGN_OR_RETURN(windows_, ExpertWindows::Create(spec, *runtime_, stream_));
  }
  if (spec.slots == 0) return nullptr;
  ASSIGN_OR_RETURN(experts_, CudaExperts::Create(spec, *runtime_, stream_));
  return experts_.get();
}

absl::Status CudaDevice::FetchExperts(ExpertBackend& experts, int prompt_tokens_min) {
  NUMOE_CHECK(windows_ != nullptr) << "no windows were reserved";
  fetch_from_ = &experts;
  fetch_tokens_min_ = prompt_tokens_min;
  return windows_->Adopt(experts);
}

absl::Status CudaDevice::ChooseAttention(const KvCacheSpec& spec) {
  const CacheRow& row = spec.row;
  const bool fp8 = spec.type == CacheType::kFp8;
  if (latent()) {
    const LatentWidths widths{row.key_width - row.plain_width, row.plain_width};
    latent_kernel_ = PlanLatentKernel(widths, fp8, facts_.shared_bytes_max);
    if (latent_kernel_.heads > 0) return absl::OkStatus();
  } else {
    grouped_blocks_ = row.key_width == row.value_width
                          ? GroupedBlocksPerMultiprocessor(row.key_width, fp8, facts_.shared_bytes_max)
                          : 0;
    if (grouped_blocks_ > 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("attention with keys {} and values {} wide has no kernel on {}; serve it with --device=cpu",
                  row.key_width, row.value_width, facts_.name));
}

// --- the life of a step ------------------------------------------------------------------------------------

bool CudaDevice::MayBeGraph(const StepLayout& layout, const StepBucket& bucket) const {
  if (!exchange_->direct() || bucket.rows > std::min(kGraphRowsMax, bounds_.rows)) return false;
  if (layout.logit_rows.size() != layout.tokens.size()) return false;
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [&](const StoredTensor& tensor) { return bucket.rows <= tensor.rows; });
}

bool CudaDevice::Fetches(const StepLayout& layout) {
  if (windows_ == nullptr || fetch_from_ == nullptr) return false;
  windows_->EndStep();
  // Which way a step goes depends on the batch.
  if (layout.exact || PromptTokens(layout) < fetch_tokens_min_) return false;
  return windows_->BeginStep(*fetch_from_, [&](LayerId layer, ExpertId expert) {
    return experts_ != nullptr && experts_->Holds(layer, expert);
  });
}

void CudaDevice::BeginStep(const StepLayout& layout) {
  // The step before may have wanted no logits, so that nobody waited for it; its buffers are filled anew now.
  (void)runtime_->Synchronize(stream_);  // the error is kept for ReadLogits
  logit_rows_ = static_cast<int>(layout.logit_rows.size());
  bucket_ = BucketFor(layout, bounds_);
  fetches_ = Fetches(layout);
  const bool graph = !fetches_ && MayBeGraph(layout, bucket_);
  if (!graph) {
    bucket_.rows = layout.rows();
    bucket_.second_half = fetches_ ? 0 : layout.second_half;
  }
  launched_ = false;
  PlanRows(layout, graph);
  UseRows(StepSpan::kAll);
  sampling_tables_->Fill(layout, graph ? bucket_.rows : logit_rows_);
  drawn_ = {};
  exchange_->BeginStep();
  if (experts_ != nullptr) experts_->BeginStep();
  mode_ = !graph ? Mode::kEager : graphs_.Find(bucket_) != nullptr ? Mode::kReplaying : Mode::kCapturing;
  if (mode_ == Mode::kCapturing && !runtime_->BeginCapture(stream_).ok()) mode_ = Mode::kEager;
  if (mode_ == Mode::kEager) UploadTables();
  if (!Enqueues()) return;
  PlanTurns();
  if (PlansPiecesOnce()) PlanPieces(ShapeOf(rows_), 0);
}

// Which rows are where, and how they attend. A row's kernel is that of its whole run also where the run is
// cut, so no bit hangs on the cut.
void CudaDevice::PlanRows(const StepLayout& layout, bool graph) {
  const bool halves = bucket_.second_half > 0;
  const int second = bucket_.second_half, cut = layout.second_half;
  step_ = {};
  step_[0] = {.rows = bucket_.rows, .tokens = layout.rows()};
  if (halves) {
    step_[1] = {.rows = second, .tokens = cut};
    step_[2] = {.first = second, .rows = bucket_.rows - second, .tokens = layout.rows() - cut};
  }
  const AttendSplit split = SplitStep(layout, [&](const PrefillRun& run) { return !graph && Prefills(run); });
  passes_.clear();
  for (size_t part = halves ? 1 : 0; part < (halves ? step_.size() : 1); ++part) {
    const RowRange range = halves ? RangeOf(layout, static_cast<StepSpan>(part)) : RowRange{0, layout.rows()};
    UsedRows& used = step_[part];
    const auto positions = absl::MakeConstSpan(split.decode_positions)
                               .subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.rows()));
    used.decode_rows = static_cast<int>(
        std::count_if(positions.begin(), positions.end(), [](int32_t position) { return position >= 0; }));
    used.pass_begin = passes_.size();
    std::vector<PrefillPass> passes = PlanPrefill(RunsIn(split.runs, range), latent() ? kExpandedRows : 0);
    std::move(passes.begin(), passes.end(), std::back_inserter(passes_));
    used.pass_end = passes_.size();
  }
  buffers_->Fill(layout, split, bucket_);
  buffers_->FillTasks(passes_);
}

void CudaDevice::UseRows(StepSpan rows) {
  NUMOE_CHECK(rows == StepSpan::kAll || Way() == StepWay::kHalves) << "the step is not cut";
  used_ = rows;
  rows_ = used().rows;
}

void CudaDevice::UploadTables() {
  buffers_->Upload(*runtime_, stream_);
  sampling_tables_->Upload(*runtime_, stream_);
}

void CudaDevice::LaunchStep() {
  if (mode_ == Mode::kEager || launched_) return;
  UploadTables();
  Graph* const graph = graphs_.Find(bucket_);
  NUMOE_CHECK(graph != nullptr);
  runtime_->Launch(*graph, stream_);
  launched_ = true;
}

// Hot experts are sorted out first, so that the workers get the rest at once, and are computed while those
// are out.
void CudaDevice::StageExperts(LayerId layer, Tensor in, RouteTable routes) {
  const StoredRoutes& stored = routes_[static_cast<size_t>(routes.id)];
  const int64_t entry = int64_t{used().first} * routes.experts_per_token;
  call_ = {.layer = layer,
           .first = used().first,
           .rows = rows_,
           .tokens = used().tokens,
           .hidden_size = in.cols,
           .experts_per_token = routes.experts_per_token,
           .deferred_experts = bucket_.deferred_experts,
           .exact = bucket_.exact,
           .hidden = Data<const Bf16>(in),
           .experts = reinterpret_cast<const int32_t*>(stored.experts->device()) + entry,
           .weights = reinterpret_cast<const float*>(stored.weights->device()) + entry};
  left_experts_ = call_.experts;
  if (!Enqueues()) return;
  ExchangeCall call = call_;
  if (experts_ != nullptr) {
    experts_->EnqueueCount(ExpertsOf(call_));
    left_experts_ = call.experts = products_->EnqueueSort(ExpertsOf(call_), experts_->Slots(layer));
  }
  if (mode_ == Mode::kEager && !fetches_) exchange_->Stage(call);
}

absl::Status CudaDevice::StartExperts(ExpertBackend& experts, Tensor out) {
  if (mode_ != Mode::kEager) {
    if (const absl::Status opened = exchange_->Open(experts, bucket_.exact, buffers_->handovers());
        !opened.ok()) {
      AbandonStep();
      return opened;
    }
  }
  called_ = call_;
  if (mode_ == Mode::kReplaying) {
    LaunchStep();
    return absl::OkStatus();
  }
  if (mode_ == Mode::kEager && !fetches_) RETURN_IF_ERROR(exchange_->Start(experts));
  if (mode_ == Mode::kCapturing) {
    ExchangeCall call = called_;
    call.experts = left_experts_;
    exchange_->EnqueueSend(call, Handover());
  }
  if (experts_ != nullptr) {
    const SlotSet slots = experts_->Slots(called_.layer);
    products_->EnqueueProducts(ExpertsOf(called_), slots);
    products_->EnqueueCombine(ExpertsOf(called_), slots, RowsFrom<float>(called_.first, out));
  }
  return absl::OkStatus();
}

ExpertsCall CudaDevice::ExpertsOf(const ExchangeCall& call) {
  return {.layer = call.layer,
          .rows = call.rows,
          .exact = call.exact,
          .hidden = call.hidden,
          .experts = call.experts,
          .weights = call.weights};
}

// Of the call that is out, or was last.
const HandoverStep* CudaDevice::Handover() const {
  return buffers_->device_handover(called_.first > 0 ? 1 : 0);
}

absl::Status CudaDevice::JoinExperts(ExpertBackend& experts, Tensor out) {
  float* const residual = RowsFrom<float>(called_.first, out);
  if (fetches_) {
    ExpertsCall call = ExpertsOf(called_);
    call.experts = left_experts_;
    windows_->EnqueueLayer(call, *products_, residual);
    return absl::OkStatus();
  }
  if (mode_ == Mode::kEager) return exchange_->Finish(experts, residual);
  if (Enqueues()) exchange_->EnqueueAdd(ReplyPart::kImmediate, residual, called_.rows, out.cols, Handover());
  exchange_->NextReply(ReplyPart::kImmediate);
  return absl::OkStatus();
}

absl::Status CudaDevice::JoinDeferredExperts(ExpertBackend& experts, Tensor out) {
  if (fetches_) return absl::OkStatus();  // nothing was late
  float* const residual = RowsFrom<float>(called_.first, out);
  if (mode_ == Mode::kEager) return exchange_->FinishDeferred(experts, residual);
  if (Enqueues()) exchange_->EnqueueAdd(ReplyPart::kDeferred, residual, called_.rows, out.cols, Handover());
  exchange_->NextReply(ReplyPart::kDeferred);
  return absl::OkStatus();
}

// A worker was lost before anything ran.
void CudaDevice::AbandonStep() {
  if (mode_ == Mode::kCapturing) (void)runtime_->EndCapture(stream_);
  mode_ = Mode::kEager;
}

void CudaDevice::DrawTokens(Tensor logits) {
  // A graph draws in every step of its bucket; which rows it draws from is in the tables.
  const bool draws = mode_ == Mode::kCapturing || (mode_ == Mode::kEager && sampling_tables_->any());
  if (draws) sampling_tables_->EnqueueDraw(Data<const float>(logits), stream_);
}

// Those rows that no token is drawn from, in stretches. Returns how many values.
size_t CudaDevice::CopyLogits(Tensor logits) {
  const auto width = static_cast<size_t>(logits.cols);
  const auto* const device = At(logits).memory->device();
  size_t copied = 0;
  const auto rows = static_cast<size_t>(logit_rows_);
  for (size_t begin = 0, end = 0; begin < rows; begin = end + 1) {
    for (end = begin; end < rows && !sampling_tables_->OnDevice(end);) ++end;
    const size_t values = (end - begin) * width;
    if (values == 0) continue;
    runtime_->Copy(host_logits_->host() + copied * sizeof(float), device + begin * width * sizeof(float),
                   values * sizeof(float), stream_);
    copied += values;
  }
  return copied;
}

absl::StatusOr<absl::Span<const float>> CudaDevice::ReadLogits(Tensor logits) {
  NUMOE_CHECK(At(logits).use == TensorUse::kLogits);
  absl::Status status;
  if (mode_ == Mode::kCapturing) {
    absl::StatusOr<std::unique_ptr<Graph>> graph = runtime_->EndCapture(stream_);
    if (!graph.ok()) return exchange_->Close(graph.status(), /*ran=*/false);
    graphs_.Insert(bucket_, *std::move(graph));
  }
  LaunchStep();
  const size_t values = CopyLogits(logits);
  sampling_tables_->Download(*runtime_, stream_);
  const absl::Status ran = runtime_->Synchronize(stream_);
  if (windows_ != nullptr) windows_->EndStep();
  RETURN_IF_ERROR(exchange_->Close(ran, /*ran=*/true));
  drawn_ = sampling_tables_->Read();
  return absl::Span<const float>(reinterpret_cast<const float*>(host_logits_->host()), values);
}

std::string CudaDevice::Describe() const {
  const DeviceFacts& facts = runtime_->facts();
  return fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB", facts.name,
                     facts.compute_major, facts.compute_minor, facts.multiprocessors,
                     static_cast<double>(facts.memory_bytes) / (1 << 30));
}

}  // namespace numoe::cuda
