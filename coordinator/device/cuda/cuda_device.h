// CudaDevice: the coordinator's model on an NVIDIA GPU; the routed experts stay with the workers.
//
// Every operation is enqueued on one stream. A step whose rows all want logits (decode) is captured once for
// each bucket of sizes and then replayed as one graph: the operations of a replayed step enqueue nothing.
// Workers on this host are then reached by kernels (kernels/handover.h), and what lies between StartExperts
// and JoinExperts runs while they compute. Other steps, and workers on other hosts, go through the host. A
// step in halves is on that one stream, too: the workers are what runs beside it. CONTRACT.md tells the life
// of a step. Owned and called by the engine's thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <type_traits>

#include "common/base/check.h"
#include "coordinator/device/cuda/cuda_experts.h"
#include "coordinator/device/cuda/cuda_storage.h"
#include "coordinator/device/cuda/expert_exchange.h"
#include "coordinator/device/cuda/expert_windows.h"
#include "coordinator/device/cuda/graph_cache.h"
#include "coordinator/device/cuda/kernels/attention_grouped.h"
#include "coordinator/device/cuda/kernels/attention_latent.h"
#include "coordinator/device/cuda/kernels/dense_tiles.h"
#include "coordinator/device/cuda/kernels/elementwise.h"
#include "coordinator/device/cuda/sampling_tables.h"

namespace numoe::cuda {

class CudaDevice final : public CudaStorage {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const StepBounds& bounds,
                                                            std::unique_ptr<Runtime> runtime);

  absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec& spec) override;
  absl::Status ReserveKvCache(const KvCacheSpec& spec) override;
  absl::Status FetchExperts(ExpertBackend& experts, int prompt_tokens_min) override;
  absl::StatusOr<double> MeasureFetchSeconds() override { return windows_->MeasureLayer(); }

  void BeginStep(const StepLayout& layout) override;
  StepWay Way() const override {
    return fetches_ ? StepWay::kFetched : bucket_.second_half > 0 ? StepWay::kHalves : StepWay::kWhole;
  }
  void UseRows(StepSpan rows) override;
  void Embed(const Matrix& table, Tensor out) override;
  void RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) override;
  void Linear(Tensor in, absl::Span<const LinearTarget> targets) override;
  void GatedLinear(Tensor in, const GatedMatrix& matrices, Tensor out) override;
  void Rope(const RopeTable& table, HeadView in, HeadView out) override;
  void WriteKv(LayerId layer, Tensor rows) override;
  void Attend(const AttendArgs& args) override;
  void AttendLatent(const LatentAttendArgs& args) override;
  void Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) override;
  void StageExperts(LayerId layer, Tensor in, RouteTable routes) override;
  absl::Status StartExperts(ExpertBackend& experts, Tensor out) override;
  absl::Status JoinExperts(ExpertBackend& experts, Tensor out) override;
  absl::Status JoinDeferredExperts(ExpertBackend& experts, Tensor out) override;
  void SelectLogitRows(Tensor in, Tensor out) override;
  bool CanDraw() const override { return true; }
  void DrawTokens(Tensor logits) override;
  absl::StatusOr<absl::Span<const float>> ReadLogits(Tensor logits) override;
  absl::Span<const DrawnRow> drawn() const override { return drawn_; }
  std::string Describe() const override;

 private:
  // How the operations of the current step are carried out.
  enum class Mode : uint8_t { kEager, kCapturing, kReplaying };

  CudaDevice(const StepBounds& bounds, const DeviceFacts& facts, std::unique_ptr<Runtime> runtime,
             Stream stream);
  bool Enqueues() const { return mode_ != Mode::kReplaying; }
  absl::Status ChooseAttention(const KvCacheSpec& spec);
  bool MayBeGraph(const StepLayout& layout, const StepBucket& bucket) const;
  // Whether the step's experts come here; then they are on their way.
  bool Fetches(const StepLayout& layout);
  // Of a captured step: everything runs now.
  void LaunchStep();
  void AbandonStep();
  void UploadTables();
  static ExpertsCall ExpertsOf(const ExchangeCall& call);
  const HandoverStep* Handover() const;
  size_t CopyLogits(Tensor logits);
  const StoredTensor& At(Tensor tensor) const { return tensors_[static_cast<size_t>(tensor.id)]; }
  // Rows of the step that may be in use together.
  struct UsedRows {
    int first = 0;
    int rows = 0;                         // of the bucket
    int tokens = 0;                       // without padding
    int decode_rows = 0;                  // that attend by a decode kernel; they need not be the first
    size_t pass_begin = 0, pass_end = 0;  // of the others, in passes_
  };
  const UsedRows& used() const { return step_[static_cast<size_t>(used_)]; }
  void PlanRows(const StepLayout& layout, bool graph);
  // From the first row in use on. Activations are Bf16, residuals and logits float.
  template <typename T>
  T* Data(Tensor tensor) const {
    return RowsFrom<T>(used().first, tensor);
  }
  template <typename T>
  T* RowsFrom(int first, Tensor tensor) const {
    const bool is_float = At(tensor).use != TensorUse::kActivation;
    NUMOE_CHECK_EQ(is_float, (std::is_same_v<std::remove_const_t<T>, float>));
    return reinterpret_cast<T*>(At(tensor).memory->device()) + int64_t{first} * tensor.cols;
  }
  StepTables Tables() const { return buffers_->tables(used().first); }
  template <typename T>
  Windows<T> View(const HeadView& view) const {
    return {.data = Data<T>(view.tensor),
            .row_stride = view.tensor.cols,
            .heads = view.heads,
            .stride = view.stride,
            .offset = view.offset};
  }
  GemmTarget TargetOf(const LinearTarget& target) const;
  void Multiply(const Bf16* x, int64_t x_stride, absl::Span<const GemmTarget> targets);
  void MultiplyExpanded(const Bf16* x, int64_t x_stride, const GemmTarget& target);
  void LaunchPlanned(const GemmShape& shape, GemmArgs& args);
  void MultiplyHeads(const DeviceHeads& matrices, const Windows<const Bf16>& in, const Windows<Bf16>& out,
                     int rows);
  void PlanTurns();
  // Attention (cuda_attention.cc): decode rows in stretches that one plan holds, prefill runs in passes.
  bool Prefills(const PrefillRun& run) const;
  DecodeShape ShapeOf(int rows) const;
  // One plan holds the decode rows of the whole step, for all layers.
  bool PlansPiecesOnce() const {
    return bucket_.second_half == 0 && bucket_.rows <= AttendRows(bucket_.exact);
  }
  void PlanPieces(const DecodeShape& shape, int first);
  template <typename Decode>
  void ForStretches(Decode decode);
  void DecodeLatent(const LatentAttendArgs& args, const DecodeShape& shape, int first);
  void DecodeGrouped(const AttendArgs& args, const DecodeShape& shape, int first);
  void Absorb(const LatentAttendArgs& args);
  void PrefillLatent(const LatentAttendArgs& args);
  void ExpandStretch(const LatentAttendArgs& args, const PrefillStretch& stretch);
  PrefillArgs PrefillArgsOf(size_t pass, Tensor query, Tensor out, int key_width, int value_width,
                            float scale) const;

  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<ExpertExchange> exchange_;
  std::unique_ptr<ExpertProducts> products_;  // null: all experts are with the workers
  std::unique_ptr<CudaExperts> experts_;      // hot ones; null: none
  std::unique_ptr<ExpertWindows> windows_;    // null: none are fetched
  ExpertBackend* fetch_from_ = nullptr;       // null: not asked to fetch yet
  int fetch_tokens_min_ = 0;                  // prompt tokens of a step
  std::unique_ptr<SamplingTables> sampling_tables_;
  std::unique_ptr<Memory> host_logits_;  // pinned
  LatentKernelShape latent_kernel_;      // of MLA
  int grouped_blocks_ = 0;               // of GQA's decode on one multiprocessor

  // The current step.
  ExchangeCall call_;                      // staged
  ExchangeCall called_;                    // that is out, or was last
  const int32_t* left_experts_ = nullptr;  // of the staged call, those that are not hot
  Mode mode_ = Mode::kEager;
  bool launched_ = false;
  bool fetches_ = false;  // the step's experts are in windows_
  StepBucket bucket_;
  std::array<UsedRows, 3> step_;  // by StepSpan
  StepSpan used_ = StepSpan::kAll;
  int rows_ = 0;  // in use, or logit rows after SelectLogitRows
  int logit_rows_ = 0;
  absl::Span<const DrawnRow> drawn_;
  std::vector<PrefillPass> passes_;
  GraphCache graphs_;
};

}  // namespace numoe::cuda
