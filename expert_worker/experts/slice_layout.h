// SliceLayout: which weights a slice holds, and where each matrix is in a layer's packed block.
//
// A worker holds a part of every expert's intermediate dimension, or whole experts. A layer's block contains
// its experts one after the other in ascending order. Each expert is gate [width, hidden], up [width, hidden]
// and down [hidden, width], in the packed layout of its format, which may differ from layer to layer. The
// layout is the same in memory and in packed shards (packed_shard.h). A value without weights.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/kernels/kernels.h"
#include "common/weights/model_config.h"

namespace numoe::worker {

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

const char* SliceModeName(SliceMode mode);  // "intermediate" or "expert"

/// Gate and up read the same quantised activations, so they share a format; down has its own.
struct ExpertFormats {
  WeightFormat up = WeightFormat::kBf16;  // of gate and up
  WeightFormat down = WeightFormat::kBf16;
  bool operator==(const ExpertFormats&) const = default;
};

struct ExpertWeights {
  PackedMatrix gate, up, down;
};

/// Returns whether a slice of the intermediate dimension would cut a block of weights that share a scale in
/// this format.
bool CutsBlocks(const SliceSpec& spec, const ModelConfig& config, WeightFormat format, bool is_down);

class SliceLayout {
 public:
  /// `formats`: [layers]; those of dense layers have no meaning. InvalidArgument if the spec does not fit the
  /// model, or if the slice would cut a quantisation group; the message says what to do.
  static absl::StatusOr<SliceLayout> Plan(const ModelConfig& config, const SliceSpec& spec,
                                          std::vector<ExpertFormats> formats);

  const SliceSpec& spec() const { return spec_; }
  const std::vector<ExpertFormats>& formats() const { return formats_; }  // [layers]
  const ExpertFormats& formats(LayerId layer) const { return formats_[static_cast<size_t>(layer)]; }
  int hidden_size() const { return hidden_size_; }
  int width() const { return width_; }      // of this slice's part of an expert
  int64_t first() const { return first_; }  // where that part begins in the intermediate dimension
  const std::vector<bool>& owned() const { return owned_; }       // [experts]
  const std::vector<ExpertId>& experts() const { return mine_; }  // the owned ones in ascending order

  size_t up_bytes(LayerId layer) const {
    return PackedBytes(formats(layer).up, width_, hidden_size_);
  }  // or gate's
  size_t down_bytes(LayerId layer) const { return PackedBytes(formats(layer).down, hidden_size_, width_); }
  size_t expert_bytes(LayerId layer) const { return 2 * up_bytes(layer) + down_bytes(layer); }
  size_t layer_bytes(LayerId layer) const { return mine_.size() * expert_bytes(layer); }

  /// Returns the weights of the expert at index `place` of experts(), in the layer's block.
  ExpertWeights WeightsAt(LayerId layer, const std::byte* block, size_t place) const;

 private:
  SliceLayout() = default;

  SliceSpec spec_;
  std::vector<ExpertFormats> formats_;
  int hidden_size_ = 0;
  int width_ = 0;
  int64_t first_ = 0;
  std::vector<bool> owned_;
  std::vector<ExpertId> mine_;
};

}  // namespace numoe::worker
