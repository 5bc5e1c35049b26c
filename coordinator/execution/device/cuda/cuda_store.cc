#include "coordinator/execution/device/cuda/cuda_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cuda/allocation.h"
#include "coordinator/execution/device/cuda/expert_sizes.h"
#include "coordinator/execution/device/kv_block.h"

namespace numoe::execution::cuda {
namespace {

static_assert(kKvBlockTokens == kCacheBlockTokens,
              "the kernels must be compiled for the block size that the coordinator plans with");

constexpr int kAttendRowsMax = 256;
constexpr int kGroupedBlocksMax = 4;  // blocks per multiprocessor in GQA's decode kernel
constexpr int64_t kAttendPartBytesMax = int64_t{256} << 20;
constexpr size_t kArrivalsMax = size_t{1} << 16;  // counters: at most 65,536 blocks of a split product

// The most weights of a matrix for which the library is used: larger ones (the output head, a dense layer's
// gate and up) would need more scratch memory than the time they save is worth.
constexpr int64_t kLibraryWeightsMax = int64_t{64} << 20;

int64_t WeightsOf(const DeviceMatrix& matrix) {
  return int64_t{matrix.rows} * matrix.cols * (matrix.gated ? 2 : 1);
}

CacheLayer LayerOf(const CacheShape& shape, const KvCacheSize& size) {
  const bool fp8 = size.type == CacheType::kFp8;
  const CacheRow& row = shape.row;
  return {.blocks = size.blocks,
          .heads = row.heads,
          .keys = MakeCacheForm(fp8, row.key_width, row.plain_width),
          .values = row.value_width > 0 ? MakeCacheForm(fp8, row.value_width, 0) : CacheForm{}};
}

}  // namespace

uint64_t CudaStore::StepBytes(const StepBounds& bounds) {
  return AllocatedBytes(StepBuffers::DeviceBytes(bounds)) + 2 * kAllocationPage;
}

std::unique_ptr<Memory> CudaStore::Scratch(size_t bytes) {
  scratch_bytes_ += AllocatedBytes(bytes);
  if (runtime_ == nullptr || bytes == 0) return nullptr;
  absl::StatusOr<std::unique_ptr<Memory>> memory = runtime_->Allocate(bytes);
  if (memory.ok()) return *std::move(memory);
  if (first_error_.ok()) first_error_ = memory.status();
  return nullptr;
}

Tensor CudaStore::NewTensor(int cols, TensorUse use, int rows) {
  const int all = rows > 0 ? rows : bounds_.rows;
  const size_t element = use == TensorUse::kActivation ? sizeof(Bf16) : sizeof(float);
  tensors_.push_back({.memory = Scratch(static_cast<size_t>(all) * static_cast<size_t>(cols) * element),
                      .cols = cols,
                      .rows = all,
                      .use = use});
  return {.id = static_cast<int>(tensors_.size()) - 1, .cols = cols};
}

RouteTable CudaStore::NewRouteTable(int experts_per_token) {
  const size_t entries = static_cast<size_t>(bounds_.rows) * static_cast<size_t>(experts_per_token);
  routes_.push_back(
      {.experts = Scratch(entries * sizeof(ExpertId)), .weights = Scratch(entries * sizeof(float))});
  return {.id = static_cast<int>(routes_.size()) - 1, .experts_per_token = experts_per_token};
}

absl::StatusOr<Matrix> CudaStore::LoadMatrix(const MatrixView& source) {
  ASSIGN_OR_RETURN(const DeviceMatrix matrix, weights_.Load(source));
  matrices_.push_back(matrix);
  return Matrix{.id = static_cast<int>(matrices_.size()) - 1, .rows = matrix.rows, .cols = matrix.cols};
}

absl::StatusOr<GatedMatrix> CudaStore::LoadGated(const MatrixView& gate, const MatrixView& up) {
  ASSIGN_OR_RETURN(const DeviceMatrix matrix, weights_.LoadGated(gate, up));
  gated_.push_back(matrix);
  return GatedMatrix{.id = static_cast<int>(gated_.size()) - 1, .rows = matrix.rows, .cols = matrix.cols};
}

absl::StatusOr<Matrix> CudaStore::LoadEmbedding(const MatrixView& source) {
  ASSIGN_OR_RETURN(const Bf16* const rows, weights_.LoadRows(source));
  embeddings_.push_back(rows);
  return Matrix{.id = static_cast<int>(embeddings_.size()) - 1,
                .rows = static_cast<int>(source.rows),
                .cols = static_cast<int>(source.cols)};
}

absl::StatusOr<HeadMatrices> CudaStore::LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                  int cols) {
  ASSIGN_OR_RETURN(const DeviceHeads stored, weights_.LoadHeads(values, heads, rows, cols));
  heads_.push_back(stored);
  return HeadMatrices{.id = static_cast<int>(heads_.size()) - 1, .heads = heads, .rows = rows, .cols = cols};
}

