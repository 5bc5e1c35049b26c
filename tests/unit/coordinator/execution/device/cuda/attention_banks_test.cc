// No load of matrix rows from shared memory has a bank conflict, in any attention kernel and at any width.
// Runs only on the host's execution model, which counts conflicts.
#include <string>

#include "coordinator/execution/device/cuda/kernels/attention_grouped.h"
#include "coordinator/execution/device/cuda/kernels/attention_latent.h"
#include "coordinator/execution/device/cuda/kernels/attention_prefill.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/paged_cache.h"

namespace numoe::execution::cuda {
namespace {

// Expects that `run` loads matrix rows, all of them without a conflict.
template <typename Run>
void ExpectNoConflicts(const std::string& what, const Run& run) {
  const auto count = CountBankConflicts(run);
  if (!count) GTEST_SKIP() << "a device does not report bank conflicts";
  EXPECT_GT(count->loads, 0u) << what;
  EXPECT_EQ(count->conflicts, 0u) << what;
}

// One row of 70 positions, by one worker.
struct OneRow {
  explicit OneRow(int tile) : shape(PlanDecode({.rows = 1, .context_max = 70, .tile = tile})) {
    memory.emplace(static_cast<size_t>(DecodeListBytes(shape)));
    lists = PlaceLists(shape, memory->data());
    LaunchPlanPieces({.shape = shape, .lists = lists, .positions = positions.data()}, nullptr);
  }
  DecodeShape shape;
  DecodeLists lists;
  DeviceBuffer<int32_t> positions{std::vector<int32_t>{69}};
  DeviceBuffer<int32_t> sequences{std::vector<int32_t>{0}};
  std::optional<DeviceBuffer<std::byte>> memory;
};

TEST(AttentionBanksTest, LatentDecode) {
  struct Shape {
    LatentWidths widths;
    bool fp8;
    int64_t shared_bytes;
  };
  std::mt19937 random(1);
  for (const Shape& s : {Shape{{}, false, 232448}, Shape{{}, false, 166912}, Shape{{}, false, 101376},
                         Shape{{}, true, 232448}, Shape{{}, true, 166912}, Shape{{}, true, 101376},
                         Shape{{64, 16}, false, 101376}, Shape{{64, 32}, true, 101376}}) {
    const LatentKernelShape kernel = PlanLatentKernel(s.widths, s.fp8, s.shared_bytes);
    const int width = s.widths.latent + s.widths.rope;
    PagedCache cache({.fp8 = s.fp8, .key_width = width, .plain_width = s.widths.rope}, {70}, random);
    OneRow row(kernel.keys);
    DeviceBuffer<float> maxima(64);
    DeviceBuffer<Bf16> query(RoundAll(ScaledFloats(static_cast<size_t>(64 * width), 1.0f, random)));
    DeviceBuffer<Bf16> out(static_cast<size_t>(64 * s.widths.latent));
    ExpectNoConflicts("latent " + std::to_string(width) + " keys " + std::to_string(kernel.keys), [&] {
      LaunchLatentDecode({.kernel = kernel,
                          .cache = cache.layer(),
                          .tables = cache.Tables(row.positions.data(), row.sequences.data()),
                          .shape = row.shape,
                          .lists = row.lists,
                          .parts = {.maxima = maxima.data()},
                          .heads = 64,
                          .query = query.data(),
                          .out = out.data()},
                         nullptr);
    });
  }
}

TEST(AttentionBanksTest, GroupedDecodeAndPagedPrefill) {
  std::mt19937 random(2);
  for (const int width : {32, 64, 96, 128}) {
    for (const bool fp8 : {false, true}) {
      PagedCache cache({.fp8 = fp8, .key_width = width, .value_width = width}, {70}, random);
      OneRow row(kGroupedTileKeys);
      DeviceBuffer<Bf16> query(RoundAll(ScaledFloats(static_cast<size_t>(70 * width), 1.0f, random)));
      DeviceBuffer<Bf16> out(static_cast<size_t>(70 * width));
      const StepTables tables = cache.Tables(row.positions.data(), row.sequences.data());
      ExpectNoConflicts("decode " + std::to_string(width), [&] {
        LaunchGroupedDecode({.cache = cache.layer(),
                             .tables = tables,
                             .shape = row.shape,
                             .lists = row.lists,
                             .heads = 1,
                             .query = query.data(),
                             .out = out.data()},
                            nullptr);
      });
      DeviceBuffer<PrefillTask> tasks(PlanPrefill({{.rows = 70}}, 0)[0].tasks);
      ExpectNoConflicts("prefill " + std::to_string(width), [&] {
        LaunchPagedPrefill({.common = {.tasks = tasks.data(),
                                       .task_count = 1,
                                       .heads = 1,
                                       .key_width = width,
                                       .value_width = width,
                                       .query = query.data(),
                                       .out = out.data()},
                            .cache = cache.layer(),
                            .tables = tables},
                           nullptr);
      });
    }
  }
}

TEST(AttentionBanksTest, ExpandedPrefill) {
  struct Widths {
    int nope, rope, value;
  };
  std::mt19937 random(3);
  for (const Widths& w : {Widths{128, 64, 128}, Widths{32, 16, 32}, Widths{32, 32, 32}}) {
    const auto rows = [&](int width) {
      return RoundAll(ScaledFloats(static_cast<size_t>(70 * width), 1.0f, random));
    };
    DeviceBuffer<Bf16> query(rows(w.nope + w.rope)), keys(rows(w.nope)), ropes(rows(w.rope)),
        values(rows(w.value));
    DeviceBuffer<Bf16> out(static_cast<size_t>(70 * w.value));
    DeviceBuffer<PrefillTask> tasks(PlanPrefill({{.rows = 70}}, 100)[0].tasks);
    ExpectNoConflicts("expanded " + std::to_string(w.nope + w.rope), [&] {
      LaunchExpandedPrefill({.common = {.tasks = tasks.data(),
                                        .task_count = 1,
                                        .heads = 1,
                                        .key_width = w.nope + w.rope,
                                        .value_width = w.value,
                                        .query = query.data(),
                                        .out = out.data()},
                             .keys = keys.data(),
                             .key_stride = w.nope,
                             .ropes = ropes.data(),
                             .rope_stride = w.rope,
                             .rope_width = w.rope,
                             .values = values.data(),
                             .value_stride = w.value},
                            nullptr);
    });
  }
}

}  // namespace
}  // namespace numoe::execution::cuda
