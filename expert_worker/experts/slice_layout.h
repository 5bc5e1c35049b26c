// SliceLayout: which weights a slice holds, and what lies where in a layer's packed block.
//
// A worker holds a part of every expert's intermediate dimension, or whole experts. A layer's block is its
// experts one after the other in ascending order, and an expert gate [width, hidden], up [width, hidden] and
// down [hidden, width], each in the packed layout of its format. The same in memory and in packed shards
// (packed_shard.h). A value; no weights.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kernels/kernels.h"
#include "common/weights/model_config.h"

namespace numoe {

enum class SliceMode : uint8_t {
  kIntermediate,
  kExpert
};  // 1/N of every expert | whole experts, expert % N == index

struct SliceSpec {
  SliceMode mode = SliceMode::kIntermediate;
  int worker_index = 0;
  int worker_count = 1;
  bool operator==(const SliceSpec&) const = default;
};

const char* SliceModeName(SliceMode mode);  // "intermediate" "expert"

struct ExpertWeights {
  PackedMatrix gate, up, down;
};

class SliceLayout {
 public:
  /// InvalidArgument: the spec makes no sense for the model, or the slice would cut a quantisation group;
  /// says what to do.
  static absl::StatusOr<SliceLayout> Plan(const ModelConfig& config, const SliceSpec& spec,
                                          WeightFormat format);

  const SliceSpec& spec() const { return spec_; }
  WeightFormat format() const { return format_; }
  int hidden_size() const { return hidden_size_; }
  int width() const { return width_; }                            // of this slice's part of an expert
  int64_t first() const { return first_; }                        // where that part begins in the whole
  const std::vector<bool>& owned() const { return owned_; }       // [experts]
  const std::vector<ExpertId>& experts() const { return mine_; }  // the owned ones, ascending

  size_t up_bytes() const { return up_bytes_; }  // gate's or up's
  size_t down_bytes() const { return down_bytes_; }
  size_t expert_bytes() const { return 2 * up_bytes_ + down_bytes_; }
  size_t layer_bytes() const { return mine_.size() * expert_bytes(); }

  /// The weights of the expert at `place` in experts(), in a layer's block.
  ExpertWeights WeightsAt(const std::byte* layer, size_t place) const;

 private:
  SliceLayout() = default;

  SliceSpec spec_;
  WeightFormat format_ = WeightFormat::kBf16;
  int hidden_size_ = 0;
  int width_ = 0;
  int64_t first_ = 0;
  std::vector<bool> owned_;
  std::vector<ExpertId> mine_;
  size_t up_bytes_ = 0;
  size_t down_bytes_ = 0;
};

}  // namespace numoe
