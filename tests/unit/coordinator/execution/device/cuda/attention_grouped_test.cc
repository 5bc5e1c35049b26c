// Compares GQA decode with a reference in double precision, under all schedules of the host's execution
// model.
#include "coordinator/execution/device/cuda/kernels/attention_grouped.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

struct Case {
  const char* name;
  int width;
  bool fp8 = false;
  int heads = 8;
  int cache_heads = 2;
  int workers = 3;
  bool exact = false;
};

struct Step {
  std::vector<int32_t> positions;  // -1: padding
  std::vector<int32_t> sequences;
};
const Step kRagged = {.positions = {69, -1, 0, 130, 129, 15, 63}, .sequences = {0, 0, 1, 2, 2, 3, 4}};
const std::vector<int> kLengths = {70, 1, 131, 16, 64, 1100};

std::vector<Bf16> Decode(const Case& c, const Step& step, PagedCache& cache,
                         const DeviceBuffer<Bf16>& query) {
  const DecodeShape shape = PlanDecode({.rows = static_cast<int>(step.positions.size()),
                                        .context_max = 4096,
                                        .groups = c.cache_heads,
                                        .workers_per_group = c.workers,
                                        .tile = kGroupedTileKeys,
                                        .exact = c.exact});
  DeviceBuffer<int32_t> positions(step.positions), sequences(step.sequences);
  DeviceBuffer<std::byte> list_memory(static_cast<size_t>(DecodeListBytes(shape)));
  DeviceBuffer<std::byte> part_memory(static_cast<size_t>(DecodePartBytes(shape, c.heads, c.width)));
  const DecodeLists lists = PlaceLists(shape, list_memory.data());
  const DecodeParts parts = PlaceParts(shape, c.heads, c.width, part_memory.data());
  DeviceBuffer<Bf16> out(step.positions.size() * static_cast<size_t>(c.heads * c.width));
  LaunchPlanPieces({.shape = shape, .lists = lists, .positions = positions.data()}, nullptr);
  LaunchGroupedDecode({.cache = cache.layer(),
                       .tables = cache.Tables(positions.data(), sequences.data()),
                       .shape = shape,
                       .lists = lists,
                       .parts = parts,
                       .heads = c.heads,
                       .scale = 1.5f / std::sqrt(static_cast<float>(c.width)),
                       .query = query.data(),
                       .out = out.data()},
                      nullptr);
  LaunchMergeParts(
      {.shape = shape, .lists = lists, .parts = parts, .heads = c.heads, .width = c.width, .out = out.data()},
      nullptr);
  return out.Download();
}

PagedShape CacheShape(const Case& c) {
  return {.fp8 = c.fp8, .heads = c.cache_heads, .key_width = c.width, .value_width = c.width};
}

class GroupedDecodeTest : public testing::TestWithParam<Case> {};

TEST_P(GroupedDecodeTest, MatchesDoublePrecision) {
  const Case& c = GetParam();
  std::mt19937 random(31);
  PagedCache cache(CacheShape(c), kLengths, random);
  const auto width = static_cast<size_t>(c.width);
  const std::vector<Bf16> query =
      RoundAll(ScaledFloats(kRagged.positions.size() * static_cast<size_t>(c.heads) * width, 1.0f, random));
  const DeviceBuffer<Bf16> query_device(query);
  std::vector<Bf16> first;
  RunUnderAllSchedules([&] {
    const std::vector<Bf16> out = Decode(c, kRagged, cache, query_device);
    if (first.empty()) first = out;
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].bits, first[i].bits) << "value " << i;
  });
  for (size_t row = 0; row < kRagged.positions.size(); ++row) {
    for (int head = 0; head < c.heads; ++head) {
      std::vector<std::vector<double>> keys, values;
      for (int p = 0; p <= kRagged.positions[row]; ++p) {
        keys.push_back(cache.Key(kRagged.sequences[row], p, head / (c.heads / c.cache_heads)));
        values.push_back(cache.ValueRow(kRagged.sequences[row], p, head / (c.heads / c.cache_heads)));
      }
      const size_t at = (row * static_cast<size_t>(c.heads) + static_cast<size_t>(head)) * width;
      const Attended wanted = AttendInDouble(absl::MakeSpan(query).subspan(at, width), keys, values, c.width,
                                             1.5 / std::sqrt(static_cast<double>(c.width)));
      for (size_t i = 0; i < width; ++i) {
        ASSERT_NEAR(Value(first[at + i]), wanted.out[i], AttendTolerance(wanted.magnitude[i]))
            << "row " << row << " head " << head << " channel " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GroupedDecodeTest,
    testing::Values(Case{.name = "Width128", .width = 128},
                    Case{.name = "Width128Fp8", .width = 128, .fp8 = true},
                    Case{.name = "Sixteen", .width = 128, .heads = 16, .cache_heads = 1, .workers = 7},
                    Case{.name = "Twenty", .width = 64, .heads = 40, .workers = 1},
                    Case{.name = "Width96", .width = 96},
                    Case{.name = "Width96Fp8", .width = 96, .fp8 = true},
                    Case{.name = "Width64", .width = 64, .workers = 40},
                    Case{.name = "Width64Fp8", .width = 64, .fp8 = true},
                    Case{.name = "Width32", .width = 32, .heads = 4, .cache_heads = 4},
                    Case{.name = "Width32Fp8", .width = 32, .fp8 = true, .heads = 4},
                    Case{.name = "Exact", .width = 32, .heads = 4, .exact = true}),
    [](const auto& shape) { return std::string(shape.param.name); });

TEST(GroupedDecodeExactTest, RowDoesNotDependOnItsBatch) {
  std::mt19937 random(32);
  Case c{.name = "", .width = 64, .exact = true};
  PagedCache cache(CacheShape(c), kLengths, random);
  DeviceBuffer<Bf16> query(RoundAll(ScaledFloats(size_t{3} * 8 * 64, 1.0f, random)));
  const std::vector<Bf16> one = Decode(c, {{1099}, {5}}, cache, query);
  c.workers = 11;
  const std::vector<Bf16> many = Decode(c, {{1099, -1, 130}, {5, 0, 2}}, cache, query);
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i].bits, many[i].bits) << "value " << i;
}

TEST(GroupedKernelTest, BlocksOfAMultiprocessor) {
  EXPECT_EQ(GroupedBlocksPerMultiprocessor(128, false, 233472), 3);
  EXPECT_EQ(GroupedBlocksPerMultiprocessor(128, false, 102400), 1);
  EXPECT_EQ(GroupedBlocksPerMultiprocessor(128, true, 102400), 1);
  EXPECT_EQ(GroupedBlocksPerMultiprocessor(32, true, 102400), 3);
  EXPECT_EQ(GroupedBlocksPerMultiprocessor(48, false, 233472), 0);
}

}  // namespace
}  // namespace numoe::execution::cuda
