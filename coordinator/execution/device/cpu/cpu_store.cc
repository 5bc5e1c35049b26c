#include "coordinator/execution/device/cpu/cpu_store.h"

#include <algorithm>
#include <cstring>

#include "absl/base/casts.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution {
namespace {

// The bytes of one task that touches memory: a huge page of the usual size.
constexpr size_t kTouchBytes = 2u << 20;

}  // namespace

absl::StatusOr<NodeMemory> CpuStore::StoreWeights(size_t bytes) {
  memory_.weights += bytes;
  return NodeMemory::Allocate(options_.measure_only ? 0 : bytes);
}

absl::StatusOr<NodeMemory> CpuStore::CopyOf(absl::Span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(NodeMemory memory, StoreWeights(bytes.size()));
  if (!options_.measure_only) std::memcpy(memory.data(), bytes.data(), bytes.size());
  return memory;
}

// Touches the memory on the pool's threads, so that pages are allocated near the threads that will use them.
void CpuStore::Touch(absl::Span<std::byte> memory) {
  pool_.Run(static_cast<int>((memory.size() + kTouchBytes - 1) / kTouchBytes), [&](int task, int) {
    const absl::Span<std::byte> part = memory.subspan(static_cast<size_t>(task) * kTouchBytes, kTouchBytes);
    std::memset(part.data(), 0, part.size());
  });
}

DeviceMemory CpuStore::memory() const {
  DeviceMemory memory = memory_;
  // Scratch that grows to the largest step: its widest tensor as quantised activations, and the gate's
  // logits.
  memory.scratch += static_cast<uint64_t>(options_.step_tokens_max) *
                    static_cast<uint64_t>(widest_ + gate_experts_) * sizeof(float);
  return memory;
}

Tensor CpuStore::NewTensor(int cols, TensorUse /*use*/, int rows) {
  const size_t bytes = static_cast<size_t>(rows > 0 ? rows : options_.step_tokens_max) *
                       static_cast<size_t>(cols) * sizeof(float);
  memory_.scratch += bytes;
  if (rows == 0) widest_ = std::max(widest_, cols);
  absl::StatusOr<NodeMemory> memory = NodeMemory::Allocate(options_.measure_only ? 0 : bytes);
  NUMOE_CHECK(memory.ok()) << memory.status().message();
  tensors_.push_back(*std::move(memory));
  return {.id = static_cast<int>(tensors_.size()) - 1, .cols = cols};
}

RouteTable CpuStore::NewRouteTable(int experts_per_token) {
  const size_t entries = static_cast<size_t>(options_.step_tokens_max) * experts_per_token;
  routes_.push_back({std::vector<ExpertId>(entries), std::vector<float>(entries)});
  return {.id = static_cast<int>(routes_.size()) - 1, .experts_per_token = experts_per_token};
}

absl::StatusOr<Matrix> CpuStore::LoadMatrix(const MatrixView& source) {
  const WeightFormat format = options_.dense_format.value_or(NativeFormat(source));
  const int rows = static_cast<int>(source.rows);
  const int cols = static_cast<int>(source.cols);
  const size_t bytes = PackedBytes(format, rows, cols);
  ASSIGN_OR_RETURN(NodeMemory memory, StoreWeights(bytes));
  if (!options_.measure_only) RETURN_IF_ERROR(PackMatrix(format, source, 0, rows, 0, cols, memory.bytes()));
  const PackedMatrix packed{.format = format, .rows = rows, .cols = cols, .data = memory.data()};
  matrices_.push_back({std::move(memory), packed});
  return Matrix{.id = static_cast<int>(matrices_.size()) - 1, .rows = rows, .cols = cols};
}

absl::StatusOr<GatedMatrix> CpuStore::LoadGated(const MatrixView& gate, const MatrixView& up) {
  NUMOE_CHECK(gate.rows == up.rows && gate.cols == up.cols);
  ASSIGN_OR_RETURN(const Matrix stored_gate, LoadMatrix(gate));
  ASSIGN_OR_RETURN(const Matrix stored_up, LoadMatrix(up));
  gated_.emplace_back(stored_gate, stored_up);
  return GatedMatrix{
      .id = static_cast<int>(gated_.size()) - 1, .rows = stored_gate.rows, .cols = stored_gate.cols};
}

absl::StatusOr<Matrix> CpuStore::LoadEmbedding(const MatrixView& source) {
  StoredEmbedding stored{.view = source};
  ASSIGN_OR_RETURN(stored.memory, CopyOf(source.data));
  stored.view.data = absl::MakeSpan(stored.memory.data(), source.data.size());
  if (!source.scales.empty()) {
    ASSIGN_OR_RETURN(stored.scales, CopyOf(source.scales));
    stored.view.scales = absl::MakeSpan(stored.scales.data(), source.scales.size());
  }
  embeddings_.push_back(std::move(stored));
  return Matrix{.id = static_cast<int>(embeddings_.size()) - 1,
                .rows = static_cast<int>(source.rows),
                .cols = static_cast<int>(source.cols)};
}

