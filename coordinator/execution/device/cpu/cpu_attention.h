// CpuAttention: causal attention over the paged cache on the CPU, for GQA and MLA.
//
// It computes MLA either in absorbed form, or with an expansion that computes each head's keys and values
// from the cached latents (latent_plan.h chooses). It executes the plan of attend_plan.h. A task packs a part
// of its sequence's cache once for all its rows, unless it has few rows. Rows are processed in groups: scores
// by a product with the keys, softmax, context by a product with the values, which is added to the result of
// earlier parts (common/kernels/attention.h). A row's bits depend only on its own query, position and cache,
// never on the batch, the plan or the number of threads, as far as the matrix kernels guarantee that
// (common/kernels/CONTRACT.md). Owned by the engine thread; uses the pool.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "common/kernels/attention.h"
#include "common/kernels/kernels.h"
#include "common/linear/quantised_product.h"
#include "common/threading/thread_pool.h"
#include "coordinator/execution/device/cpu/attend_plan.h"
#include "coordinator/execution/device/cpu/cache_memory.h"
#include "coordinator/execution/device/cpu/cached_part.h"

namespace numoe::execution {

class CpuAttention {
 public:
  CpuAttention(Isa isa, ThreadPool& pool)
      : isa_(isa), pool_(pool), scratch_(static_cast<size_t>(pool.threads())) {}

  /// Each head's W_UK [nope, latent] and W_UV [value, latent], with which its keys and values are computed
  /// from the latents. The cache has a single head, whose rows begin with the latent; the rest of the row is
  /// the end of the key of every head.
  struct Expansion {
    const std::vector<PackedMatrix>* keys = nullptr;
    const std::vector<PackedMatrix>* values = nullptr;
  };
  struct Call {
    const StepLayout* layout = nullptr;
    const CacheMemory* cache = nullptr;
    AttendArgs args;  // with an expansion: those of the expanded heads
    std::optional<Expansion> expansion;
    const float* query = nullptr;  // [tokens, heads * key_width]
    float* out = nullptr;          // [tokens, heads * value_width]
    Precision precision = Precision::kFast;
  };
  /// REQUIRES: the plan was made for this layout and these heads; with an expansion, kv_heads == heads.
  void Attend(const Call& call, const AttendPlan& plan);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  // Belongs to one thread, which grows it and touches its pages first.
  struct Scratch {
    CachedPart part;
    std::vector<Line> keys, values;      // the part, packed
    std::vector<Line> queries, weights;  // [group rows] in the kernels' activation format
    std::vector<Line> scores;            // [group rows, kPartKeys]
    std::vector<Line> context;           // [group rows, value_width]
    std::vector<SoftmaxPart> sums;       // [group rows]
    // With an expansion:
    CachedPart own;                          // the addresses of rows in own_keys and own_values
    std::vector<Line> own_keys, own_values;  // of one head, BF16
    std::vector<Line> wide;                  // a cached row, BF16
    std::vector<Line> latents;               // [kExpandRows] in the kernels' activation format
    std::vector<Line> outputs;               // [kExpandRows, nope or value_width]
  };
  // How a task's rows are multiplied by the keys and values of a part.
  enum class AttentionPath : uint8_t {
    kUnpacked,      // few rows: keys and values are read from the cache without packing
    kPanelByPanel,  // one group of rows: keys are packed and multiplied panel by panel, in the first-level
                    // cache
    kPacked,        // several groups: keys and values are packed once for all groups
    kExpanded,      // keys and values are computed from the latents, then packed
  };
  // Some tokens of a task with all their heads: the rows that are processed together.
  struct Group {
    const AttendTask* task = nullptr;
    AttentionPath path = AttentionPath::kPacked;
    int part = 0;
    int keys = 0;  // of the part, which are packed together
    int token_begin = 0;
    int token_end = 0;

    int heads() const { return task->head_end - task->head_begin; }
    int rows() const { return (token_end - token_begin) * heads(); }
    int token(int row) const { return token_begin + row / heads(); }
    int head(int row) const { return task->head_begin + row % heads(); }
  };

  template <typename T>
  static T* Reserve(std::vector<Line>& lines, size_t values);
  void RunTask(const Call& call, const AttendTask& task, Scratch& scratch);
  static CacheRows Keys(const Call& call, const CachedPart& part);
  static CacheRows Values(const Call& call, const CachedPart& part);
  AttentionPath ChoosePath(const Call& call, const AttendTask& task) const;
  static std::byte* KeyMatrix(const Call& call, int keys, Scratch& scratch);
  static std::byte* ValueMatrix(const Call& call, int keys, Scratch& scratch);
  void PackPart(const Call& call, const CachedPart& part, Scratch& scratch);
  void ExpandPart(const Call& call, int head, Scratch& scratch);
  void ExpandRows(const Call& call, int head, int first, int count, uint16_t* own_keys, uint16_t* own_values,
                  Scratch& scratch) const;
  void ScoreKeys(const Call& call, const Group& group, const QuantisedRows& queries, int limit, float* scores,
                 Scratch& scratch) const;
  void AddValues(const Call& call, const Group& group, const QuantisedRows& weights, float* context,
                 Scratch& scratch) const;
  void AttendGroup(const Call& call, const Group& group, Scratch& scratch);
  void WeighKeys(const Call& call, const Group& group, const float* scores, ActivationFormat format,
                 std::byte* weights, Scratch& scratch);
  void KeepGroup(const Call& call, const Group& group, const float* context, const Scratch& scratch);
  void JoinToken(const Call& call, const AttendJoin& join, int head_begin, int head_end);
  void Join(float* out, SoftmaxPart& total, const float* part, const SoftmaxPart& weight, int width) const;

  const Isa isa_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;     // [threads]
  std::vector<SoftmaxPart> totals_;  // [tokens, heads] of rows whose parts are not scattered
  std::vector<float> scattered_;     // [scattered rows, value_width]
  std::vector<SoftmaxPart> scattered_sums_;
};

}  // namespace numoe::execution
