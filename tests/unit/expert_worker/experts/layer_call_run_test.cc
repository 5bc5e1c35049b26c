// A run's output has the same bits as that of its tokens computed one by one, in whatever order a phase's
// tasks are executed, and whatever earlier calls left in the scratch.
#include "expert_worker/experts/layer_call_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::worker {
namespace {

constexpr int kHiddenSize = 288, kSliceWidth = 160, kLayerExperts = 5;
constexpr int kChosen = 3;  // for a token

struct Layer {
  explicit Layer(const ExpertFormats& layer_formats) : formats(layer_formats) {
    std::mt19937 random(1);
    for (ExpertId e = 0; e < kLayerExperts; ++e) {
      const auto add = [&](WeightFormat format, int rows, int cols) {
        return packed.emplace_back(RandomPacked(format, rows, cols, random)).matrix;
      };
      experts.push_back({.gate = add(formats.up, kSliceWidth, kHiddenSize),
                         .up = add(formats.up, kSliceWidth, kHiddenSize),
                         .down = add(formats.down, kHiddenSize, kSliceWidth)});
    }
  }

  ExpertFormats formats;
  std::vector<Packed> packed;
  std::vector<ExpertWeights> experts;
};

struct GroupedCall {
  explicit GroupedCall(int tokens) {
    std::mt19937 random(static_cast<uint32_t>(tokens));
    hidden = RandomFloats(static_cast<size_t>(tokens * kHiddenSize), random);
    weights = RandomFloats(static_cast<size_t>(tokens * kChosen), random);
    for (int t = 0; t < tokens; ++t) {
      // The first expert has one row, others up to all tokens.
      const bool first = t == tokens / 2;
      for (const ExpertId e : {first ? 0 : kNoExpert, 1, static_cast<ExpertId>(2 + random() % 3)})
        experts.push_back(e);
    }
    view = {.tokens = tokens, .experts_per_token = kChosen};
    view.hidden = hidden;
    view.experts = experts;
    view.weights = weights;
    const absl::Status grouped = GroupTokens(view, std::vector<bool>(kLayerExperts, true), groups);
    NUMOE_CHECK(grouped.ok()) << grouped;
  }

