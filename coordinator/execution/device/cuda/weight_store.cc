#include "coordinator/execution/device/cuda/weight_store.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/bf16.h"
#include "common/threading/thread_binding.h"
#include "coordinator/execution/device/cuda/allocation.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kTasksPerThread = 4;  // per buffer, so that slow threads do not delay the others

}  // namespace

ThreadPool& WeightStore::Pool() {
  if (pool_ == nullptr)
    pool_ = std::make_unique<ThreadPool>(ThreadPoolOptions{.name = "pack", .cpus = CpusOfThisThread()});
  return *pool_;
}

absl::StatusOr<std::byte*> WeightStore::Reserve(size_t bytes) {
  bytes_ += AllocatedBytes(bytes);
  if (runtime_ == nullptr) return nullptr;
  ASSIGN_OR_RETURN(memory_.emplace_back(), runtime_->Allocate(bytes));
  return memory_.back()->device();
}

// Waits for the copy of the buffer that was filled longest ago, and returns that buffer.
absl::StatusOr<WeightStore::Staging*> WeightStore::NextStaging(size_t bytes) {
  Staging& next = staging_[next_staging_];
  next_staging_ ^= 1;
  if (next.stream == nullptr) {
    ASSIGN_OR_RETURN(next.stream, runtime_->NewStream());
  }
  RETURN_IF_ERROR(runtime_->Synchronize(next.stream));
  if (next.memory == nullptr || next.memory->bytes() < bytes) {
    next.memory.reset();
    ASSIGN_OR_RETURN(next.memory, runtime_->AllocateHost(std::max(bytes, staging_bytes_)));
  }
  return &next;
}

absl::Status WeightStore::Fill(std::byte* to, const Units& units, PackUnits pack) {
  if (units.count == 0 || units.bytes == 0) return absl::OkStatus();
  const int64_t of_buffer = std::max<int64_t>(1, static_cast<int64_t>(staging_bytes_ / units.bytes));
  for (int64_t first = 0; first < units.count; first += of_buffer) {
    const int64_t count = std::min(of_buffer, units.count - first);
    const size_t bytes = static_cast<size_t>(count) * units.bytes;
    ASSIGN_OR_RETURN(Staging* const staging, NextStaging(bytes));
    const absl::Span<std::byte> out(staging->memory->host(), bytes);
    const auto tasks = static_cast<int>(std::min<int64_t>(count, kTasksPerThread * Pool().threads()));
    Pool().Run(tasks, [&](int task, int) {
      const int64_t begin = count * task / tasks, end = count * (task + 1) / tasks;
      pack(first + begin, first + end,
           out.subspan(static_cast<size_t>(begin) * units.bytes,
                       static_cast<size_t>(end - begin) * units.bytes));
    });
    runtime_->Copy(to + static_cast<size_t>(first) * units.bytes, out.data(), bytes, staging->stream);
  }
  return absl::OkStatus();
}

absl::StatusOr<const std::byte*> WeightStore::StorePack(const DevicePack& pack) {
  ASSIGN_OR_RETURN(std::byte* const to, Reserve(pack.bytes()));
  if (to == nullptr) return nullptr;
  const Units panels{pack.panels(), pack.panel_bytes()};
  RETURN_IF_ERROR(Fill(to, panels, [&](int64_t first, int64_t last, absl::Span<std::byte> out) {
    PackPanels(pack, {first, last}, out);
  }));
  const size_t codes = static_cast<size_t>(panels.count) * panels.bytes;
  RETURN_IF_ERROR(Fill(to + codes, {1, pack.bytes() - codes},
                       [&](int64_t, int64_t, absl::Span<std::byte> out) { PackTail(pack, out); }));
  return to;
}

absl::StatusOr<DeviceMatrix> WeightStore::Load(const MatrixView& source) {
  DeviceMatrix matrix{.format = NativeDeviceFormat(source),
                      .rows = static_cast<int>(source.rows),
                      .cols = static_cast<int>(source.cols)};
  ASSIGN_OR_RETURN(matrix.data, StorePack({.format = matrix.format, .first = source}));
  return matrix;
}

