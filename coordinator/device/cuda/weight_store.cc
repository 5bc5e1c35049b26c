#include "coordinator/device/cuda/weight_store.h"

#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/bf16.h"
#include "coordinator/device/cuda/device_weights.h"

namespace numoe::cuda {

template <typename Pack>
absl::StatusOr<const std::byte*> WeightStore::Store(size_t bytes, Pack pack) {
  bytes_ += bytes;
  if (runtime_ == nullptr) return nullptr;
  ASSIGN_OR_RETURN(auto memory, runtime_->Allocate(bytes));
  staging_.resize(bytes);
  pack(absl::MakeSpan(staging_));
  runtime_->Copy(memory->device(), staging_.data(), bytes, stream_);
  RETURN_IF_ERROR(runtime_->Synchronize(stream_));
  memory_.push_back(std::move(memory));
  return memory_.back()->device();
}

absl::StatusOr<DeviceMatrix> WeightStore::Load(const MatrixView& source) {
  DeviceMatrix matrix{.format = NativeDeviceFormat(source),
                      .rows = static_cast<int>(source.rows),
                      .cols = static_cast<int>(source.cols)};
  ASSIGN_OR_RETURN(matrix.data,
                   Store(DeviceBytes(matrix.format, matrix.rows, matrix.cols, false),
                         [&](absl::Span<std::byte> out) { PackDeviceMatrix(matrix.format, source, out); }));
  return matrix;
}

absl::StatusOr<DeviceMatrix> WeightStore::LoadGated(const MatrixView& gate, const MatrixView& up) {
  NUMOE_CHECK(gate.rows == up.rows && gate.cols == up.cols);
  const DeviceFormat native = NativeDeviceFormat(gate);
  DeviceMatrix matrix{.format = NativeDeviceFormat(up) == native ? native : DeviceFormat::kBf16,
                      .rows = static_cast<int>(gate.rows),
                      .cols = static_cast<int>(gate.cols),
                      .gated = true};
  ASSIGN_OR_RETURN(matrix.data,
                   Store(DeviceBytes(matrix.format, matrix.rows, matrix.cols, true),
                         [&](absl::Span<std::byte> out) { PackDeviceGated(matrix.format, gate, up, out); }));
  return matrix;
}

absl::StatusOr<DeviceHeads> WeightStore::LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                   int cols) {
  const size_t head_values = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  NUMOE_CHECK_EQ(values.size(), head_values * static_cast<size_t>(heads));
  const size_t head_bytes = DeviceBytes(DeviceFormat::kBf16, rows, cols, false);
  DeviceHeads stored{.first = {.rows = rows, .cols = cols}, .heads = heads, .head_bytes = head_bytes};
  ASSIGN_OR_RETURN(stored.first.data,
                   Store(head_bytes * static_cast<size_t>(heads), [&](absl::Span<std::byte> out) {
                     for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
                       PackDeviceValues(values.subspan(h * head_values, head_values), rows, cols,
                                        out.subspan(h * head_bytes, head_bytes));
                     }
                   }));
  return stored;
}

absl::StatusOr<const Bf16*> WeightStore::LoadRows(const MatrixView& source) {
  const size_t values = static_cast<size_t>(source.rows) * static_cast<size_t>(source.cols);
  const auto pack = [&](absl::Span<std::byte> out) {
    std::vector<float> row(static_cast<size_t>(source.cols));
    auto* bits = reinterpret_cast<uint16_t*>(out.data());
    for (int64_t r = 0; r < source.rows; ++r) {
      DecodeMatrix(source, r, r + 1, 0, source.cols, absl::MakeSpan(row));
      for (const float value : row) *bits++ = EncodeBf16(value);
    }
  };
  ASSIGN_OR_RETURN(const std::byte* stored, Store(values * sizeof(Bf16), pack));
  return reinterpret_cast<const Bf16*>(stored);
}

const float* WeightStore::LoadFloats(absl::Span<const float> values) {
  const size_t bytes = values.size() * sizeof(float);
  const absl::StatusOr<const std::byte*> stored =
      Store(bytes, [&](absl::Span<std::byte> out) { std::memcpy(out.data(), values.data(), bytes); });
  if (stored.ok()) return reinterpret_cast<const float*>(*stored);
  if (first_error_.ok()) first_error_ = stored.status();
  return nullptr;
}

}  // namespace numoe::cuda
