#include "coordinator/execution/device/cuda/step_buffers.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kTasksMax = 16'384;  // per step; a task is 128 rows with a stretch of 16,384 keys
constexpr size_t kHandovers = 2;
constexpr size_t kHandoverBytes =
    (kHandovers * sizeof(HandoverStep) + kAlignment - 1) / kAlignment * kAlignment;

enum Part : size_t { kTokens, kPositions, kDecodePositions, kSequences, kLogitRows, kBlockTables };

// Returns a part's offset in bytes. Every part before the block tables has an entry for each row.
size_t Offset(const StepBounds& bounds, Part part) {
  const size_t row_bytes =
      (static_cast<size_t>(bounds.rows) * sizeof(int32_t) + kAlignment - 1) / kAlignment * kAlignment;
  return kHandoverBytes + part * row_bytes;
}

int RoundRows(int rows) {
  return rows <= 4 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))) : (rows + 7) / 8 * 8;
}

}  // namespace

StepBucket BucketFor(const StepLayout& layout, const StepBounds& bounds) {
  const auto blocks = std::bit_ceil(static_cast<unsigned>(std::max(layout.blocks_per_sequence_max, 1)));
  StepBucket bucket{.rows = std::min(RoundRows(layout.rows()), bounds.rows),
                    .blocks_per_sequence = std::min(static_cast<int>(blocks), bounds.blocks_per_sequence),
                    .exact = layout.exact,
                    .deferred_experts = layout.deferred_experts};
  if (layout.second_half > 0) {
    bucket.second_half = RoundRows(layout.second_half);
    bucket.rows = bucket.second_half + RoundRows(layout.rows() - layout.second_half);
  }
  return bucket;
}

uint64_t StepBuffers::DeviceBytes(const StepBounds& bounds) {
  const uint64_t tables = uint64_t{sizeof(int32_t)} * static_cast<uint64_t>(bounds.sequences) *
                          static_cast<uint64_t>(bounds.blocks_per_sequence);
  return Offset(bounds, kBlockTables) + tables + kTasksMax * sizeof(PrefillTask);
}

absl::StatusOr<StepBuffers> StepBuffers::Create(const StepBounds& bounds, Runtime& runtime) {
  StepBuffers buffers(bounds);
  const size_t tasks = kTasksMax * sizeof(PrefillTask);
  ASSIGN_OR_RETURN(buffers.host_tasks_, runtime.AllocateHost(tasks));
  ASSIGN_OR_RETURN(buffers.device_tasks_, runtime.Allocate(tasks));
  const size_t step = DeviceBytes(bounds) - tasks;
  ASSIGN_OR_RETURN(buffers.host_, runtime.AllocateHost(step));
  ASSIGN_OR_RETURN(buffers.device_, runtime.Allocate(step));
  std::memset(buffers.host_->host(), 0, step);
  return buffers;
}

void StepBuffers::Fill(const StepLayout& layout, const AttendSplit& split, const StepBucket& bucket) {
  NUMOE_CHECK(layout.rows() <= bucket.rows && bucket.rows <= bounds_.rows);
  NUMOE_CHECK(layout.blocks_per_sequence_max <= bucket.blocks_per_sequence);
  // A step that is not divided is treated as one whose first half is empty.
  const int cut = bucket.second_half > 0 ? layout.second_half : 0;
  const int padding_rows = bucket.second_half - cut;  // of the first half
  NUMOE_CHECK(padding_rows >= 0 && layout.rows() + padding_rows <= bucket.rows);
  const auto fill = [&](Part part, const std::vector<int32_t>& values, int32_t padding) {
    int32_t* out = Host(Offset(bounds_, part));
    out = std::copy(values.begin(), values.begin() + cut, out);
    out = std::fill_n(out, padding_rows, padding);
    out = std::copy(values.begin() + cut, values.end(), out);
    std::fill_n(out, bucket.rows - layout.rows() - padding_rows, padding);
  };
  fill(kTokens, layout.tokens, -1);
  fill(kPositions, layout.positions, -1);
  fill(kDecodePositions, split.decode_positions, -1);
  fill(kSequences, layout.sequences, 0);
  int32_t* const logit_rows = Host(Offset(bounds_, kLogitRows));
  std::fill_n(logit_rows, bucket.rows, -1);
  std::transform(layout.logit_rows.begin(), layout.logit_rows.end(), logit_rows,
                 [&](int32_t row) { return row < cut ? row : row + padding_rows; });
  const size_t width = static_cast<size_t>(layout.blocks_per_sequence_max);
  const size_t sequences = width == 0 ? 0 : layout.block_tables.size() / width;
  NUMOE_CHECK_LE(sequences, static_cast<size_t>(bounds_.sequences));
  const auto stride = static_cast<size_t>(bucket.blocks_per_sequence);
  for (size_t s = 0; s < sequences; ++s) {
    std::copy_n(&layout.block_tables[s * width], width, Host(Offset(bounds_, kBlockTables)) + s * stride);
  }
  bucket_ = bucket;
  const absl::Span<HandoverStep> steps = handovers();
  steps.back() = {.rows = layout.rows() - cut};
  if (cut > 0) steps.front() = {.rows = cut};
  used_ = Offset(bounds_, kBlockTables) + sequences * stride * sizeof(int32_t);
}

absl::Span<HandoverStep> StepBuffers::handovers() {
  return {reinterpret_cast<HandoverStep*>(host_->host()), bucket_.second_half > 0 ? kHandovers : 1};
}

void StepBuffers::Upload(Runtime& runtime, Stream stream) {
  runtime.Copy(device_->device(), host_->host(), used_, stream);
  const size_t tasks = pass_first_.empty() ? 0 : pass_first_.back() * sizeof(PrefillTask);
  if (tasks > 0) runtime.Copy(device_tasks_->device(), host_tasks_->host(), tasks, stream);
}

void StepBuffers::FillTasks(const std::vector<PrefillPass>& passes) {
  pass_first_.assign(1, 0);
  auto* out = reinterpret_cast<PrefillTask*>(host_tasks_->host());
  for (const PrefillPass& pass : passes) {
    NUMOE_CHECK_LE(pass_first_.back() + pass.tasks.size(), kTasksMax);
    std::copy(pass.tasks.begin(), pass.tasks.end(), out + pass_first_.back());
    pass_first_.push_back(pass_first_.back() + pass.tasks.size());
  }
}

const PrefillTask* StepBuffers::tasks(size_t pass) const {
  return reinterpret_cast<const PrefillTask*>(device_tasks_->device()) + pass_first_[pass];
}

const int32_t* StepBuffers::decode_positions(int first) const {
  return Device(Offset(bounds_, kDecodePositions)) + first;
}

StepTables StepBuffers::tables(int first) const {
  return {.positions = Device(Offset(bounds_, kPositions)) + first,
          .sequences = Device(Offset(bounds_, kSequences)) + first,
          .block_tables = Device(Offset(bounds_, kBlockTables)),
          .blocks_per_sequence_max = bucket_.blocks_per_sequence,
          .tokens = Device(Offset(bounds_, kTokens)) + first};
}

const int32_t* StepBuffers::logit_rows() const { return Device(Offset(bounds_, kLogitRows)); }

const HandoverStep* StepBuffers::device_handover(size_t half) const {
  return reinterpret_cast<const HandoverStep*>(device_->device()) + half;
}

}  // namespace numoe::execution::cuda
