// Device: where the coordinator's share of the model is stored and computed. The model is written once
// against it.
//
// A Device owns weights, activations and the KV cache and offers the operations of the forward pass.
// Operations are enqueued in order and may run asynchronously (a CUDA stream); results are on the host only
// after ReadLogits, and errors of asynchronous work surface there or in JoinExperts. The element type of
// activations is the device's own choice (the CPU keeps fp32): handles are opaque to the model. A step that
// is cut in halves (step_layout.h) has one set of tensors; each operation runs on the rows in use. Owned and
// called by one thread, the engine's. Loading returns errors about the checkpoint; operations CHECK shapes,
// because the model is what sets them.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/weights/checkpoint.h"
#include "coordinator/device/cache_type.h"
#include "coordinator/device/expert_slots.h"
#include "coordinator/device/step_layout.h"
#include "coordinator/routing/gate.h"
#include "coordinator/transport/expert_backend.h"

namespace numoe {

/// Bytes that a device holds for a model.
struct DeviceMemory {
  uint64_t weights = 0;
  uint64_t kv_cache = 0;
  uint64_t scratch = 0;  // activations of the largest step
  uint64_t experts = 0;  // in slots of the device
  uint64_t windows = 0;  // of experts that are fetched for long prompts
  uint64_t total() const { return weights + kv_cache + scratch + experts + windows; }
};

/// What a tensor is for, so that a device can choose its element type: sums over layers and logits must not
/// be rounded as what is multiplied next may be.
enum class TensorUse : uint8_t { kActivation, kResidual, kLogits };

/// Activations: `cols` values for each token of a step. Rows are allocated for the largest step.
struct Tensor {
  int id = -1;
  int cols = 0;
};
/// A dense weight matrix [rows = outputs, cols = inputs].
struct Matrix {
  int id = -1;
  int rows = 0;
  int cols = 0;
};
/// The two halves of a SwiGLU, gate and up, each [rows, cols].
struct GatedMatrix {
  int id = -1;
  int rows = 0;
  int cols = 0;
};
/// One matrix [rows, cols] per attention head (the two halves of MLA's kv_b_proj).
struct HeadMatrices {
  int id = -1;
  int heads = 0;
  int rows = 0;
  int cols = 0;
};
/// A norm weight or a bias, fp32.
struct Vector {
  int id = -1;
  int size = 0;
};
/// Rotation angles: inverse frequencies and the multiplier of cos and sin, as coordinator/attention/rope.h
/// plans them.
struct RopeTable {
  int id = -1;
  int dim = 0;
};
/// Gate weight (fp32) and, for noaux_tc, the selection bias.
struct Gate {
  int id = -1;
  int experts = 0;
};
/// The selected experts and combine weights of every token of a step: [tokens, experts_per_token].
struct RouteTable {
  int id = -1;
  int experts_per_token = 0;
};

/// Channels of a tensor seen as `heads` windows: window h starts at channel h * stride + offset.
struct HeadView {
  Tensor tensor;
  int heads = 1;
  int stride = 0;
  int offset = 0;
};

/// out = matrix * in, or out += matrix * in. `out` is one window, as wide as the matrix has rows.
struct LinearTarget {
  Matrix matrix;
  HeadView out;
  bool accumulate = false;
};

/// What a token keeps in a layer's cache: keys [heads, key_width], then values [heads, value_width]; with a
/// value_width of 0 the values are the keys' first channels (MLA).
struct CacheRow {
  int heads = 1;
  int key_width = 0;
  int value_width = 0;
  int plain_width = 0;  // of a key's channels the last so many are BF16 in any cache (MLA's rotated ones)

