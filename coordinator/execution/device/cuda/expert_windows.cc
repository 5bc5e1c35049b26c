#include "coordinator/execution/device/cuda/expert_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "coordinator/execution/device/cuda/kernels/experts_repack.h"

namespace numoe::execution::cuda {
namespace {

// Returns the directory's entry for the layer, or null if there is none.
const MappedLayer* Find(const MappedWeights& directory, LayerId layer) {
  const auto found = std::find_if(directory.layers.begin(), directory.layers.end(),
                                  [&](const MappedLayer& entry) { return entry.layer == layer; });
  return found == directory.layers.end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertWindows>> ExpertWindows::Create(const ExpertSlotSpec& spec,
                                                                     Runtime& runtime, Stream compute) {
  auto windows = std::unique_ptr<ExpertWindows>(new ExpertWindows(spec, runtime, compute));
  ExpertWindows& w = *windows;
  ASSIGN_OR_RETURN(w.copies_, runtime.NewStream(/*urgent=*/true));
  ASSIGN_OR_RETURN(w.repacks_, runtime.NewStream(/*urgent=*/true));
  for (auto* events : {&w.window_full_, &w.window_free_, &w.stage_full_, &w.stage_free_}) {
    for (Event& event : *events) {
      ASSIGN_OR_RETURN(event, runtime.NewEvent());
    }
  }
  for (auto& memory : w.windows_) {
    ASSIGN_OR_RETURN(memory, runtime.Allocate(w.sizes_.window));
  }
  for (auto& memory : w.stages_) {
    ASSIGN_OR_RETURN(memory, runtime.Allocate(w.sizes_.stage));
  }
  ASSIGN_OR_RETURN(w.tables_, runtime.Allocate(w.sizes_.tables));
  ASSIGN_OR_RETURN(w.host_tables_, runtime.AllocateHost(w.sizes_.tables));
  return windows;
}

ExpertWindows::~ExpertWindows() {
  EndStep();
  for (const auto& pinned : pinned_)  // pins belong to the runtime and must end before it
    if (const auto memory = pinned.lock(); memory != nullptr) memory->Unpin();
}

bool ExpertWindows::BeginUse() {
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (memories_[i]->BeginUse()) continue;
    for (size_t begun = 0; begun < i; ++begun) memories_[begun]->EndUse();
    return false;
  }
  in_use_ = true;
  return true;
}

void ExpertWindows::EndUse() {
  for (const auto& memory : memories_) memory->EndUse();
  in_use_ = false;
}

absl::Status ExpertWindows::Adopt(DirectExperts& experts) {
  NUMOE_CHECK(!in_use_);
  std::vector<std::shared_ptr<ExpertMemory>> now = experts.MappedExperts();
  if (now.empty()) {
    memories_.clear();  // DeferredUnmapper unpins it
    return absl::UnavailableError(
        "found a worker that does not share its experts on this host, expected all to; start the workers "
        "with "
        "--share-experts");
  }
  if (now == memories_) return adopted_;
  memories_ = std::move(now);
  if (!BeginUse()) {
    memories_.clear();
    return absl::UnavailableError("a worker is gone");
  }
  adopted_ = PlanLayers();
  if (adopted_.ok()) adopted_ = Pin();
  if (adopted_.ok()) {
    LogInfo("long prompts will fetch experts from the memory of {} workers", memories_.size());
  } else {
    LogWarning("the workers compute the experts of all prompts, because the GPU cannot fetch them: {}",
               std::string(adopted_.message()));
  }
  EndUse();
  return adopted_;
}

absl::Status ExpertWindows::PlanLayers() {
  const int hidden = static_cast<int>(spec_.example.gate.cols);
  const int width = static_cast<int>(spec_.example.gate.rows);
  layers_.assign(static_cast<size_t>(spec_.layers()), {});
  for (LayerId l = 0; l < spec_.layers(); ++l) {
    if (!spec_.layer_is_moe[static_cast<size_t>(l)]) continue;
    Layer& layer = layers_[static_cast<size_t>(l)];
    for (const auto& memory : memories_) {
      const MappedLayer* const entry = Find(memory->directory(), l);
      if (entry == nullptr)
        return absl::InvalidArgumentError(
            fmt::format("a worker's memory has no experts of layer {}, expected all MoE layers", l));
      layer.parts.push_back(
          {.layer = *entry, .width = memory->directory().width, .first = memory->directory().first});
      layer.bytes.push_back(memory->Bytes(*entry).data());
    }
    ASSIGN_OR_RETURN(layer.slot, SlotOfParts(layer.parts, share().by_expert, hidden, width));
    layer.capacity =
        static_cast<int>(std::min(sizes_.window / layer.slot.bytes(), static_cast<size_t>(kSlotsMax)));
    for (const LayerPart& part : layer.parts) {
      layer.up_bytes.push_back(PackedBytes(*ParseWeightFormat(part.layer.up_format), part.width, hidden));
      if (layer.capacity >= std::min(spec_.window, spec_.experts) && part.layer.expert_bytes <= sizes_.stage)
        continue;
      return absl::UnimplementedError(fmt::format(
          "found experts of layer {} with {} bytes in the workers' format, expected at most {}, for which "
          "windows are planned; start the workers with --format=auto",
          l, layer.slot.bytes(), sizes_.window / static_cast<size_t>(spec_.window)));
    }
  }
  return absl::OkStatus();
}

absl::Status ExpertWindows::Pin() {
  for (const auto& memory : memories_) {
    if (memory->pinned()) continue;
    const auto pins = std::make_shared<Pins>();
    for (const MappedLayer& layer : memory->directory().layers) {
      // The span has whole pages, because the end of a layer is padded up to the beginning of the next one.
      const absl::Span<const std::byte> bytes = memory->Bytes(layer);
      const size_t whole =
          (bytes.size() + kMappedLayerAlignment - 1) / kMappedLayerAlignment * kMappedLayerAlignment;
      ASSIGN_OR_RETURN(auto pinned, runtime_.RegisterHostReadOnly({bytes.data(), whole}));
      pins->layers.push_back(std::move(pinned));
    }
    memory->Pin(pins);
    pinned_.erase(std::remove_if(pinned_.begin(), pinned_.end(), [](const auto& p) { return p.expired(); }),
                  pinned_.end());
    pinned_.push_back(memory);
  }
  return absl::OkStatus();
}

bool ExpertWindows::BeginStep(DirectExperts& experts, const Held& held) {
  EndStep();
  if (!Adopt(experts).ok() || !BeginUse()) return false;
  PlanStep(held);
  runtime_.Copy(tables_->device(), host_tables_->host(),
                step_.size() * static_cast<size_t>(spec_.experts) * sizeof(int32_t), compute_);
  for (int i = 0; i < kWindows; ++i) EnqueueFetch();
  return true;
}

void ExpertWindows::PlanStep(const Held& held) {
  step_.clear();
  fetched_ = computed_ = 0;
  auto* host = reinterpret_cast<int32_t*>(host_tables_->host());
  const auto* device = reinterpret_cast<const int32_t*>(tables_->device());
  for (LayerId l = 0; l < spec_.layers(); ++l) {
    if (!spec_.layer_is_moe[static_cast<size_t>(l)]) continue;
    const int capacity = std::min(layers_[static_cast<size_t>(l)].capacity, spec_.experts);
    for (ExpertWindow& plan :
         PlanWindows(l, share(), capacity, [&](ExpertId expert) { return held(l, expert); })) {
      const size_t at = step_.size() * static_cast<size_t>(spec_.experts);
      NUMOE_CHECK_LT(step_.size(), static_cast<size_t>(sizes_.tables_max));
      std::fill_n(host + at, spec_.experts, int32_t{-1});
      for (size_t slot = 0; slot < plan.experts.size(); ++slot)
        host[at + static_cast<size_t>(plan.experts[slot])] = static_cast<int32_t>(slot);
      step_.push_back({.plan = std::move(plan), .table = device + at});
    }
  }
}

void ExpertWindows::EnqueueFetch() {
  if (fetched_ == step_.size()) return;
  const size_t turn = fetched_ % kWindows;
  const ExpertWindow& window = step_[fetched_++].plan;
  runtime_.Wait(repacks_, window_free_[turn]);
  for (const WindowCopy& copy : window.copies)
    EnqueueCopy(layers_[static_cast<size_t>(window.layer)], copy, windows_[turn]->device());
  runtime_.Record(window_full_[turn], repacks_);
}

void ExpertWindows::EnqueueCopy(const Layer& layer, const WindowCopy& copy, std::byte* window) {
  const auto worker = static_cast<size_t>(copy.worker);
  const size_t expert_bytes = layer.parts[worker].layer.expert_bytes;
  const int at_once = static_cast<int>(std::min<size_t>(sizes_.stage / expert_bytes, 65'535));
  for (int done = 0; done < copy.count; done += at_once) {
    WindowCopy part = copy;
    part.place += done;
    part.slot += done;
    part.count = std::min(at_once, copy.count - done);
    const size_t turn = stage_turn_++ % kStages;
    std::byte* const stage = stages_[turn]->device();
    runtime_.Wait(copies_, stage_free_[turn]);
    runtime_.Copy(stage, layer.bytes[worker] + static_cast<size_t>(part.place) * expert_bytes,
                  static_cast<size_t>(part.count) * expert_bytes, copies_);
    runtime_.Record(stage_full_[turn], copies_);
    runtime_.Wait(repacks_, stage_full_[turn]);
    EnqueueRepack(layer, part, stage, window + static_cast<size_t>(part.slot) * layer.slot.bytes());
    runtime_.Record(stage_free_[turn], repacks_);
  }
}

// Enqueues the repack of gate and up into the halves of the slot's first matrix, and of down into the second
// matrix; if experts are divided among workers, of a worker's part of each.
void ExpertWindows::EnqueueRepack(const Layer& layer, const WindowCopy& copy, const std::byte* stage,
                                  std::byte* slots) {
  const LayerPart& part = layer.parts[static_cast<size_t>(copy.worker)];
  const ExpertSlot& slot = layer.slot;
  const int first = static_cast<int>(part.first);
  const size_t up_bytes = layer.up_bytes[static_cast<size_t>(copy.worker)];
  for (int half = 0; half < 2; ++half) {
    LaunchRepack({.source = stage + static_cast<size_t>(half) * up_bytes,
                  .rows = part.width,
                  .cols = slot.hidden,
                  .target = {slot.up_format, slot.width, slot.hidden, true, nullptr},
                  .out = slots,
                  .half = half,
                  .row_begin = first,
                  .count = copy.count,
                  .source_stride = part.layer.expert_bytes,
                  .out_stride = slot.bytes(),
                  .source_format = *ParseWeightFormat(part.layer.up_format)},
                 repacks_);
  }
  LaunchRepack({.source = stage + 2 * up_bytes,
                .rows = slot.hidden,
                .cols = part.width,
                .target = {slot.down_format, slot.hidden, slot.width, false, nullptr},
                .out = slots + slot.up_bytes(),
                .col_begin = first,
                .count = copy.count,
                .source_stride = part.layer.expert_bytes,
                .out_stride = slot.bytes(),
                .source_format = *ParseWeightFormat(part.layer.down_format)},
               repacks_);
}

void ExpertWindows::EnqueueLayer(const ExpertsCall& call, ExpertProducts& products, float* residual) {
  ExpertsCall left = call;
  for (; computed_ < step_.size() && step_[computed_].plan.layer == call.layer; ++computed_) {
    const Window& window = step_[computed_];
    const size_t turn = computed_ % kWindows;
    const SlotSet set{.slot = layers_[static_cast<size_t>(call.layer)].slot,
                      .slots = static_cast<int>(window.plan.experts.size()),
                      .data = windows_[turn]->device(),
                      .table = window.table};
    const int32_t* const rest = products.EnqueueSort(left, set);
    runtime_.Wait(compute_, window_full_[turn]);
    products.EnqueueProducts(left, set);
    products.EnqueueCombine(left, set, residual);
    runtime_.Record(window_free_[turn], compute_);
    EnqueueFetch();
    left.experts = rest;
  }
}

absl::Status ExpertWindows::AwaitFetched() {
  RETURN_IF_ERROR(runtime_.Synchronize(copies_));
  return runtime_.Synchronize(repacks_);
}

absl::StatusOr<double> ExpertWindows::MeasureLayer() {
  RETURN_IF_ERROR(adopted_);
  if (!BeginUse()) return absl::UnavailableError("a worker is gone");
  PlanStep([](LayerId, ExpertId) { return false; });
  const auto next = std::find_if(step_.begin(), step_.end(), [&](const Window& window) {
    return window.plan.layer != step_.front().plan.layer;
  });
  step_.erase(next, step_.end());
  std::chrono::duration<double> taken{};
  absl::Status status;
  for (int round = 0; round < 2 && status.ok(); ++round) {  // the first round wakes the PCIe bus
    const auto begin = std::chrono::steady_clock::now();
    for (fetched_ = 0; fetched_ < step_.size();) EnqueueFetch();
    status = AwaitFetched();
    taken = std::chrono::steady_clock::now() - begin;
  }
  step_.clear();
  fetched_ = computed_ = 0;
  EndUse();
  RETURN_IF_ERROR(status);
  return taken.count();
}

void ExpertWindows::EndStep() {
  if (!in_use_) return;
  if (computed_ < step_.size()) (void)AwaitFetched();  // the step ended early
  EndUse();
}

}  // namespace numoe::execution::cuda
