// Compares absorbed MLA decode with a reference in double precision, under all schedules of the host's
// execution model.
#include "coordinator/execution/device/cuda/kernels/attention_latent.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

constexpr int64_t kHopperShared = 232448;
constexpr int64_t kAmpereShared = 166912;
constexpr int64_t kSmallShared = 101376;

struct LatentStep {
  std::vector<int32_t> positions;  // -1: padding
  std::vector<int32_t> sequences;
};

struct LatentDecodeCase {
  const char* name;
  LatentWidths widths = {};
  bool fp8 = false;
  int64_t shared_bytes = kHopperShared;
  int heads = 64;
  std::vector<int> lengths = {};
  LatentStep step = {};
  int workers = 3;
  bool exact = false;
};

std::vector<Bf16> DecodeLatent(const LatentDecodeCase& c, PagedCache& cache, const DeviceBuffer<Bf16>& query,
                               float scale) {
  const int rows = static_cast<int>(c.step.positions.size());
  const LatentKernelShape kernel = PlanLatentKernel(c.widths, c.fp8, c.shared_bytes);
  EXPECT_GT(kernel.heads, 0);
  DeviceBuffer<int32_t> positions(c.step.positions);
  DeviceBuffer<int32_t> sequences(c.step.sequences);
  const DecodeShape shape = PlanDecode({.rows = rows,
                                        .context_max = 4096,
                                        .workers_per_group = c.workers,
                                        .tile = kernel.keys,
                                        .exact = c.exact});
  DeviceBuffer<std::byte> list_memory(static_cast<size_t>(DecodeListBytes(shape)));
  DeviceBuffer<std::byte> part_memory(static_cast<size_t>(DecodePartBytes(shape, c.heads, c.widths.latent)));
  const DecodeLists lists = PlaceLists(shape, list_memory.data());
  const DecodeParts parts = PlaceParts(shape, c.heads, c.widths.latent, part_memory.data());
  DeviceBuffer<Bf16> out(static_cast<size_t>(rows * c.heads * c.widths.latent));
  LaunchPlanPieces({.shape = shape, .lists = lists, .positions = positions.data()}, nullptr);
  LaunchLatentDecode({.kernel = kernel,
                      .cache = cache.layer(),
                      .tables = cache.Tables(positions.data(), sequences.data()),
                      .shape = shape,
                      .lists = lists,
                      .parts = parts,
                      .heads = c.heads,
                      .scale = scale,
                      .query = query.data(),
                      .out = out.data()},
                     nullptr);
  LaunchMergeParts({.shape = shape,
                    .lists = lists,
                    .parts = parts,
                    .heads = c.heads,
                    .width = c.widths.latent,
                    .out = out.data()},
                   nullptr);
  return out.Download();
}

void ExpectAttended(const LatentDecodeCase& c, const PagedCache& cache, const std::vector<Bf16>& query,
                    float scale, const std::vector<Bf16>& out) {
  const auto width = static_cast<size_t>(c.widths.latent + c.widths.rope);
  const auto latent = static_cast<size_t>(c.widths.latent);
  for (size_t row = 0; row < c.step.positions.size(); ++row) {
    std::vector<std::vector<double>> keys;
    for (int p = 0; p <= c.step.positions[row]; ++p) keys.push_back(cache.Key(c.step.sequences[row], p, 0));
    for (int head = 0; head < c.heads; ++head) {
      const size_t at = row * static_cast<size_t>(c.heads) + static_cast<size_t>(head);
      const Attended wanted = AttendInDouble(absl::MakeSpan(query).subspan(at * width, width), keys, keys,
                                             c.widths.latent, scale);
      for (size_t i = 0; i < latent; ++i) {
        ASSERT_NEAR(Value(out[at * latent + i]), wanted.out[i], AttendTolerance(wanted.magnitude[i]))
            << "row " << row << " head " << head << " channel " << i;
      }
    }
  }
}

class LatentDecodeTest : public testing::TestWithParam<LatentDecodeCase> {};

TEST_P(LatentDecodeTest, MatchesDoublePrecision) {
  const LatentDecodeCase& c = GetParam();
  std::mt19937 random(7);
  PagedCache cache({.fp8 = c.fp8, .key_width = c.widths.latent + c.widths.rope, .plain_width = c.widths.rope},
                   c.lengths, random);
  const size_t values =
      c.step.positions.size() * static_cast<size_t>(c.heads * (c.widths.latent + c.widths.rope));
  const std::vector<Bf16> query = RoundAll(ScaledFloats(values, 1.0f, random));
  const DeviceBuffer<Bf16> query_device(query);
  const float scale = 2.0f / std::sqrt(static_cast<float>(c.widths.latent));  // so that scores differ enough
  std::vector<Bf16> first;
  RunUnderAllSchedules([&] {
    const std::vector<Bf16> out = DecodeLatent(c, cache, query_device, scale);
    if (first.empty()) {
      first = out;
      ExpectAttended(c, cache, query, scale, out);
    }
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].bits, first[i].bits) << "value " << i;
  });
}

