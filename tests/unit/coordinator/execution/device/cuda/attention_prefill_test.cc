// Compares prefill attention with a reference in double precision, under all schedules of the host's
// execution model.
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

using Rows = std::vector<std::vector<double>>;

void ExpectRow(const std::vector<Bf16>& out, size_t at, const Attended& wanted, const std::string& what) {
  for (size_t i = 0; i < wanted.out.size(); ++i) {
    ASSERT_NEAR(Value(out[at + i]), wanted.out[i], AttendTolerance(wanted.magnitude[i]))
        << what << " channel " << i;
  }
}

// Rows that are in no run must stay NaN.
void ExpectUntouched(const std::vector<Bf16>& out, const std::vector<PrefillRun>& runs, int rows,
                     size_t row_values) {
  for (int row = 0; row < rows; ++row) {
    bool named = false;
    for (const PrefillRun& run : runs) named |= row >= run.row && row < run.row + run.rows;
    if (named) continue;
    for (size_t i = 0; i < row_values; ++i)
      ASSERT_EQ(out[static_cast<size_t>(row) * row_values + i].bits, 0xffff);
  }
}

struct ExpandedCase {
  const char* name;
  int nope;
  int rope;
  int value;
  int heads;
  int key_rows_max;
  std::vector<PrefillRun> runs;
};

// The expanded keys and values of every position of every sequence, as kv_b_proj would compute them: for each
// head [nope | value]; and the rotated keys.
struct Expanded {
  Expanded(const ExpandedCase& c, std::mt19937& random) {
    for (const PrefillRun& run : c.runs) {
      const auto positions = static_cast<size_t>(run.position + run.rows);
      pairs[run.sequence] = RoundAll(ScaledFloats(positions * Width(c), 1.0f, random));
      ropes[run.sequence] = RoundAll(ScaledFloats(positions * static_cast<size_t>(c.rope), 1.0f, random));
    }
  }
  static size_t Width(const ExpandedCase& c) { return static_cast<size_t>(c.heads * (c.nope + c.value)); }

  std::map<int, std::vector<Bf16>> pairs;
  std::map<int, std::vector<Bf16>> ropes;
};

void RunPass(const ExpandedCase& c, const PrefillPass& pass, const Expanded& expanded, PrefillArgs args) {
  const size_t width = Expanded::Width(c);
  const auto rope = static_cast<size_t>(c.rope);
  std::vector<Bf16> pairs(static_cast<size_t>(pass.key_rows) * width),
      ropes(static_cast<size_t>(pass.key_rows) * rope);
  for (const PrefillStretch& s : pass.stretches) {
    std::copy_n(expanded.pairs.at(s.sequence).begin() + s.begin * static_cast<int64_t>(width),
                static_cast<size_t>(s.end - s.begin) * width,
                pairs.begin() + s.key_row * static_cast<int64_t>(width));
    std::copy_n(expanded.ropes.at(s.sequence).begin() + s.begin * c.rope,
                static_cast<size_t>(s.end - s.begin) * rope, ropes.begin() + s.key_row * c.rope);
  }
  DeviceBuffer<Bf16> pairs_device(pairs), ropes_device(ropes);
  DeviceBuffer<PrefillTask> tasks(pass.tasks);
  args.tasks = tasks.data();
  args.task_count = static_cast<int>(pass.tasks.size());
  LaunchExpandedPrefill({.common = args,
                         .keys = pairs_device.data(),
                         .key_stride = static_cast<int64_t>(width),
                         .key_head_stride = c.nope + c.value,
                         .ropes = ropes_device.data(),
                         .rope_stride = c.rope,
                         .rope_width = c.rope,
                         .values = pairs_device.data() + c.nope,
                         .value_stride = static_cast<int64_t>(width),
                         .value_head_stride = c.nope + c.value},
                        nullptr);
  Synchronise();
}

class ExpandedPrefillTest : public testing::TestWithParam<ExpandedCase> {};

TEST_P(ExpandedPrefillTest, MatchesDoublePrecision) {
  const ExpandedCase& c = GetParam();
  std::mt19937 random(21);
  const Expanded expanded(c, random);
  int rows = 2;
  for (const PrefillRun& run : c.runs) rows = std::max(rows, run.row + run.rows + 2);
  const size_t heads = static_cast<size_t>(c.heads), value = static_cast<size_t>(c.value);
  const size_t key = static_cast<size_t>(c.nope + c.rope);
  const std::vector<Bf16> query =
      RoundAll(ScaledFloats(static_cast<size_t>(rows) * heads * key, 1.0f, random));
  const float scale = 1.5f / std::sqrt(static_cast<float>(key));
  DeviceBuffer<Bf16> query_device(query);
  const size_t places = static_cast<size_t>(rows) * heads;
  std::vector<Bf16> first;
  RunUnderAllSchedules([&] {
    DeviceBuffer<float> sums(places * value), maxima(places), totals(places);
    DeviceBuffer<Bf16> out(places * value);
    const PrefillArgs args{.heads = c.heads,
                           .key_width = c.nope + c.rope,
                           .value_width = c.value,
                           .scale = scale,
                           .query = query_device.data(),
                           .out = out.data(),
                           .state = {sums.data(), maxima.data(), totals.data()}};
    for (const PrefillPass& pass : PlanPrefill(c.runs, c.key_rows_max)) RunPass(c, pass, expanded, args);
    const std::vector<Bf16> result = out.Download();
    if (first.empty()) first = result;
    for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i].bits, first[i].bits) << "value " << i;
  });
  ExpectUntouched(first, c.runs, rows, heads * value);
  for (const PrefillRun& run : c.runs) {
    for (size_t head = 0; head < heads; ++head) {
      Rows keys, values;
      for (int p = 0; p < run.position + run.rows; ++p) {
        const Bf16* pair = &expanded.pairs.at(run.sequence)[static_cast<size_t>(p) * Expanded::Width(c) +
                                                            head * static_cast<size_t>(c.nope + c.value)];
        const Bf16* rope = &expanded.ropes.at(run.sequence)[static_cast<size_t>(p * c.rope)];
        keys.emplace_back();
        for (int i = 0; i < c.nope; ++i) keys.back().push_back(Value(pair[i]));
        for (int i = 0; i < c.rope; ++i) keys.back().push_back(Value(rope[i]));
        values.emplace_back();
        for (int i = 0; i < c.value; ++i) values.back().push_back(Value(pair[c.nope + i]));
      }
      for (int r = 0; r < run.rows; r += r < 4 || r > run.rows - 4 ? 1 : 7) {
        const auto seen = static_cast<int64_t>(run.position + r + 1);
        const size_t at = static_cast<size_t>(run.row + r) * heads + head;
        const Attended wanted = AttendInDouble(absl::MakeSpan(query).subspan(at * key, key),
                                               Rows(keys.begin(), keys.begin() + seen),
                                               Rows(values.begin(), values.begin() + seen), c.value, scale);
        ExpectRow(first, at * value, wanted,
                  "row " + std::to_string(run.row + r) + " head " + std::to_string(head));
      }
    }
  }
}