Vector CudaStore::LoadVector(absl::Span<const float> values) {
  vectors_.push_back(weights_.LoadFloats(values));
  return {.id = static_cast<int>(vectors_.size()) - 1, .size = static_cast<int>(values.size())};
}

RopeTable CudaStore::LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                              RopeLayout layout) {
  const int dim = 2 * static_cast<int>(inverse_frequencies.size());
  ropes_.push_back({.inverse = weights_.LoadFloats(inverse_frequencies),
                    .dim = dim,
                    .multiplier = multiplier,
                    .layout = layout,
                    .cos_sin = {}});
  return {.id = static_cast<int>(ropes_.size()) - 1, .dim = dim};
}

Gate CudaStore::LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) {
  gates_.push_back({.weight = weights_.LoadFloats(weight),
                    .bias = bias.empty() ? nullptr : weights_.LoadFloats(bias),
                    .experts = experts,
                    .hidden = static_cast<int>(weight.size()) / experts});
  return {.id = static_cast<int>(gates_.size()) - 1, .experts = experts};
}

void CudaStore::CountExperts(const ExpertSlotSpec& spec) {
  expert_bytes_ = SlotBytes(spec);
  window_bytes_ = PlanWindowSizes(spec).total();
  scratch_bytes_ += PlanExpertScratch(spec, bounds_.rows).total();
}

Cache CudaStore::NewCache(const CacheShape& shape) {
  NUMOE_CHECK(shape.layers > 0 && shape.row.width() > 0);
  caches_.push_back({.shape = shape, .layers = {}});
  return {.id = static_cast<int>(caches_.size()) - 1, .layers = shape.layers, .width = shape.row.width()};
}

uint64_t CudaStore::KvCacheBytes(const KvCacheSize& size) const {
  uint64_t bytes = 0;
  for (const StoredCache& cache : caches_) {
    bytes += static_cast<uint64_t>(CacheLayerBytes(LayerOf(cache.shape, size))) *
             static_cast<uint64_t>(cache.shape.layers);
  }
  return bytes;
}

DecodeBounds CudaStore::AttendBounds(int rows, int blocks_per_sequence, bool exact) const {
  const int blocks = exact ? bounds_.blocks_per_sequence : blocks_per_sequence;
  return {
      .rows = rows,
      .context_max = int64_t{blocks} * kCacheBlockTokens,
      .workers_per_group = facts_.multiprocessors * (attended().row.value_width > 0 ? kGroupedBlocksMax : 1),
      .exact = exact};
}

int CudaStore::AttendRows(bool exact) const {
  int rows = std::min(bounds_.rows, kAttendRowsMax);
  while (rows > 1 && DecodePartBytes(PlanDecode(AttendBounds(rows, bounds_.blocks_per_sequence, exact)),
                                     attended().query_heads, AttendWidth()) > kAttendPartBytesMax) {
    rows = (rows + 1) / 2;
  }
  return rows;
}

bool CudaStore::UsesLibrary(const DeviceMatrix& matrix, int rows, bool exact) const {
  return ChooseDenseKernel(rows, facts_.compute_major * 10 + facts_.compute_minor, exact) ==
             DenseKernel::kExpand &&
         WeightsOf(matrix) <= kLibraryWeightsMax && matrix.cols % 8 == 0;
}

void CudaStore::ReserveLibrary() {
  int64_t weights = 0, gated_rows = 0;
  for (const std::vector<DeviceMatrix>* matrices : {&matrices_, &gated_}) {
    for (const DeviceMatrix& matrix : *matrices) {
      if (!UsesLibrary(matrix, bounds_.rows, /*exact=*/false)) continue;
      weights = std::max(weights, WeightsOf(matrix));
      if (matrix.gated) gated_rows = std::max(gated_rows, int64_t{2} * matrix.rows);
    }
  }
  products_.library_weights = Scratch(static_cast<size_t>(weights) * sizeof(Bf16));
  products_.library_gated = Scratch(static_cast<size_t>(gated_rows * bounds_.rows) * sizeof(Bf16));
}

void CudaStore::ReserveAttention() {
  int64_t list_bytes = 0, part_bytes = 0;
  for (const bool exact : {false, true}) {
    const DecodeShape shape = PlanDecode(AttendBounds(AttendRows(exact), bounds_.blocks_per_sequence, exact));
    list_bytes = std::max(list_bytes, DecodeListBytes(shape));
    part_bytes = std::max(part_bytes, DecodePartBytes(shape, attended().query_heads, AttendWidth()));
  }
  attend_.lists = Scratch(static_cast<size_t>(list_bytes));
  attend_.parts = Scratch(static_cast<size_t>(part_bytes));
  if (latent()) ReserveExpansion();
}

