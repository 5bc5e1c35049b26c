// A paged KV cache on the device for tests of attention: it is filled by the same kernel as in service, and
// read back on the host in double precision.
//
// Blocks are assigned in random order, and all rows to which no token was written are NaN, so that a kernel
// that reads beyond a sequence's end, or uses another sequence's table, gives NaN. One thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "common/formats/bf16.h"
#include "common/kernels/cache_row.h"
#include "coordinator/execution/device/cuda/kernels/cache.h"
#include "tests/support/device_buffer.h"

namespace numoe::execution::cuda {

inline std::vector<float> ScaledFloats(size_t count, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}
inline std::vector<Bf16> RoundAll(const std::vector<float>& values) {
  std::vector<Bf16> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) rounded[i] = {EncodeBf16(values[i])};
  return rounded;
}
inline double Value(Bf16 value) { return DecodeBf16(value.bits); }

struct PagedShape {
  bool fp8 = false;
  int heads = 1;
  int key_width = 0;
  int value_width = 0;
  int plain_width = 0;
};

/// Sequences of the given lengths, with random values at every position.
class PagedCache {
 public:
  PagedCache(const PagedShape& shape, const std::vector<int>& lengths, std::mt19937& random)
      : lengths_(lengths) {
    layer_.heads = shape.heads;
    layer_.keys = MakeCacheForm(shape.fp8, shape.key_width, shape.plain_width);
    if (shape.value_width > 0) layer_.values = MakeCacheForm(shape.fp8, shape.value_width, 0);
    blocks_per_sequence_max_ = 1;
    for (const int length : lengths) {
      layer_.blocks += (length + 15) / 16;
      blocks_per_sequence_max_ = std::max(blocks_per_sequence_max_, (length + 15) / 16 + 1);
    }
    layer_.blocks += 3;                                            // blocks of no sequence
    bytes_.emplace(static_cast<size_t>(CacheLayerBytes(layer_)));  // new memory is NaN
    layer_.base = bytes_->data();
    std::vector<int32_t> free(static_cast<size_t>(layer_.blocks));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), random);
    tables_host_.assign(lengths.size() * static_cast<size_t>(blocks_per_sequence_max_), -1);
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int b = 0; b < (lengths[s] + 15) / 16; ++b) {
        tables_host_[s * static_cast<size_t>(blocks_per_sequence_max_) + static_cast<size_t>(b)] =
            free.back();
        free.pop_back();
      }
    }
    tables_.emplace(tables_host_);
    Fill(random);
  }

  const CacheLayer& layer() const { return layer_; }
  /// Returns tables with these positions and sequences of rows, which belong to the caller.
  StepTables Tables(const int32_t* positions, const int32_t* sequences) {
    return {.positions = positions,
            .sequences = sequences,
            .block_tables = tables_->data(),
            .blocks_per_sequence_max = blocks_per_sequence_max_};
  }
  const int32_t* TableOf(int sequence) {
    return tables_->data() + int64_t{sequence} * blocks_per_sequence_max_;
  }

  /// Copies the cache's bytes, which the functions below decode.
  void Snapshot() { snapshot_ = bytes_->Download(); }
  std::vector<double> Key(int sequence, int position, int head) const {
    return Row(layer_.keys, int64_t{head} * layer_.blocks * layer_.keys.block_bytes, sequence, position);
  }
  std::vector<double> ValueRow(int sequence, int position, int head) const {
    const int64_t keys = int64_t{layer_.heads} * layer_.blocks * layer_.keys.block_bytes;
    return Row(layer_.values, keys + int64_t{head} * layer_.blocks * layer_.values.block_bytes, sequence,
               position);
  }

 private:
  void Fill(std::mt19937& random) {
    std::vector<int32_t> positions, sequences;
    for (size_t s = 0; s < lengths_.size(); ++s) {
      for (int p = 0; p < lengths_[s]; ++p) {
        positions.push_back(p);
        sequences.push_back(static_cast<int32_t>(s));
      }
    }
    const int width = layer_.heads * (layer_.keys.width + layer_.values.width);
    DeviceBuffer<float> rows(ScaledFloats(positions.size() * static_cast<size_t>(width), 1.0f, random));
    DeviceBuffer<int32_t> positions_device(positions);
    DeviceBuffer<int32_t> sequences_device(sequences);
    LaunchWriteKv(WriteKvArgs<float>{.cache = layer_,
                                     .tables = Tables(positions_device.data(), sequences_device.data()),
                                     .source = rows.data(),
                                     .stride = width,
                                     .rows = static_cast<int>(positions.size())},
                  nullptr);
    Snapshot();
  }

  std::vector<double> Row(const CacheForm& form, int64_t plane, int sequence, int position) const {
    const int32_t block =
        tables_host_[static_cast<size_t>(sequence * blocks_per_sequence_max_ + position / 16)];
    const std::byte* const rows = snapshot_.data() + plane + int64_t{block} * form.block_bytes;
    const std::byte* const row = rows + position % 16 * form.row_bytes;
    const auto* exponents =
        reinterpret_cast<const uint8_t*>(rows + 16 * form.row_bytes) + position % 16 * form.groups;
    std::vector<double> values(static_cast<size_t>(form.width));
    for (int i = 0; i < form.width; ++i) {
      uint16_t bits;
      if (i < form.coded) {
        bits = cache_row::Widen(static_cast<uint8_t>(row[i]), exponents[i / cache_row::kGroup]);
      } else {
        std::memcpy(&bits, row + form.coded + (i - form.coded) * 2, sizeof(bits));
      }
      values[static_cast<size_t>(i)] = DecodeBf16(bits);
    }
    return values;
  }

  std::vector<int> lengths_;
  CacheLayer layer_;
  int blocks_per_sequence_max_ = 0;
  std::vector<int32_t> tables_host_;
  std::vector<std::byte> snapshot_;
  std::optional<DeviceBuffer<std::byte>> bytes_;
  std::optional<DeviceBuffer<int32_t>> tables_;
};

/// Attention of one query over keys and values, in double, and the magnitude: sum of weight * |value|, which
/// is the error if every weight had an error of 100 %.
struct Attended {
  std::vector<double> out;
  std::vector<double> magnitude;
};
inline Attended AttendInDouble(absl::Span<const Bf16> query, const std::vector<std::vector<double>>& keys,
                               const std::vector<std::vector<double>>& values, int value_width,
                               double scale) {
  std::vector<double> scores(keys.size());
  double top = -std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < keys.size(); ++p) {
    double score = 0;
    for (size_t i = 0; i < query.size(); ++i) score += Value(query[i]) * keys[p][i];
    scores[p] = score * scale;
    top = std::max(top, scores[p]);
  }
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - top);
  Attended result{std::vector<double>(static_cast<size_t>(value_width)),
                  std::vector<double>(static_cast<size_t>(value_width))};
  for (size_t p = 0; p < keys.size(); ++p) {
    for (int i = 0; i < value_width; ++i) {
      const double share = scores[p] / total * values[p][static_cast<size_t>(i)];
      result.out[static_cast<size_t>(i)] += share;
      result.magnitude[static_cast<size_t>(i)] += std::fabs(share);
    }
  }
  return result;
}

/// A weight is rounded to BF16 (2^-8), and so is the result (2^-8 of a value that is at most the magnitude).
/// A score's error e (of fp32 sums of some hundred products, scaled) changes a weight by e of itself: 2^-11
/// allows scores of 60 with an error of 2^-17, and the hardware's truncated sums.
inline double AttendTolerance(double magnitude) { return magnitude * (0x1p-7 + 0x1p-11) + 1e-6; }

}  // namespace numoe::execution::cuda