// A prompt of more than one task, one whose stretches end in the middle of rows, and a chunk that follows a
// context.
const std::vector<PrefillRun> kRuns = {{.row = 1, .rows = 150, .sequence = 3, .position = 0},
                                       {.row = 151, .rows = 5, .sequence = 1, .position = 0},
                                       {.row = 158, .rows = 33, .sequence = 2, .position = 70}};
INSTANTIATE_TEST_SUITE_P(Shapes, ExpandedPrefillTest,
                         testing::Values(ExpandedCase{"MlaInOnePass", 128, 64, 128, 1, 1000, kRuns},
                                         ExpandedCase{"MlaInSomePasses", 128, 64, 128, 2, 100, kRuns},
                                         ExpandedCase{"NanoInManyPasses", 32, 16, 32, 3, 33, kRuns},
                                         ExpandedCase{"NanoWideRope", 32, 32, 32, 2, 90, kRuns}),
                         [](const auto& shape) { return std::string(shape.param.name); });

struct PagedCase {
  int width;
  bool fp8;
};
class PagedPrefillTest : public testing::TestWithParam<PagedCase> {};

TEST_P(PagedPrefillTest, MatchesDoublePrecision) {
  const PagedCase& c = GetParam();
  constexpr int kHeads = 4, kCacheHeads = 2, kStepRows = 200;
  std::mt19937 random(22);
  PagedCache cache({.fp8 = c.fp8, .heads = kCacheHeads, .key_width = c.width, .value_width = c.width},
                   {150, 9, 103}, random);
  const std::vector<PrefillRun> runs = {{.row = 0, .rows = 150, .sequence = 0, .position = 0},
                                        {.row = 150, .rows = 9, .sequence = 1, .position = 0},
                                        {.row = 165, .rows = 33, .sequence = 2, .position = 70}};
  const auto width = static_cast<size_t>(c.width);
  const std::vector<Bf16> query = RoundAll(ScaledFloats(size_t{kStepRows} * kHeads * width, 1.0f, random));
  const float scale = 1.5f / std::sqrt(static_cast<float>(c.width));
  DeviceBuffer<Bf16> query_device(query);
  const std::vector<PrefillPass> passes = PlanPrefill(runs, 0);
  ASSERT_EQ(passes.size(), 1u);
  DeviceBuffer<PrefillTask> tasks(passes[0].tasks);
  std::vector<Bf16> first;
  RunUnderAllSchedules([&] {
    DeviceBuffer<Bf16> out(query.size());
    LaunchPagedPrefill({.common = {.tasks = tasks.data(),
                                   .task_count = static_cast<int>(tasks.size()),
                                   .heads = kHeads,
                                   .key_width = c.width,
                                   .value_width = c.width,
                                   .scale = scale,
                                   .query = query_device.data(),
                                   .out = out.data()},
                        .cache = cache.layer(),
                        .tables = cache.Tables(nullptr, nullptr)},
                       nullptr);
    const std::vector<Bf16> result = out.Download();
    if (first.empty()) first = result;
    for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i].bits, first[i].bits) << "value " << i;
  });
  ExpectUntouched(first, runs, kStepRows, kHeads * width);
  for (const PrefillRun& run : runs) {
    for (int r = 0; r < run.rows; r += r < 4 || r > run.rows - 4 ? 1 : 7) {
      for (int head = 0; head < kHeads; ++head) {
        Rows keys, values;
        for (int p = 0; p <= run.position + r; ++p) {
          keys.push_back(cache.Key(run.sequence, p, head / 2));
          values.push_back(cache.ValueRow(run.sequence, p, head / 2));
        }
        const size_t at = (static_cast<size_t>(run.row + r) * kHeads + static_cast<size_t>(head)) * width;
        ExpectRow(first, at,
                  AttendInDouble(absl::MakeSpan(query).subspan(at, width), keys, values, c.width, scale),
                  "row " + std::to_string(run.row + r) + " head " + std::to_string(head));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, PagedPrefillTest,
                         testing::Values(PagedCase{32, false}, PagedCase{64, false}, PagedCase{96, false},
                                         PagedCase{128, false}, PagedCase{32, true}, PagedCase{64, true},
                                         PagedCase{96, true}, PagedCase{128, true}));

}  // namespace
}  // namespace numoe::execution::cuda
