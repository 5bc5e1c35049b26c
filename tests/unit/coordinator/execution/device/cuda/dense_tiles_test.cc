// Compares the product kernel with double precision: every format, number of tokens, kind of output and
// split, with sizes that are not multiples of tiles in every dimension, under every schedule; and checks what
// it must not change and what its results must not depend on.
#include "coordinator/execution/device/cuda/kernels/dense_tiles.h"

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/dense_reference.h"

namespace numoe::execution::cuda {
namespace {

constexpr float kDenseTilesUntouched = 77.0f;

struct DenseTilesCase {
  DeviceFormat format;
  int rows, cols, tokens;
  bool gated;
  GemmOutput output;
  int multiprocessors;  // with few of them there are no splits
};

std::string Name(const DenseTilesCase& c) {
  return fmt::format("format {} {}x{} {} tokens gated {} output {} on {}", static_cast<int>(c.format), c.rows,
                     c.cols, c.tokens, c.gated, static_cast<int>(c.output), c.multiprocessors);
}

GemmPlan PlanFor(const DeviceMatrix& m, int tokens, int multiprocessors, bool exact = false) {
  return PlanGemm({.panels = {PanelCount(m.rows, m.gated)},
                   .cols = m.cols,
                   .tokens = tokens,
                   .multiprocessors = multiprocessors,
                   .exact = exact});
}

struct Scratch {
  explicit Scratch(const GemmPlan& plan)
      : partials(plan.partial_bytes() / sizeof(float)), arrivals(std::vector<uint32_t>(plan.arrivals(), 0)) {}
  void Give(GemmArgs& args) {
    args.partials = partials.data();
    args.arrivals = arrivals.data();
  }
  DeviceBuffer<float> partials;
  DeviceBuffer<uint32_t> arrivals;
};

// An output window inside wider rows, to check that the channels outside it do not change.
template <class T>
struct Window {
  Window(int tokens, int width, int first, T fill)
      : stride(width + first + 11),
        offset(first),
        values(std::vector<T>(static_cast<size_t>(tokens * stride), fill)) {}
  T* data() { return values.data() + offset; }
  int stride, offset;
  DeviceBuffer<T> values;
};

double AsDouble(float v) { return v; }
double AsDouble(Bf16 v) { return DecodeBf16(v.bits); }

template <class T>
void ExpectWindow(const DenseTilesCase& c, const PackedOnDevice& w, const GemmPlan& plan,
                  const std::vector<Bf16>& x, int x_stride, Window<T>& window, T fill) {
  const std::vector<T> got = window.values.Download();
  const std::vector<float> weights = w.Values(0);
  for (int t = 0; t < c.tokens; ++t) {
    const std::vector<Bounded> expected =
        Products(w.matrix, weights, &x[static_cast<size_t>(t * x_stride)], plan);
    for (int o = -window.offset; o < window.stride - window.offset; ++o) {
      const T value = got[static_cast<size_t>(t * window.stride + window.offset + o)];
      if (o < 0 || o >= c.rows) {
        ASSERT_EQ(AsDouble(value), AsDouble(fill)) << Name(c) << ": token " << t << " channel " << o;
        continue;
      }
      Bounded e = expected[static_cast<size_t>(o)];
      if (c.output == GemmOutput::kAddFp32)
        e.value += kDenseTilesUntouched, e.error += (std::fabs(e.value) + 200) * 0x1p-23;
      if (c.output == GemmOutput::kBf16) e = RoundedToBf16(e);
      ASSERT_NEAR(AsDouble(value), e.value, e.error) << Name(c) << ": token " << t << " output " << o;
    }
  }
}

template <class T>
void RunCase(const DenseTilesCase& c, T fill, int offset) {
  std::mt19937 random(static_cast<unsigned>(c.rows * 31 + c.tokens));
  const PackedOnDevice w(c.format, c.rows, c.cols, c.gated, 1, random);
  const int x_stride = (c.cols + 7) / 8 * 8 + 8;
  const std::vector<Bf16> x = RandomBf16(static_cast<size_t>(c.tokens * x_stride), random);
  const DeviceBuffer<Bf16> x_device(x);
  RunUnderAllSchedules([&] {
    Window<T> window(c.tokens, c.rows, offset, fill);
    GemmArgs args;
    args.target_count = 1;
    args.targets[0] = {
        .matrix = w.matrix, .out = window.data(), .out_stride = window.stride, .output = c.output};
    args.x = x_device.data();
    args.x_stride = x_stride;
    args.rows = c.tokens;
    args.plan = PlanFor(w.matrix, c.tokens, c.multiprocessors);
    Scratch scratch(args.plan);
    scratch.Give(args);
    LaunchGemm(args, nullptr);
    ExpectWindow(c, w, args.plan, x, x_stride, window, fill);
    for (const uint32_t arrivals : scratch.arrivals.Download()) ASSERT_EQ(arrivals, 0u);
  });
}

void CheckDenseTiles(const DenseTilesCase& c, int offset) {
  if (c.output == GemmOutput::kBf16) return RunCase<Bf16>(c, {EncodeBf16(kDenseTilesUntouched)}, offset);
  RunCase<float>(c, kDenseTilesUntouched, offset);
}

constexpr DeviceFormat kFormats[] = {DeviceFormat::kBf16, DeviceFormat::kFp8, DeviceFormat::kInt4};

TEST(DenseTilesTest, EveryFormatAndNumberOfTokens) {
  for (const DeviceFormat format : kFormats) {
    for (const int tokens : {1, 8, 13, 30, 61, 135}) {
      const bool many = tokens > 60;
      CheckDenseTiles({format, many ? 96 : 168, many ? 160 : 352, tokens, false, GemmOutput::kFp32, 1}, 8);
    }
  }
}

TEST(DenseTilesTest, EveryKindOfOutput) {
  for (const DeviceFormat format : kFormats) {
    CheckDenseTiles({format, 200, 96, 5, false, GemmOutput::kBf16, 1}, 8);
    CheckDenseTiles({format, 200, 96, 5, false, GemmOutput::kAddFp32, 1}, 4);
    CheckDenseTiles({format, 152, 96, 12, true, GemmOutput::kBf16, 1}, 4);
  }
}

// Sizes without alignment: outputs that end within a lane's eight, windows that begin anywhere, inputs that
// end within 16 bytes.
TEST(DenseTilesTest, RaggedShapes) {
  CheckDenseTiles({DeviceFormat::kBf16, 37, 75, 3, false, GemmOutput::kBf16, 1}, 3);
  CheckDenseTiles({DeviceFormat::kBf16, 13, 8, 9, false, GemmOutput::kAddFp32, 1}, 1);
  CheckDenseTiles({DeviceFormat::kFp8, 33, 130, 17, true, GemmOutput::kBf16, 1}, 5);
  CheckDenseTiles({DeviceFormat::kInt4, 17, 96, 2, true, GemmOutput::kBf16, 1}, 1);
  CheckDenseTiles({DeviceFormat::kInt4, 1, 32, 1, false, GemmOutput::kFp32, 1}, 0);
}

TEST(DenseTilesTest, SplitsAddUpInOrder) {
  for (const DeviceFormat format : kFormats) {
    const DenseTilesCase few{format, 72, 1088, 3, false, GemmOutput::kAddFp32, 132};
    CheckDenseTiles(few, 4);
    CheckDenseTiles({format, 40, 576, 10, true, GemmOutput::kBf16, 132}, 4);
  }
  CheckDenseTiles({DeviceFormat::kInt4, 40, 576, 129, false, GemmOutput::kFp32, 132}, 0);
}

TEST(DenseTilesTest, SeveralTargetsShareALaunch) {
  std::mt19937 random(5);
  for (const DeviceFormat format : kFormats) {
    const int cols = 320, tokens = 4, rows[] = {200, 24, 129};
    const PackedOnDevice a(format, rows[0], cols, false, 1, random),
        b(format, rows[1], cols, false, 1, random), c(format, rows[2], cols, false, 1, random);
    const PackedOnDevice* w[] = {&a, &b, &c};
    const std::vector<Bf16> x = RandomBf16(tokens * cols, random);
    const DeviceBuffer<Bf16> x_device(x);
    GemmShape shape{.target_count = 3, .cols = cols, .tokens = tokens, .multiprocessors = 8};
    for (int i = 0; i < 3; ++i) shape.panels[i] = PanelCount(rows[i], false);
    RunUnderAllSchedules([&] {
      DeviceBuffer<float> out(static_cast<size_t>(tokens * 353));
      GemmArgs args{
          .target_count = 3, .x = x_device.data(), .x_stride = cols, .rows = tokens, .plan = PlanGemm(shape)};
      for (int i = 0, at = 0; i < 3; at += rows[i++])
        args.targets[i] = {w[i]->matrix, out.data() + at, 353, 0, GemmOutput::kFp32};
      Scratch scratch(args.plan);
      scratch.Give(args);
      LaunchGemm(args, nullptr);
      const std::vector<float> got = out.Download();
      for (int i = 0, at = 0; i < 3; at += rows[i++]) {
        const std::vector<float> weights = w[i]->Values(0);
        for (int t = 0; t < tokens; ++t) {
          const std::vector<Bounded> expected =
              Products(w[i]->matrix, weights, &x[static_cast<size_t>(t * cols)], args.plan);
          for (int o = 0; o < rows[i]; ++o) {
            ASSERT_NEAR(got[static_cast<size_t>(t * 353 + at + o)], expected[static_cast<size_t>(o)].value,
                        expected[static_cast<size_t>(o)].error)
                << "target " << i << " token " << t << " output " << o;
          }
        }
      }
    });
  }
}

// Per-head matrices: in and out are windows of one row per token.
TEST(DenseTilesTest, HeadsHaveTheirOwnMatrixAndWindows) {
  std::mt19937 random(6);
  const int heads = 3, rows = 40, cols = 72;
  const PackedOnDevice w(DeviceFormat::kBf16, rows, cols, false, heads, random);
  for (const int tokens : {2, 20}) {
    const std::vector<Bf16> x = RandomBf16(static_cast<size_t>(tokens * heads * 80), random);
    const DeviceBuffer<Bf16> x_device(x);
    RunUnderAllSchedules([&] {
      DeviceBuffer<Bf16> out(static_cast<size_t>(tokens * heads * 48));
      GemmArgs args{.target_count = 1,
                    .x = x_device.data(),
                    .x_stride = heads * 80,
                    .x_group_stride = 80,
                    .rows = tokens,
                    .groups = heads,
                    .group_bytes = w.each()};
      args.targets[0] = {w.matrix, out.data(), heads * 48, 48, GemmOutput::kBf16};
      args.plan =
          PlanGemm({.panels = {PanelCount(rows, false)}, .cols = cols, .tokens = tokens, .groups = heads});
      LaunchGemm(args, nullptr);
      const std::vector<Bf16> got = out.Download();
      for (int h = 0; h < heads; ++h) {
        const std::vector<float> weights = w.Values(h);
        for (int t = 0; t < tokens; ++t) {
          const auto expected =
              Products(w.matrix, weights, &x[static_cast<size_t>((t * heads + h) * 80)], args.plan);
          for (int o = 0; o < rows; ++o) {
            const Bounded e = RoundedToBf16(expected[static_cast<size_t>(o)]);
            ASSERT_NEAR(DecodeBf16(got[static_cast<size_t>((t * heads + h) * 48 + o)].bits), e.value, e.error)
                << "head " << h << " token " << t << " output " << o;
          }
        }
      }
    });
  }
}

// With `exact`, a token's bits depend neither on the number of other tokens nor on its place among them.
TEST(DenseTilesTest, ExactPlansGiveATokenTheSameBitsInAnyBatch) {
  std::mt19937 random(7);
  const int rows = 40, cols = 640, most = 140;
  for (const DeviceFormat format : kFormats) {
    const PackedOnDevice w(format, rows, cols, false, 1, random);
    const std::vector<Bf16> x = RandomBf16(most * cols, random);
    const DeviceBuffer<Bf16> x_device(x);
    std::vector<float> alone;
    for (const int tokens : {1, 7, 33, most}) {
      DeviceBuffer<float> out(static_cast<size_t>(tokens * rows));
      GemmArgs args{.target_count = 1,
                    .x = x_device.data() + static_cast<ptrdiff_t>((most - tokens) * cols),
                    .x_stride = cols,
                    .rows = tokens};
      args.targets[0] = {w.matrix, out.data(), rows, 0, GemmOutput::kFp32};
      args.plan = PlanFor(w.matrix, tokens, 132, true);
      EXPECT_GT(args.plan.splits, 1);
      Scratch scratch(args.plan);
      scratch.Give(args);
      LaunchGemm(args, nullptr);
      const std::vector<float> got = out.Download();
      const std::vector<float> last(got.end() - rows, got.end());
      if (alone.empty()) alone = last;
      EXPECT_EQ(std::memcmp(alone.data(), last.data(), sizeof(float) * rows), 0) << tokens << " tokens";
    }
  }
}

TEST(DenseTilesTest, NoBankConflicts) {
  const auto count = CountBankConflicts([] {
    for (const DeviceFormat format : kFormats)
      CheckDenseTiles({format, 40, 128, 20, false, GemmOutput::kFp32, 1}, 0);
  });
  if (!count) GTEST_SKIP() << "a device does not report bank conflicts";
  EXPECT_GT(count->loads, 0u);
  EXPECT_EQ(count->conflicts, 0u);
}

}  // namespace
}  // namespace numoe::execution::cuda