absl::StatusOr<DeviceMatrix> WeightStore::LoadGated(const MatrixView& gate, const MatrixView& up) {
  NUMOE_CHECK(gate.rows == up.rows && gate.cols == up.cols);
  const DeviceFormat native = NativeDeviceFormat(gate);
  DeviceMatrix matrix{.format = NativeDeviceFormat(up) == native ? native : DeviceFormat::kBf16,
                      .rows = static_cast<int>(gate.rows),
                      .cols = static_cast<int>(gate.cols),
                      .gated = true};
  ASSIGN_OR_RETURN(matrix.data, StorePack({.format = matrix.format, .first = gate, .second = up}));
  return matrix;
}

absl::StatusOr<DeviceHeads> WeightStore::LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                   int cols) {
  const size_t head_values = static_cast<size_t>(rows) * static_cast<size_t>(cols);
  NUMOE_CHECK_EQ(values.size(), head_values * static_cast<size_t>(heads));
  const size_t head_bytes = DeviceBytes(DeviceFormat::kBf16, rows, cols, false);
  DeviceHeads stored{.first = {.rows = rows, .cols = cols}, .heads = heads, .head_bytes = head_bytes};
  ASSIGN_OR_RETURN(std::byte* const to, Reserve(head_bytes * static_cast<size_t>(heads)));
  stored.first.data = to;
  if (to == nullptr) return stored;
  RETURN_IF_ERROR(Fill(to, {heads, head_bytes}, [&](int64_t first, int64_t last, absl::Span<std::byte> out) {
    for (int64_t h = first; h < last; ++h) {
      PackDeviceMatrix(
          DeviceFormat::kBf16,
          ValuesView(values.subspan(static_cast<size_t>(h) * head_values, head_values), rows, cols),
          out.subspan(static_cast<size_t>(h - first) * head_bytes, head_bytes));
    }
  }));
  return stored;
}

absl::StatusOr<const Bf16*> WeightStore::LoadRows(const MatrixView& source) {
  const auto cols = static_cast<size_t>(source.cols);
  const size_t row_bytes = cols * sizeof(Bf16);
  ASSIGN_OR_RETURN(std::byte* const to, Reserve(static_cast<size_t>(source.rows) * row_bytes));
  if (to == nullptr) return nullptr;
  RETURN_IF_ERROR(
      Fill(to, {source.rows, row_bytes}, [&](int64_t first, int64_t last, absl::Span<std::byte> out) {
        if (source.format == MatrixFormat::kBF16) {
          std::memcpy(out.data(), source.data.data() + static_cast<size_t>(first) * row_bytes, out.size());
          return;
        }
        std::vector<float> row(cols);
        auto* bits = reinterpret_cast<uint16_t*>(out.data());
        for (int64_t r = first; r < last; ++r) {
          DecodeMatrix(source, r, r + 1, 0, source.cols, absl::MakeSpan(row));
          for (const float value : row) *bits++ = EncodeBf16(value);
        }
      }));
  return reinterpret_cast<const Bf16*>(to);
}

const float* WeightStore::LoadFloats(absl::Span<const float> values) {
  const absl::StatusOr<std::byte*> to = Reserve(values.size() * sizeof(float));
  absl::Status status = to.status();
  if (status.ok() && *to != nullptr) {
    status = Fill(*to, {static_cast<int64_t>(values.size()), sizeof(float)},
                  [&](int64_t first, int64_t, absl::Span<std::byte> out) {
                    std::memcpy(out.data(), values.data() + first, out.size());
                  });
  }
  if (first_error_.ok()) first_error_ = status;
  return status.ok() ? reinterpret_cast<const float*>(*to) : nullptr;
}

absl::Status WeightStore::Finish() {
  for (Staging& staging : staging_) {
    if (staging.stream == nullptr) continue;
    const absl::Status copied = runtime_->Synchronize(staging.stream);
    if (first_error_.ok()) first_error_ = copied;
    staging.memory.reset();
  }
  pool_.reset();
  return first_error_;
}

}  // namespace numoe::execution::cuda