  int width() const { return heads * (key_width + value_width); }
};

/// Memory of all layers' caches.
struct KvCacheSpec {
  CacheType type = CacheType::kBf16;
  int layers = 0;
  int blocks = 0;
  int block_tokens = 0;
  CacheRow row;
  int query_heads = 0;  // that attend to it
};

/// Causal attention of a step's queries over their sequences' cache rows.
struct AttendArgs {
  LayerId layer = 0;
  Tensor query;  // [tokens, heads * key_width]
  Tensor out;    // [tokens, heads * value_width]
  int heads = 0;
  int key_width = 0;
  int value_width = 0;
  int kv_heads = 1;           // heads share cache heads evenly
  bool value_in_key = false;  // the value is the first value_width channels of the key
  float scale = 1.0f;         // multiplies q.k before softmax
};

/// Causal multi-head latent attention (https://arxiv.org/abs/2405.04434). The cache's key is the latent c
/// [latent] and the shared rotated key [rope]. For head h with query [q_nope, q_rope], its rope part rotated:
/// score = scale * (q_nope . W_UK c + q_rope . k_rope), out = W_UV (softmax-weighted sum of c). In which
/// order that is multiplied out is the device's choice.
struct LatentAttendArgs {
  LayerId layer = 0;
  Tensor query;               // [tokens, heads * (nope + rope)]
  Tensor out;                 // [tokens, heads * value]
  Tensor absorbed;            // [tokens, heads * (latent + rope)], scratch
  Tensor context;             // [tokens, heads * latent], scratch
  HeadMatrices key_up;        // W_UK   [heads, nope, latent]
  HeadMatrices key_absorbed;  // W_UK^T [heads, latent, nope]
  HeadMatrices value_up;      // W_UV   [heads, value, latent]
  float scale = 1.0f;
};

/// How a step's routed experts are computed.
enum class StepWay : uint8_t {
  kWhole,    // by the workers, a layer's call for all rows
  kHalves,   // by the workers, a call for each half, one of which the device computes meanwhile
  kFetched,  // here: they come from the workers' memory (FetchExperts)
};
inline constexpr std::string_view kStepWayNames[] = {"whole", "halves", "fetched"};
inline constexpr size_t kStepWays = std::size(kStepWayNames);
static_assert(kStepWays == static_cast<size_t>(StepWay::kFetched) + 1);

class Device {
 public:
  virtual ~Device() = default;

  // --- memory: at load time only ---------------------------------------------------------------------------
  /// `rows` 0: as many as the largest step has tokens.
  virtual Tensor NewTensor(int cols, TensorUse use = TensorUse::kActivation, int rows = 0) = 0;
  virtual RouteTable NewRouteTable(int experts_per_token) = 0;
  virtual absl::StatusOr<Matrix> LoadMatrix(const MatrixView& source) = 0;
  /// `gate` and `up` are of one shape.
  virtual absl::StatusOr<GatedMatrix> LoadGated(const MatrixView& gate, const MatrixView& up) = 0;
  /// Row lookup table; kept in its stored element type.
  virtual absl::StatusOr<Matrix> LoadEmbedding(const MatrixView& source) = 0;
  /// `values` is [heads, rows, cols] fp32; stored as BF16.
  virtual absl::StatusOr<HeadMatrices> LoadHeads(absl::Span<const float> values, int heads, int rows,
                                                 int cols) = 0;
  virtual Vector LoadVector(absl::Span<const float> values) = 0;
  virtual RopeTable LoadRope(absl::Span<const float> inverse_frequencies, float multiplier,
                             RopeLayout layout) = 0;
  /// `weight` is [experts, hidden]; `bias` is empty or [experts].
  virtual Gate LoadGate(absl::Span<const float> weight, absl::Span<const float> bias, int experts) = 0;
  /// Of a cache, all of it.
  virtual uint64_t KvCacheBytes(const KvCacheSpec& spec) const = 0;
  /// Reserves the cache and touches it and all tensors, so that no step finds memory missing.
  /// RESOURCE_EXHAUSTED says how much was asked for, INVALID_ARGUMENT that its type does not fit its rows.
  /// Comes last.
  virtual absl::Status ReserveKvCache(const KvCacheSpec& spec) = 0;

  /// Room for routed experts, all slots empty, and for windows of them; before the cache is reserved. Null
  /// without slots. UNIMPLEMENTED: this device computes none. Lives as long as the device.
  virtual absl::StatusOr<ExpertSlots*> ReserveExperts(const ExpertSlotSpec&) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }

  /// From now on steps with so many prompt tokens or more fetch the experts from the workers' memory and
  /// compute them here, in the windows of ReserveExperts; the workers' path serves whenever that memory is
  /// not there. UNAVAILABLE and UNIMPLEMENTED say why it is not now, or cannot be.
  virtual absl::Status FetchExperts(ExpertBackend&, int /*prompt_tokens_min*/) {
    return absl::UnimplementedError("experts are computed by the workers alone on this device");
  }