absl::StatusOr<HeadMatrices> CpuStore::LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                 int cols) {
  NUMOE_CHECK_EQ(values.size(), static_cast<size_t>(heads) * rows * cols);
  const size_t head_bytes = PackedBytes(WeightFormat::kBf16, rows, cols);
  StoredHeads stored;
  ASSIGN_OR_RETURN(stored.memory, StoreWeights(head_bytes * heads));
  const size_t head_values = static_cast<size_t>(rows) * cols;
  for (int h = 0; h < heads && !options_.measure_only; ++h) {
    const absl::Span<const float> part = values.subspan(h * head_values, head_values);
    const MatrixView view{
        .format = MatrixFormat::kF32,
        .rows = rows,
        .cols = cols,
        .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(part.data()), part.size() * sizeof(float))};
    std::byte* out = stored.memory.data() + h * head_bytes;
    RETURN_IF_ERROR(PackMatrix(WeightFormat::kBf16, view, 0, rows, 0, cols, absl::MakeSpan(out, head_bytes)));
    stored.heads.push_back({.format = WeightFormat::kBf16, .rows = rows, .cols = cols, .data = out});
  }
  heads_.push_back(std::move(stored));
  return HeadMatrices{.id = static_cast<int>(heads_.size()) - 1, .heads = heads, .rows = rows, .cols = cols};
}

Vector CpuStore::LoadVector(absl::Span<const float> values) {
  memory_.weights += values.size() * sizeof(float);
  vectors_.emplace_back(values.begin(), values.end());
  return {.id = static_cast<int>(vectors_.size()) - 1, .size = static_cast<int>(values.size())};
}

RopeTable CpuStore::LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                             RopeLayout layout) {
  ropes_.push_back({{inverse_frequencies.begin(), inverse_frequencies.end()}, multiplier, layout});
  return {.id = static_cast<int>(ropes_.size()) - 1, .dim = static_cast<int>(inverse_frequencies.size()) * 2};
}

Gate CpuStore::LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) {
  NUMOE_CHECK(weight.size() % experts == 0 && (bias.empty() || bias.size() == static_cast<size_t>(experts)));
  StoredGate gate{.bias = {bias.begin(), bias.end()}};
  const int cols = static_cast<int>(weight.size()) / experts;
  gate.packed = {.format = WeightFormat::kBf16, .rows = experts, .cols = cols};
  const bool is_bf16 = std::all_of(weight.begin(), weight.end(),
                                   [](float w) { return (absl::bit_cast<uint32_t>(w) & 0xffffu) == 0; });
  gate_experts_ = std::max(gate_experts_, experts);
  if (is_bf16) {
    const MatrixView view{.format = MatrixFormat::kF32,
                          .rows = experts,
                          .cols = cols,
                          .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(weight.data()),
                                                 weight.size() * sizeof(float))};
    const size_t bytes = PackedBytes(WeightFormat::kBf16, experts, cols);
    absl::StatusOr<NodeMemory> memory = StoreWeights(bytes);
    NUMOE_CHECK(memory.ok()) << memory.status().message();
    gate.memory = *std::move(memory);
    gate.packed.data = gate.memory.data();
    const absl::Span<std::byte> packed = gate.memory.bytes();
    const absl::Status status = packed.empty()
                                    ? absl::OkStatus()
                                    : PackMatrix(WeightFormat::kBf16, view, 0, experts, 0, cols, packed);
    NUMOE_CHECK(status.ok()) << status.message();
  } else {
    memory_.weights += weight.size() * sizeof(float);
    gate.weight.assign(weight.begin(), weight.end());
  }
  gates_.push_back(std::move(gate));
  return {.id = static_cast<int>(gates_.size()) - 1, .experts = experts};
}

absl::Span<ExpertId> CpuStore::RouteExperts(RouteTable table, int row, int count) {
  const auto k = static_cast<size_t>(table.experts_per_token);
  return absl::MakeSpan(routes_.at(static_cast<size_t>(table.id)).experts)
      .subspan(static_cast<size_t>(row) * k, static_cast<size_t>(count) * k);
}

absl::Span<float> CpuStore::RouteWeights(RouteTable table, int row, int count) {
  const auto k = static_cast<size_t>(table.experts_per_token);
  return absl::MakeSpan(routes_.at(static_cast<size_t>(table.id)).weights)
      .subspan(static_cast<size_t>(row) * k, static_cast<size_t>(count) * k);
}

Cache CpuStore::NewCache(const CacheShape& shape) {
  NUMOE_CHECK(shape.layers > 0 && shape.row.width() > 0);
  cache_shapes_.push_back(shape);
  return {
      .id = static_cast<int>(cache_shapes_.size()) - 1, .layers = shape.layers, .width = shape.row.width()};
}

uint64_t CpuStore::KvCacheBytes(const KvCacheSize& size) const {
  uint64_t bytes = 0;
  for (const CacheShape& shape : cache_shapes_) bytes += CacheMemory::BytesOf(shape, size);
  return bytes;
}

absl::Status CpuStore::ReserveKvCache(const KvCacheSize& size) {
  for (const CacheShape& shape : cache_shapes_) RETURN_IF_ERROR(CacheMemory::Check(shape, size));
  memory_.kv_cache = KvCacheBytes(size);
  if (options_.measure_only) return absl::OkStatus();
  NUMOE_CHECK(caches_.empty()) << "caches can be reserved only once";
  for (const CacheShape& shape : cache_shapes_) {
    RETURN_IF_ERROR(caches_.emplace_back().Reserve(shape, size));
    Touch(caches_.back().bytes());
  }
  for (const NodeMemory& tensor : tensors_) Touch(tensor.bytes());
  return absl::OkStatus();
}

}  // namespace numoe::execution
