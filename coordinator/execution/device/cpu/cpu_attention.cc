#include "coordinator/execution/device/cpu/cpu_attention.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "coordinator/execution/device/cpu/vector_ops.h"

namespace numoe::execution {
namespace {

constexpr int kJoinHeads = 8;  // of one join task
// Latents that are multiplied by a head's matrices together: one step of 64 inputs of the packed values.
constexpr int kExpandRows = 64;

// Returns the format of queries and of softmax weights. Softmax writes only BF16 or fp32; rows of kTiles are
// the same as those of kBf16.
ActivationFormat AttentionFormat(Isa isa, int rows, Precision precision) {
  const ActivationFormat format = ChooseActivationFormat(isa, WeightFormat::kBf16, rows, precision);
  return format == ActivationFormat::kTiles ? ActivationFormat::kBf16 : format;
}

float* OutRow(const CpuAttention::Call& call, int token, int head) {
  return call.out + (int64_t{token} * call.args.heads + head) * call.args.value_width;
}

void Normalise(float* out, const SoftmaxPart& total, int width) {
  for (int i = 0; i < width; ++i) out[i] /= total.sum;
}

}  // namespace

template <typename T>
T* CpuAttention::Reserve(std::vector<Line>& lines, size_t values) {
  const size_t wanted = (values * sizeof(T) + sizeof(Line) - 1) / sizeof(Line);
  if (lines.size() < wanted) lines.resize(wanted);
  return reinterpret_cast<T*>(lines.data());
}

void CpuAttention::Attend(const Call& call, const AttendPlan& plan) {
  const AttendArgs& args = call.args;
  const size_t rows = static_cast<size_t>(plan.scattered_rows);
  scattered_sums_.assign(rows, {});
  if (scattered_.size() < rows * static_cast<size_t>(args.value_width))
    scattered_.resize(rows * static_cast<size_t>(args.value_width));
  totals_.assign(call.layout->tokens.size() * static_cast<size_t>(args.heads), {});
  pool_.Run(static_cast<int>(plan.tasks.size()), [&](int task, int thread) {
    RunTask(call, plan.tasks[static_cast<size_t>(task)], scratch_[static_cast<size_t>(thread)]);
  });
  const int per_token = (args.heads + kJoinHeads - 1) / kJoinHeads;
  pool_.Run(static_cast<int>(plan.joins.size()) * per_token, [&](int task, int) {
    const int begin = task % per_token * kJoinHeads;
    JoinToken(call, plan.joins[static_cast<size_t>(task / per_token)], begin,
              std::min(begin + kJoinHeads, args.heads));
  });
}

CpuAttention::AttentionPath CpuAttention::ChoosePath(const Call& call, const AttendTask& task) const {
  if (call.expansion) return AttentionPath::kExpanded;
  const ActivationFormat format = AttentionFormat(isa_, task.rows(), call.precision);
  if (task.rows() <= kFewRowsMax && HasFewRows(isa_, format)) return AttentionPath::kUnpacked;
  return task.rows() <= kGroupRows ? AttentionPath::kPanelByPanel : AttentionPath::kPacked;
}

void CpuAttention::RunTask(const Call& call, const AttendTask& task, Scratch& scratch) {
  const AttentionPath path = ChoosePath(call, task);
  const int group_tokens = path == AttentionPath::kUnpacked
                               ? task.token_end - task.token_begin
                               : std::max(1, kGroupRows / (task.head_end - task.head_begin));
  for (int part = task.part_begin; part < task.part_end; ++part) {
    scratch.part.List(*call.cache, *call.layout, task, call.args.cache.layer,
                      call.expansion ? 0 : task.kv_head, part);
    if (path == AttentionPath::kExpanded) ExpandPart(call, task.kv_head, scratch);
    if (path == AttentionPath::kPacked) PackPart(call, scratch.part, scratch);
    for (int token = task.token_begin; token < task.token_end; token += group_tokens) {
      AttendGroup(call,
                  {.task = &task,
                   .path = path,
                   .part = part,
                   .keys = scratch.part.count(),
                   .token_begin = token,
                   .token_end = std::min(token + group_tokens, task.token_end)},
                  scratch);
    }
  }
  if (task.scattered_parts > 0) return;
  for (int t = task.token_begin; t < task.token_end; ++t) {
    for (int h = task.head_begin; h < task.head_end; ++h) {
      Normalise(OutRow(call, t, h), totals_[static_cast<size_t>(t * call.args.heads + h)],
                call.args.value_width);
    }
  }
}

CacheRows CpuAttention::Keys(const Call& call, const CachedPart& part) {
  return part.keys.Part(0, part.count(), call.args.key_width);
}

CacheRows CpuAttention::Values(const Call& call, const CachedPart& part) {
  return (call.args.value_in_key ? part.keys : part.values).Part(0, part.count(), call.args.value_width);
}

void CpuAttention::PackPart(const Call& call, const CachedPart& part, Scratch& scratch) {
  PackKeys(isa_, Keys(call, part), KeyMatrix(call, part.count(), scratch));
  PackValues(isa_, Values(call, part), ValueMatrix(call, part.count(), scratch));
}

std::byte* CpuAttention::KeyMatrix(const Call& call, int keys, Scratch& scratch) {
  return Reserve<std::byte>(scratch.keys, PackedBytes(WeightFormat::kBf16, keys, call.args.key_width));
}

std::byte* CpuAttention::ValueMatrix(const Call& call, int keys, Scratch& scratch) {
  return Reserve<std::byte>(scratch.values, PackedBytes(WeightFormat::kBf16, call.args.value_width, keys));
}

// Computes and packs one head's keys and values of the part.
void CpuAttention::ExpandPart(const Call& call, int head, Scratch& scratch) {
  const auto keys = static_cast<size_t>(scratch.part.count());
  const auto key_width = static_cast<size_t>(call.args.key_width);
  const auto value_width = static_cast<size_t>(call.args.value_width);
  auto* own_keys = Reserve<uint16_t>(scratch.own_keys, keys * key_width);
  auto* own_values = Reserve<uint16_t>(scratch.own_values, keys * value_width);
  scratch.own.keys.count = scratch.own.values.count = scratch.part.count();
  for (size_t k = 0; k < keys; ++k) {
    scratch.own.keys.rows[k] = reinterpret_cast<const std::byte*>(own_keys + k * key_width);
    scratch.own.values.rows[k] = reinterpret_cast<const std::byte*>(own_values + k * value_width);
  }
  for (size_t first = 0; first < keys; first += kExpandRows) {
    const size_t count = std::min<size_t>(kExpandRows, keys - first);
    ExpandRows(call, head, static_cast<int>(first), static_cast<int>(count), own_keys + first * key_width,
               own_values + first * value_width, scratch);
  }
  PackPart(call, scratch.own, scratch);
}

void CpuAttention::ExpandRows(const Call& call, int head, int first, int count, uint16_t* own_keys,
                              uint16_t* own_values, Scratch& scratch) const {
  const PackedMatrix& key_up = (*call.expansion->keys)[static_cast<size_t>(head)];
  const PackedMatrix& value_up = (*call.expansion->values)[static_cast<size_t>(head)];
  const int latent = key_up.cols;
  const ActivationFormat format = ChooseActivationFormat(isa_, WeightFormat::kBf16, count, call.precision);
  QuantisedRows rows{format, nullptr, quantised::RowBytes(format, latent), count};
  auto* row = Reserve<std::byte>(scratch.latents, static_cast<size_t>(count) * rows.stride);
  rows.data = row;
  const int rope = call.args.key_width - key_up.rows;
  const CacheRows cached = scratch.part.keys.Part(0, scratch.part.count(), latent + rope);
  auto* wide = Reserve<uint16_t>(scratch.wide, static_cast<size_t>(cached.width));
  for (int i = 0; i < count; ++i, row += rows.stride) {
    WidenRow(isa_, cached, first + i, wide);
    QuantiseBf16Row(isa_, format, wide, latent, row);
    std::copy_n(wide + latent, rope, own_keys + int64_t{i} * call.args.key_width + key_up.rows);
  }
  auto* outputs =
      Reserve<float>(scratch.outputs,
                     static_cast<size_t>(count) * static_cast<size_t>(std::max(key_up.rows, value_up.rows)));
  const auto multiply = [&](const PackedMatrix& weight) {
    Multiply(isa_,
             {.weight = weight, .row_end = weight.rows, .x = rows, .y = outputs, .y_stride = weight.rows});
  };
  const auto to_bf16 = VectorOpsFor(isa_).to_bf16;
  multiply(key_up);
  for (int i = 0; i < count; ++i, own_keys += call.args.key_width)
    to_bf16(outputs + int64_t{i} * key_up.rows, own_keys, key_up.rows);
  multiply(value_up);
  to_bf16(outputs, own_values, count * value_up.rows);
}

void CpuAttention::AttendGroup(const Call& call, const Group& group, Scratch& scratch) {
  const AttendArgs& args = call.args;
  // The number of keys up to the last token's own position; zero or less if the whole part follows the group.
  const int reach =
      call.layout->positions[static_cast<size_t>(group.token_end - 1)] + 1 - group.part * kPartKeys;
  if (reach <= 0) return;
  const int limit = std::min(reach, group.keys);
  const ActivationFormat format = AttentionFormat(isa_, group.rows(), call.precision);
  const auto count = static_cast<size_t>(group.rows());
  QuantisedRows queries{format, nullptr, quantised::RowBytes(format, args.key_width), group.rows()};
  QuantisedRows weights{format, nullptr, quantised::RowBytes(format, kPartKeys), group.rows()};
  auto* query = Reserve<std::byte>(scratch.queries, count * queries.stride);
  auto* weight = Reserve<std::byte>(scratch.weights, count * weights.stride);
  auto* scores = Reserve<float>(scratch.scores, count * kPartKeys);
  auto* context = Reserve<float>(scratch.context, count * static_cast<size_t>(args.value_width));
  queries.data = query;
  weights.data = weight;
  for (int r = 0; r < group.rows(); ++r, query += queries.stride) {
    const float* row = call.query + (int64_t{group.token(r)} * args.heads + group.head(r)) * args.key_width;
    QuantiseRow(isa_, format, row, args.key_width, query);
  }
  ScoreKeys(call, group, queries, limit, scores, scratch);
  WeighKeys(call, group, scores, format, weight, scratch);
  AddValues(call, group, weights, context, scratch);
  KeepGroup(call, group, context, scratch);
}

void CpuAttention::ScoreKeys(const Call& call, const Group& group, const QuantisedRows& queries, int limit,
                             float* scores, Scratch& scratch) const {
  const int width = call.args.key_width;
  if (group.path == AttentionPath::kUnpacked) {
    return ScoreFewRows(isa_, {.cache = Keys(call, scratch.part),
                               .x = queries.data,
                               .x_stride = queries.stride,
                               .rows = queries.count,
                               .y = scores,
                               .y_stride = kPartKeys});
  }
  std::byte* matrix = KeyMatrix(call, group.keys, scratch);
  // Keys are the outputs of their matrix, so the first `limit` keys are the beginning of the matrix.
  QuantisedProduct product{.weight = {WeightFormat::kBf16, limit, width, matrix},
                           .row_end = limit,
                           .x = queries,
                           .y = scores,
                           .y_stride = kPartKeys};
  if (group.path != AttentionPath::kPanelByPanel) return Multiply(isa_, product);
  for (int key = 0; key < limit; key += kPanelRows) {
    product.row_begin = key;
    product.row_end = std::min(key + kPanelRows, limit);
    product.y = scores + key;
    // The next rows are often contiguous in the cache: the kernel prefetches the next panel's rows while it
    // multiplies this one.
    if (product.row_end < limit) product.next = scratch.part.keys.rows[static_cast<size_t>(product.row_end)];
    PackKeys(isa_, scratch.part.keys.Part(key, product.row_end, width),
             matrix + PackedBytes(WeightFormat::kBf16, key, width));
    Multiply(isa_, product);
  }
}

void CpuAttention::AddValues(const Call& call, const Group& group, const QuantisedRows& weights,
                             float* context, Scratch& scratch) const {
  const int width = call.args.value_width;
  if (group.path == AttentionPath::kUnpacked) {
    return WeighFewRows(isa_, {.cache = Values(call, scratch.part),
                               .x = weights.data,
                               .x_stride = weights.stride,
                               .rows = weights.count,
                               .y = context,
                               .y_stride = width});
  }
  std::byte* matrix = ValueMatrix(call, group.keys, scratch);
  if (group.path == AttentionPath::kPanelByPanel) PackValues(isa_, Values(call, scratch.part), matrix);
  Multiply(isa_, {.weight = {WeightFormat::kBf16, width, group.keys, matrix},
                  .row_end = width,
                  .x = weights,
                  .y = context,
                  .y_stride = width});
}

// Computes each row's softmax over the keys up to its own position. Rows whose position is before the part
// get no weights.
void CpuAttention::WeighKeys(const Call& call, const Group& group, const float* scores,
                             ActivationFormat format, std::byte* weights, Scratch& scratch) {
  const size_t stride = quantised::RowBytes(format, kPartKeys);
  scratch.sums.assign(static_cast<size_t>(group.rows()), {});
  for (int r = 0; r < group.rows(); ++r, weights += stride, scores += kPartKeys) {
    const int valid =
        call.layout->positions[static_cast<size_t>(group.token(r))] + 1 - group.part * kPartKeys;
    if (valid <= 0) {
      std::fill_n(weights, stride, std::byte{0});
      continue;
    }
    scratch.sums[static_cast<size_t>(r)] = Softmax(isa_, {.scores = scores,
                                                          .valid = std::min(valid, group.keys),
                                                          .count = group.keys,
                                                          .scale = call.args.scale,
                                                          .format = format,
                                                          .weights = weights});
  }
}

void CpuAttention::KeepGroup(const Call& call, const Group& group, const float* context,
                             const Scratch& scratch) {
  const int width = call.args.value_width;
  const AttendTask& task = *group.task;
  for (int r = 0; r < group.rows(); ++r, context += width) {
    const int t = group.token(r);
    const int h = group.head(r);
    const SoftmaxPart& weight = scratch.sums[static_cast<size_t>(r)];
    if (task.scattered_parts > 0) {
      const auto row = static_cast<size_t>(
          task.scattered + (int64_t{t - task.token_begin} * call.args.heads + h) * task.scattered_parts +
          group.part);
      std::copy_n(context, width, &scattered_[row * static_cast<size_t>(width)]);
      scattered_sums_[row] = weight;
    } else {
      Join(OutRow(call, t, h), totals_[static_cast<size_t>(t * call.args.heads + h)], context, weight, width);
    }
  }
}

void CpuAttention::JoinToken(const Call& call, const AttendJoin& join, int head_begin, int head_end) {
  const int width = call.args.value_width;
  for (int h = head_begin; h < head_end; ++h) {
    float* out = OutRow(call, join.token, h);
    SoftmaxPart total;
    for (int part = 0; part < join.parts; ++part) {
      const auto row = static_cast<size_t>(join.scattered + int64_t{h} * join.parts + part);
      Join(out, total, &scattered_[row * static_cast<size_t>(width)], scattered_sums_[row], width);
    }
    Normalise(out, total, width);
  }
}

// Adds a part's result to a row's result so far; the first part is copied.
void CpuAttention::Join(float* out, SoftmaxPart& total, const float* part, const SoftmaxPart& weight,
                        int width) const {
  if (weight.sum == 0) return;  // the part follows the row's position
  if (total.sum == 0) {
    std::copy_n(part, width, out);
    total = weight;
    return;
  }
  const float top = std::max(total.top, weight.top);
  const float keep = std::exp(total.top - top);
  const float add = std::exp(weight.top - top);
  JoinParts(isa_, out, keep, part, add, width);
  total = {top, total.sum * keep + weight.sum * add};
}

}  // namespace numoe::execution