void CudaStore::ReserveExpansion() {
  // The head matrices of each layer are key_up, its transpose and value_up.
  NUMOE_CHECK_GE(heads_.size(), 3u);
  const DeviceMatrix &key_up = heads_[0].first, &value_up = heads_[2].first;
  mla_ = {
      .nope = key_up.rows, .rope = attended().row.plain_width, .value = value_up.rows, .latent = key_up.cols};
  const auto heads = static_cast<size_t>(attended().query_heads);
  const auto rows = static_cast<size_t>(bounds_.rows);
  const auto keys = static_cast<size_t>(kExpandedRows);
  const auto width = [](int values) { return static_cast<size_t>(values); };
  attend_.gathered = Scratch(keys * width(mla_.latent + mla_.rope) * sizeof(Bf16));
  attend_.expanded_keys = Scratch(keys * heads * width(mla_.nope) * sizeof(Bf16));
  attend_.expanded_values = Scratch(keys * heads * width(mla_.value) * sizeof(Bf16));
  attend_.prefill_sums = Scratch(rows * heads * width(mla_.value) * sizeof(float));
  attend_.prefill_maxima = Scratch(rows * heads * sizeof(float));
  attend_.prefill_totals = Scratch(rows * heads * sizeof(float));
}

void CudaStore::PlanDrawing() {
  for (const StoredTensor& tensor : tensors_) {
    if (tensor.use == TensorUse::kLogits)
      sampling_ = PlanSampling(tensor.rows, tensor.cols, bounds_.sequences);
  }
  scratch_bytes_ += sampling_.total();
}

absl::Status CudaStore::CheckCaches() const {
  NUMOE_CHECK(!caches_.empty()) << "a model must have at least one KV cache";
  const CacheShape& first = attended();
  for (const StoredCache& cache : caches_) {
    const CacheShape& shape = cache.shape;
    const CacheRow& row = shape.row;
    if (row.key_width % 16 != 0 || row.value_width % 16 != 0 || row.plain_width % 16 != 0) {
      return absl::InvalidArgumentError(
          fmt::format("found a KV cache with keys of {} channels ({} of them always BF16) and values of {}, "
                      "expected multiples "
                      "of 16 on a GPU; use --device=cpu",
                      row.key_width, row.plain_width, row.value_width));
    }
    // One plan of attention and one set of kernels serve all layers of a step.
    if (!(row == first.row) || shape.query_heads != first.query_heads) {
      return absl::InvalidArgumentError(fmt::format(
          "found layers with different attention ({} heads to {} x ({} + {}) values, and {} heads to {} x "
          "({} + "
          "{})), expected the same in all layers, because a GPU plans attention once for all of them; use "
          "--device=cpu",
          first.query_heads, first.row.heads, first.row.key_width, first.row.value_width, shape.query_heads,
          row.heads, row.key_width, row.value_width));
    }
  }
  return absl::OkStatus();
}

// Allocates all caches together, so that the bytes per block do not depend on the number of caches.
absl::Status CudaStore::PlaceCaches(const KvCacheSize& size) {
  ASSIGN_OR_RETURN(cache_memory_, runtime_->Allocate(std::max<size_t>(cache_bytes_, 1)));
  runtime_->Clear(cache_memory_->device(), cache_bytes_, stream_);
  std::byte* base = cache_memory_->device();
  for (StoredCache& cache : caches_) {
    cache.layers.assign(static_cast<size_t>(cache.shape.layers), LayerOf(cache.shape, size));
    for (CacheLayer& layer : cache.layers) {
      layer.base = base;
      base += CacheLayerBytes(layer);
    }
  }
  NUMOE_CHECK_EQ(static_cast<uint64_t>(base - cache_memory_->device()), cache_bytes_);
  return absl::OkStatus();
}

absl::Status CudaStore::ReserveKvCache(const KvCacheSize& size) {
  NUMOE_CHECK_EQ(size.block_tokens, kCacheBlockTokens);
  RETURN_IF_ERROR(CheckCaches());
  cache_bytes_ = KvCacheBytes(size);
  ReserveAttention();
  ReserveLibrary();
  PlanDrawing();
  products_.partials = Scratch(kPartialBytesMax);
  products_.arrivals = Scratch(kArrivalsMax * sizeof(uint32_t));
  int experts_max = 0;
  for (const StoredGate& gate : gates_) experts_max = std::max(experts_max, gate.experts);
  products_.gate_logits =
      Scratch(static_cast<size_t>(bounds_.rows) * static_cast<size_t>(experts_max) * sizeof(float));
  for (StoredRope& rope : ropes_)
    rope.cos_sin = Scratch(static_cast<size_t>(bounds_.rows) * static_cast<size_t>(rope.dim) * sizeof(float));
  RETURN_IF_ERROR(weights_.Finish());
  RETURN_IF_ERROR(first_error_);
  scratch_bytes_ += kAllocationPage;  // the cache's end may leave a part of a page unused
  if (runtime_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(PlaceCaches(size));
  runtime_->Clear(products_.arrivals->device(), products_.arrivals->bytes(), stream_);
  return runtime_->Synchronize(stream_);
}

}  // namespace numoe::execution::cuda
