// CpuStep: one forward pass in host memory.
//
// Its arithmetic is in cpu_operations.h; the backend reads the rows of routed work directly from the tensors.
// A step in halves computes one of them while the workers compute the experts of the other. One thread, the
// engine's.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/execution/device/cpu/cpu_parts.h"
#include "coordinator/execution/device/step.h"

namespace numoe::execution {

class CpuStep final : public Step {
 public:
  CpuStep(const StepLayout& layout, const CpuParts& parts);

  ExpertExecution expert_execution() const override {
    return layout_.second_half > 0 ? ExpertExecution::kHalves : ExpertExecution::kWhole;
  }
  Rows all() const override { return {RowSet::kAll, 0, layout_.rows()}; }
  absl::Span<const Rows> parts() const override { return layer_rows_; }
  Operations& ops() override { return *operations_; }
  Rows SelectLogitRows(Tensor in, Tensor out) override;
  absl::StatusOr<StepOutput> ReadLogits(Rows rows, Tensor logits) override;

 private:
  void Stage(const RoutedRows&) override {}  // the data to send is in the tensors already
  absl::Status Send(const RoutedRows& work, Tensor residual) override;
  absl::Status Add(const RoutedRows& work, Tensor residual) override;
  absl::Status AddDeferred(const RoutedRows& work, Tensor residual) override;
  bool defers() const override { return layout_.deferred_experts > 0; }
  absl::Span<float> SpanOf(Rows rows, Tensor tensor) const;

  const StepLayout& layout_;
  const CpuParts parts_;
  std::vector<Rows> layer_rows_;  // all rows, or one half and then the other
  const std::unique_ptr<Operations> operations_;
};

}  // namespace numoe::execution
