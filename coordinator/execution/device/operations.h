// Operations: the arithmetic of a step, with which attention and the model are written.
//
// The first argument of an operation is the rows of the step (step.h) on which it runs. Operations are
// enqueued in order and may run asynchronously (a CUDA stream). They CHECK shapes, because only the model
// sets them. CONTRACT.md in coordinator/execution/model explains how to add one. One thread, the engine's.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "coordinator/execution/device/tensors.h"
#include "coordinator/execution/gate/gate.h"

namespace numoe::execution {

/// The rows of a step that operations can run on together.
enum class RowSet : uint8_t { kAll, kFirstHalf, kSecondHalf, kLogits };

/// Rows [first, first + count) of the step's tensors. The step creates them; in a captured step on a GPU
/// `count` includes padding. kLogits are the rows of the tensor that Step::SelectLogitRows filled.
struct Rows {
  RowSet set = RowSet::kAll;
  int first = 0;
  int count = 0;
};

class Operations {
 public:
  virtual ~Operations() = default;

  /// out[t] = table[token of t].
  virtual void Embed(Rows rows, const Matrix& table, Tensor out) = 0;
  /// For each window of `width` channels: out = in * rsqrt(mean(in^2) + eps) * weight.
  virtual void RmsNorm(Rows rows, HeadView in, int width, const Vector& weight, float eps, HeadView out) = 0;
  /// Multiplies one input by any number of matrices. The targets' windows must not overlap.
  virtual void Linear(Rows rows, Tensor in, absl::Span<const LinearTarget> targets) = 0;
  /// out = silu(gate * in) * (up * in).
  virtual void GatedLinear(Rows rows, Tensor in, const GatedMatrix& matrices, Tensor out) = 0;
  /// Rotates table.dim channels of each window by the token's position.
  virtual void Rope(Rows rows, const RopeTable& table, HeadView in, HeadView out) = 0;
  /// Stores each token's row in its sequence's block of a layer's cache.
  virtual void WriteKv(Rows rows, CachePlace cache, Tensor values) = 0;
  virtual void Attend(Rows rows, const AttendArgs& args) = 0;
  virtual void AttendLatent(Rows rows, const LatentAttendArgs& args) = 0;
  /// Computes the experts that the gate selects for each token, and their weights in the sum.
  virtual void Route(Rows rows, const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) = 0;
};

/// The operations of a step that a captured graph computes: they do nothing.
class NoOperations final : public Operations {
 public:
  void Embed(Rows, const Matrix&, Tensor) override {}
  void RmsNorm(Rows, HeadView, int, const Vector&, float, HeadView) override {}
  void Linear(Rows, Tensor, absl::Span<const LinearTarget>) override {}
  void GatedLinear(Rows, Tensor, const GatedMatrix&, Tensor) override {}
  void Rope(Rows, const RopeTable&, HeadView, HeadView) override {}
  void WriteKv(Rows, CachePlace, Tensor) override {}
  void Attend(Rows, const AttendArgs&) override {}
  void AttendLatent(Rows, const LatentAttendArgs&) override {}
  void Route(Rows, const Gate&, const GateParams&, Tensor, RouteTable) override {}
};

}  // namespace numoe::execution
