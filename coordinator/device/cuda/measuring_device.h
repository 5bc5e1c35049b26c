// MeasuringDevice: counts what a model would take of a GPU, on a machine that has none.
//
// Loads like the CUDA device, by the same code, and stores nothing. It has no kernels: running a step on it
// is a bug in its caller. One thread.
#pragma once

#include <string>

#include "common/base/check.h"
#include "coordinator/device/cuda/cuda_storage.h"

namespace numoe::cuda {

class MeasuringDevice final : public CudaStorage {
 public:
  /// `facts` of the card that is planned for.
  MeasuringDevice(const StepBounds& bounds, const DeviceFacts& facts)
      : CudaStorage(bounds, facts, /*runtime=*/nullptr, /*stream=*/nullptr) {}

  void BeginStep(const StepLayout&) override { Cannot(); }
  StepWay Way() const override { return StepWay::kWhole; }
  void UseRows(StepSpan) override { Cannot(); }
  void Embed(const Matrix&, Tensor) override { Cannot(); }
  void RmsNorm(HeadView, int, const Vector&, float, HeadView) override { Cannot(); }
  void Linear(Tensor, absl::Span<const LinearTarget>) override { Cannot(); }
  void GatedLinear(Tensor, const GatedMatrix&, Tensor) override { Cannot(); }
  void Rope(const RopeTable&, HeadView, HeadView) override { Cannot(); }
  void WriteKv(LayerId, Tensor) override { Cannot(); }
  void Attend(const AttendArgs&) override { Cannot(); }
  void AttendLatent(const LatentAttendArgs&) override { Cannot(); }
  void Route(const Gate&, const GateParams&, Tensor, RouteTable) override { Cannot(); }
  void StageExperts(LayerId, Tensor, RouteTable) override { Cannot(); }
  absl::Status StartExperts(ExpertBackend&, Tensor) override { return RunsNothing(); }
  absl::Status JoinExperts(ExpertBackend&, Tensor) override { return RunsNothing(); }
  absl::Status JoinDeferredExperts(ExpertBackend&, Tensor) override { return RunsNothing(); }
  void SelectLogitRows(Tensor, Tensor) override { Cannot(); }
  absl::StatusOr<absl::Span<const float>> ReadLogits(Tensor) override { return RunsNothing(); }
  std::string Describe() const override { return facts_.name; }

 private:
  static void Cannot() { NUMOE_CHECK(false) << "a device that only measures was asked to run"; }
  static absl::Status RunsNothing() {
    Cannot();
    return absl::OkStatus();
  }
};

}  // namespace numoe::cuda