  /// How long the experts of one layer take to come, where FetchExperts was OK; moves them once or twice. Not
  /// during a step.
  virtual absl::StatusOr<double> MeasureFetchSeconds() {
    return absl::UnimplementedError("this device fetches no experts");
  }

  // --- one step --------------------------------------------------------------------------------------------
  /// All rows are in use.
  virtual void BeginStep(const StepLayout& layout) = 0;
  /// Of the step that has begun. kHalves: its layout is cut and UseRows may be called; where experts are
  /// fetched a step is whole all the same.
  virtual StepWay Way() const = 0;
  /// The operations that follow run on these rows; both halves and then SelectLogitRows on all. A row of the
  /// second half attends to what the first half wrote, so a layer's WriteKv of that comes before.
  virtual void UseRows(StepSpan rows) = 0;
  /// out[t] = table[token of t].
  virtual void Embed(const Matrix& table, Tensor out) = 0;
  /// Per window of `width` channels: out = in * rsqrt(mean(in^2) + eps) * weight.
  virtual void RmsNorm(HeadView in, int width, const Vector& weight, float eps, HeadView out) = 0;
  /// Products of one input with any number of matrices. The targets' windows do not overlap.
  virtual void Linear(Tensor in, absl::Span<const LinearTarget> targets) = 0;
  /// out = silu(gate * in) * (up * in).
  virtual void GatedLinear(Tensor in, const GatedMatrix& matrices, Tensor out) = 0;
  /// Rotates table.dim channels of each window by the token's position.
  virtual void Rope(const RopeTable& table, HeadView in, HeadView out) = 0;
  /// Stores each token's row in its sequence's cache block.
  virtual void WriteKv(LayerId layer, Tensor rows) = 0;
  virtual void Attend(const AttendArgs& args) = 0;
  virtual void AttendLatent(const LatentAttendArgs& args) = 0;
  virtual void Route(const Gate& gate, const GateParams& params, Tensor in, RouteTable routes) = 0;
  /// Makes ready what StartExperts hands out, of the rows in use; the call of other rows may be out.
  virtual void StageExperts(LayerId layer, Tensor in, RouteTable routes) = 0;
  /// Hands the staged work to the backend, the step's deferred experts as such; out += what the device itself
  /// computes of it. No other call is out. UNAVAILABLE: replay the step.
  virtual absl::Status StartExperts(ExpertBackend& experts, Tensor out) = 0;
  /// out += the backend's weighted sums, in the rows of the call that is out, whichever are in use.
  /// UNAVAILABLE: replay the step.
  virtual absl::Status JoinExperts(ExpertBackend& experts, Tensor out) = 0;
  /// out += those of the experts that the layer before deferred. In steps with deferred experts, after
  /// JoinExperts and before the next layer's StageExperts or SelectLogitRows. UNAVAILABLE: replay the step.
  virtual absl::Status JoinDeferredExperts(ExpertBackend& experts, Tensor out) = 0;
  /// Compacts the rows that want logits to the front of `out`; the operations that follow run on those rows
  /// only.
  virtual void SelectLogitRows(Tensor in, Tensor out) = 0;
  /// Whether this device draws tokens; where it does not, no layout has samples.
  virtual bool CanDraw() const { return false; }
  /// Draws from the rows that have a SampleSpec, as Sampler does, but for those that it leaves to the host.
  /// REQUIRES: CanDraw. Called in every step that has logit rows, between the head and ReadLogits.
  virtual void DrawTokens(Tensor) {}
  /// Logits on the host of those rows that no token was drawn from: [such rows, cols], valid until the next
  /// BeginStep. `logits` is of that use.
  virtual absl::StatusOr<absl::Span<const float>> ReadLogits(Tensor logits) = 0;
  /// After ReadLogits: [logit rows], nothing for those that were read; empty: all were. Valid as they are.
  virtual absl::Span<const DrawnRow> drawn() const { return {}; }

  /// What was loaded and reserved so far, and what the first steps add to it.
  virtual DeviceMemory memory() const = 0;
  /// One line for the start log: what this device is.
  virtual std::string Describe() const = 0;
};

}  // namespace numoe