  std::vector<float> hidden, weights;
  std::vector<ExpertId> experts;
  LayerCallView view;
  TokenGroups groups;
};

enum class TaskOrder { kAscending, kDescending };

std::vector<float> RunTasks(const Layer& layer, const GroupedCall& call, Isa isa, Precision precision,
                            int threads, TaskOrder order) {
  const LayerCallShape shape{.tokens = call.view.tokens,
                             .hidden_size = kHiddenSize,
                             .width = kSliceWidth,
                             .formats = layer.formats,
                             .isa = isa,
                             .precision = precision,
                             .threads = threads};
  LayerCallPlan plan;
  PlanLayerCall(call.groups.groups, shape, plan);
  LayerCallScratch scratch(1);
  scratch.Reserve(plan);
  // These bytes are NaN in every format, so that a value that is read without being written is noticed.
  for (auto* memory : {&scratch.gathered, &scratch.intermediate})
    std::fill(memory->begin(), memory->end(), std::byte{0xff});
  for (std::vector<std::byte>& memory : scratch.quantised)
    std::fill(memory.begin(), memory.end(), std::byte{0xff});
  scratch.sums[0].assign(100, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> out(call.hidden.size(), std::numeric_limits<float>::quiet_NaN());
  const LayerCallRun run({call.view, shape, plan, call.groups, layer.experts}, scratch, absl::MakeSpan(out));
  for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
    const int tasks = plan.phase_tasks[phase];
    for (int i = 0; i < tasks; ++i)
      run.Do(static_cast<int>(phase), order == TaskOrder::kAscending ? i : tasks - 1 - i, 0);
  }
  return out;
}

// Computes y = matrix * x for one row.
std::vector<float> Multiplied(Isa isa, const PackedMatrix& matrix, Precision precision, const float* x) {
  const ActivationFormat format = ChooseActivationFormat(isa, matrix.format, 1, precision);
  std::vector<std::byte> memory(QuantisedMemory::Bytes(format, matrix.cols, 1));
  const QuantisedMemory row{format, matrix.cols, 1, memory.data()};
  row.Write(isa, 0, x);
  std::vector<float> y(static_cast<size_t>(matrix.rows));
  Multiply(isa, {.weight = matrix, .row_end = matrix.rows, .x = row.rows(), .y = y.data(), .y_stride = 0});
  return y;
}

std::vector<float> OneByOne(const Layer& layer, const GroupedCall& call, Isa isa, Precision precision) {
  std::vector<float> out(call.hidden.size());
  for (size_t t = 0; t < static_cast<size_t>(call.view.tokens); ++t) {
    const float* x = &call.hidden[t * kHiddenSize];
    for (ExpertId e = 0; e < kLayerExperts; ++e) {
      for (size_t i = t * kChosen; i < (t + 1) * kChosen; ++i) {
        if (call.experts[i] != e) continue;
        const ExpertWeights& expert = layer.experts[static_cast<size_t>(e)];
        std::vector<float> h = Multiplied(isa, expert.gate, precision, x);
        const std::vector<float> up = Multiplied(isa, expert.up, precision, x);
        SwiGlu(isa, h.data(), up.data(), kSliceWidth);
        const std::vector<float> y = Multiplied(isa, expert.down, precision, h.data());
        for (size_t o = 0; o < y.size(); ++o) out[t * kHiddenSize + o] += call.weights[i] * y[o];
      }
    }
  }
  return out;
}

TEST(LayerCallRunTest, EqualsItsTokensOneByOneInAnyOrderOfTasks) {
  UseEmulator();
  for (const ExpertFormats& formats : {ExpertFormats{WeightFormat::kRawInt4, WeightFormat::kRawInt4},
                                       {WeightFormat::kBf16, WeightFormat::kInt8},
                                       {WeightFormat::kInt4, WeightFormat::kBf16},
                                       {WeightFormat::kFp8, WeightFormat::kQ4_1}}) {
    const Layer layer(formats);
    for (const char* name : {"scalar", "avx2", "avx512", "amx"}) {
      if (!SelectIsa(name).ok()) continue;
      const Isa isa = *ParseIsa(name);
      for (const int tokens : {1, 2, 40}) {
        const GroupedCall call(tokens);
        for (const Precision precision : {Precision::kBf16, Precision::kFloat, Precision::kFast}) {
          SCOPED_TRACE(fmt::format("{}/{} {}, {} tokens, precision {}", WeightFormatName(formats.up),
                                   WeightFormatName(formats.down), name, tokens,
                                   static_cast<int>(precision)));
          const std::vector<float> out = RunTasks(layer, call, isa, precision, 1, TaskOrder::kAscending);
          EXPECT_EQ(RunTasks(layer, call, isa, precision, 16, TaskOrder::kDescending), out);
          // With kFast a group's format depends on its number of rows.
          if (precision == Precision::kFast) continue;
          EXPECT_EQ(OneByOne(layer, call, isa, precision), out);
        }
      }
    }
  }
}

TEST(LayerCallRunDeathTest, PartsThatDoNotBelongTogetherAreRefused) {
  const Layer layer({WeightFormat::kBf16, WeightFormat::kBf16});
  const GroupedCall call(3), other(4);
  LayerCallShape shape{
      .tokens = 3, .hidden_size = kHiddenSize, .width = kSliceWidth, .formats = layer.formats};
  LayerCallPlan plan;
  PlanLayerCall(call.groups.groups, shape, plan);
  LayerCallScratch scratch(1);
  std::vector<float> out(call.hidden.size());
  const auto make = [&](const GroupedCall& view, absl::Span<const ExpertWeights> experts, size_t outputs) {
    LayerCallRun({view.view, shape, plan, call.groups, experts}, scratch, absl::MakeSpan(out).first(outputs));
  };
  EXPECT_DEATH(make(other, layer.experts, out.size()), "4 vs 3");
  EXPECT_DEATH(make(call, layer.experts, out.size() - 1), "out_.size");
  EXPECT_DEATH(make(call, absl::MakeConstSpan(layer.experts).first(2), out.size()), "experts.size");
}

}  // namespace
}  // namespace numoe::worker
