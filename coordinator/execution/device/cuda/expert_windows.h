// ExpertWindows: fetches the experts of long prompts from the workers' memory and computes them here, layer
// by layer.
//
// The workers' mapped weights are pinned once per session. A step's experts are fetched in windows
// (expert_window_plan.h) by three streams that are synchronised by events:
//
//   copies    a stage is filled over PCIe            waits until the stage was repacked
//   repacks   the stage becomes slots of a window    waits for the stage, and until the window was computed
//   compute   the window's products                  wait for the window
//
// so the next window, of this layer or the next one, is fetched while one is computed. The workers compute
// nothing and receive no calls; while a step runs, their memory cannot be unmapped. One thread, the engine's.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "coordinator/execution/device/cuda/expert_products.h"
#include "coordinator/execution/device/cuda/expert_window_plan.h"
#include "coordinator/execution/device/cuda/runtime.h"
#include "coordinator/execution/device/expert_slots.h"
#include "coordinator/execution/transport/direct_experts.h"

namespace numoe::execution::cuda {

class ExpertWindows {
 public:
  static absl::StatusOr<std::unique_ptr<ExpertWindows>> Create(const ExpertSlotSpec& spec, Runtime& runtime,
                                                               Stream compute);
  ~ExpertWindows();

  using Held = std::function<bool(LayerId, ExpertId)>;
  /// Pins the workers' memory if that has not been done yet. UNAVAILABLE: a worker does not share its memory,
  /// or is away; UNIMPLEMENTED: no kernel can assemble the workers' parts, or they are larger than the
  /// windows.
  absl::Status Adopt(DirectExperts& experts);
  /// Plans the step and begins to fetch its first windows. Returns false if the workers compute its experts.
  bool BeginStep(DirectExperts& experts, const Held& held);
  /// residual += the outputs of the layer's fetched experts, for the pairs in call.experts. Must be called
  /// for the layers in order.
  void EnqueueLayer(const ExpertsCall& call, ExpertProducts& products, float* residual);
  /// Returns the seconds that fetching one layer takes without computing. REQUIRES: Adopt returned OK; no
  /// step runs.
  absl::StatusOr<double> MeasureLayer();
  /// Must be called after the compute stream was waited for, and if a step ended early.
  void EndStep();

 private:
  // The layout and addresses of a layer's experts.
  struct Layer {
    ExpertSlot slot;
    int capacity = 0;                     // experts of a window
    std::vector<LayerPart> parts;         // [workers]
    std::vector<const std::byte*> bytes;  // [workers] address of the layer's experts
    std::vector<size_t> up_bytes;         // [workers] bytes of gate, which are also those of up
  };
  struct Window {
    ExpertWindow plan;
    const int32_t* table = nullptr;
  };
  struct Pins {
    std::vector<std::unique_ptr<Memory>> layers;
  };

  ExpertWindows(const ExpertSlotSpec& spec, Runtime& runtime, Stream compute)
      : spec_(spec), sizes_(PlanWindowSizes(spec)), runtime_(runtime), compute_(compute) {}
  bool BeginUse();
  void EndUse();
  absl::Status Pin();
  absl::Status PlanLayers();
  void PlanStep(const Held& held);
  absl::Status AwaitFetched();
  // Enqueues fetching the next window.
  void EnqueueFetch();
  void EnqueueCopy(const Layer& layer, const WindowCopy& copy, std::byte* window);
  void EnqueueRepack(const Layer& layer, const WindowCopy& copy, const std::byte* stage, std::byte* slots);
  const ExpertShare& share() const { return memories_[0]->share(); }

  const ExpertSlotSpec spec_;
  const WindowSizes sizes_;
  Runtime& runtime_;
  const Stream compute_;
  Stream copies_ = nullptr, repacks_ = nullptr;
  std::array<std::unique_ptr<Memory>, kWindows> windows_;
  std::array<std::unique_ptr<Memory>, kStages> stages_;
  std::array<Event, kWindows> window_full_{}, window_free_{};
  std::array<Event, kStages> stage_full_{}, stage_free_{};
  std::unique_ptr<Memory> host_tables_, tables_;

  std::vector<std::shared_ptr<ExpertMemory>> memories_;  // [workers] of this session
  std::vector<std::weak_ptr<ExpertMemory>> pinned_;
  absl::Status adopted_ = absl::UnavailableError("no worker's memory is mapped");
  std::vector<Layer> layers_;  // [layers]

  // The current step.
  bool in_use_ = false;
  std::vector<Window> step_;
  size_t fetched_ = 0;   // windows whose fetch is enqueued
  size_t computed_ = 0;  // windows whose products are enqueued
  size_t stage_turn_ = 0;
};

}  // namespace numoe::execution::cuda