const LatentStep kLatentRagged = {.positions = {69, -1, 0, 130, 129, 15, 63},
                                  .sequences = {0, 0, 1, 2, 2, 3, 4}};
const std::vector<int> kRaggedLengths = {70, 1, 131, 16, 64};

INSTANTIATE_TEST_SUITE_P(
    Shapes, LatentDecodeTest,
    testing::Values(LatentDecodeCase{.name = "Hopper", .lengths = kRaggedLengths, .step = kLatentRagged},
                    LatentDecodeCase{.name = "Hopper128Heads",
                                     .heads = 128,
                                     .lengths = {90},
                                     .step = {{89, 88}, {0, 0}},
                                     .workers = 2},
                    LatentDecodeCase{
                        .name = "HopperFp8", .fp8 = true, .lengths = kRaggedLengths, .step = kLatentRagged},
                    LatentDecodeCase{.name = "Ampere",
                                     .shared_bytes = kAmpereShared,
                                     .lengths = kRaggedLengths,
                                     .step = kLatentRagged,
                                     .workers = 5},
                    LatentDecodeCase{.name = "AmpereFp8",
                                     .fp8 = true,
                                     .shared_bytes = kAmpereShared,
                                     .lengths = {70, 5},
                                     .step = {{69, 4}, {0, 1}}},
                    LatentDecodeCase{.name = "Small",
                                     .shared_bytes = kSmallShared,
                                     .heads = 40,
                                     .lengths = {70, 5},
                                     .step = {{69, 4}, {0, 1}}},
                    LatentDecodeCase{.name = "SmallFp8",
                                     .fp8 = true,
                                     .shared_bytes = kSmallShared,
                                     .lengths = {70, 5},
                                     .step = {{69, 4}, {0, 1}}},
                    LatentDecodeCase{.name = "Nano16",
                                     .widths = {64, 16},
                                     .heads = 4,
                                     .lengths = kRaggedLengths,
                                     .step = kLatentRagged,
                                     .workers = 20},
                    LatentDecodeCase{.name = "Nano16Fp8",
                                     .widths = {64, 16},
                                     .fp8 = true,
                                     .heads = 4,
                                     .lengths = kRaggedLengths,
                                     .step = kLatentRagged},
                    LatentDecodeCase{.name = "Nano32",
                                     .widths = {64, 32},
                                     .heads = 20,
                                     .lengths = kRaggedLengths,
                                     .step = kLatentRagged},
                    LatentDecodeCase{.name = "Nano32Fp8",
                                     .widths = {64, 32},
                                     .fp8 = true,
                                     .heads = 20,
                                     .lengths = kRaggedLengths,
                                     .step = kLatentRagged},
                    LatentDecodeCase{.name = "Exact",
                                     .widths = {64, 16},
                                     .heads = 4,
                                     .lengths = {2100, 1, 1024},
                                     .step = {{2099, 0, 1023}, {0, 1, 2}},
                                     .exact = true}),
    [](const auto& shape) { return std::string(shape.param.name); });

TEST(LatentDecodeExactTest, RowDoesNotDependOnItsBatch) {
  std::mt19937 random(11);
  LatentDecodeCase alone{.name = "",
                         .widths = {64, 16},
                         .heads = 4,
                         .lengths = {1500, 700},
                         .step = {{1499}, {0}},
                         .workers = 4,
                         .exact = true};
  PagedCache cache({.key_width = 80, .plain_width = 16}, alone.lengths, random);
  std::vector<Bf16> query = RoundAll(ScaledFloats(3 * 4 * 80, 1.0f, random));
  const std::vector<Bf16> one = DecodeLatent(alone, cache, DeviceBuffer<Bf16>(query), 0.2f);
  LatentDecodeCase together = alone;
  together.step = {{1499, 650, -1}, {0, 1, 0}};
  together.workers = 7;
  const std::vector<Bf16> many = DecodeLatent(together, cache, DeviceBuffer<Bf16>(query), 0.2f);
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i].bits, many[i].bits) << "value " << i;
}

TEST(LatentKernelTest, PlanChoosesTheLargestInstanceThatFits) {
  EXPECT_EQ(PlanLatentKernel({}, false, kHopperShared).keys, 64);
  EXPECT_EQ(PlanLatentKernel({}, false, kAmpereShared).keys, 32);
  EXPECT_EQ(PlanLatentKernel({}, false, kSmallShared).heads, 32);
  EXPECT_EQ(PlanLatentKernel({}, false, 1024).heads, 0);
  EXPECT_EQ(PlanLatentKernel({.latent = 48, .rope = 16}, false, kHopperShared).heads, 0);
}

}  // namespace
}  // namespace numoe::execution::cuda
