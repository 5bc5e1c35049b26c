// Compares the CPU device's operations with double precision, for every instruction set and precision that
// this machine supports, for one token and for many.
//
// The tolerance of a product, where S is the sum of |w x|: BF16 rounding changes an input by at most 2^-8 of
// itself, so 2^-8 S; the error of fp32 sums of n products is (n + 2) 2^-24 S. Other operations are a few fp32
// roundings.
#include "coordinator/execution/device/cpu/cpu_operations.h"

#include <cmath>
#include <random>

#include "coordinator/execution/device/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution {
namespace {

struct CpuOperationsCase {
  Isa isa;
  Precision precision;
  int tokens;
};

class CpuOperationsTest : public ::testing::TestWithParam<CpuOperationsCase> {
 protected:
  void SetUp() override {
    if (!SelectIsa(IsaName(GetParam().isa)).ok())
      GTEST_SKIP() << "this CPU lacks " << IsaName(GetParam().isa);
    auto device = CpuDevice::Create({.step_tokens_max = GetParam().tokens,
                                     .cpus = {0, 0, 0},
                                     .isa = GetParam().isa,
                                     .precision = GetParam().precision});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    for (int t = 0; t < GetParam().tokens; ++t) {
      layout_.tokens.push_back(t % 5);
      layout_.positions.push_back(3000 + 7 * t);
      layout_.sequences.push_back(0);
    }
    layout_.logit_rows = {GetParam().tokens - 1};
    if (GetParam().tokens > 1) layout_.logit_rows.insert(layout_.logit_rows.begin(), 0);
    step_ = device_->Begin(layout_);
  }

  // Returns a tensor with random values, which only an embedding can write from outside the device.
  Tensor RandomTensor(int cols) {
    std::vector<float> table = RandomFloats(static_cast<size_t>(5 * cols), random_);
    const MatrixView view{.format = MatrixFormat::kF32,
                          .rows = 5,
                          .cols = cols,
                          .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(table.data()),
                                                 table.size() * sizeof(float))};
    const Tensor tensor = device_->store().NewTensor(cols);
    step_->ops().Embed(step_->all(), *device_->store().LoadEmbedding(view), tensor);
    return tensor;
  }
  // Returns the step's rows [tokens, cols] of a tensor.
  std::vector<float> Read(Tensor tensor) { return Read(step_->all(), tensor); }
  std::vector<float> Read(Rows rows, Tensor tensor) {
    const auto output = step_->ReadLogits(rows, tensor);
    return {output->logits.begin(), output->logits.end()};
  }
  Matrix Load(const Stored& stored) {
    const absl::StatusOr<Matrix> matrix = device_->store().LoadMatrix(stored.view);
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    return *matrix;
  }
  // Returns the product of a row of weights with x, and S of the tolerance.
  static std::pair<double, double> Dot(const std::vector<float>& weights, int row, const float* x, int cols) {
    double sum = 0, magnitude = 0;
    for (int k = 0; k < cols; ++k) {
      const double product = static_cast<double>(weights[static_cast<size_t>(row * cols + k)]) * x[k];
      sum += product;
      magnitude += std::fabs(product);
    }
    return {sum, magnitude};
  }
  static std::vector<float> Decode(const MatrixView& view) {
    std::vector<float> values(static_cast<size_t>(view.rows * view.cols));
    DecodeMatrix(view, 0, view.rows, 0, view.cols, absl::MakeSpan(values));
    return values;
  }
  double Unit() const { return GetParam().precision == Precision::kFloat ? 0x1p-17 : 0x1p-8; }

  std::mt19937 random_{17};
  std::unique_ptr<CpuDevice> device_;
  StepLayout layout_;
  std::unique_ptr<Step> step_;
};

TEST_P(CpuOperationsTest, LinearServesSeveralMatricesAtOnce) {
  constexpr int kCols = 320;
  const Tensor in = RandomTensor(kCols);
  const Stored stored[3] = {RandomStored(WeightFormat::kBf16, 200, kCols, random_),
                            RandomStored(WeightFormat::kFp8, 128, kCols, random_),
                            RandomStored(WeightFormat::kBf16, 40, kCols, random_)};
  const Tensor wide = RandomTensor(250);   // the first matrix writes channels 30 and later; the others stay
  const Tensor added = RandomTensor(128);  // the second matrix is added to it
  const Tensor own = device_->store().NewTensor(40);
  const std::vector<float> x = Read(in), wide_before = Read(wide), added_before = Read(added);
  step_->ops().Linear(step_->all(), in,
                      {{Load(stored[0]), {.tensor = wide, .offset = 30}},
                       {Load(stored[1]), {added}, /*accumulate=*/true},
                       {Load(stored[2]), {own}}});
  const std::vector<float> out[3] = {Read(wide), Read(added), Read(own)};
  const int widths[3] = {250, 128, 40}, offsets[3] = {30, 0, 0};
  for (int m = 0; m < 3; ++m) {
    const std::vector<float> weights = Decode(stored[m].view);
    for (int t = 0; t < GetParam().tokens; ++t) {
      for (int row = 0; row < stored[m].view.rows; ++row) {
        auto [expected, magnitude] = Dot(weights, row, &x[static_cast<size_t>(t * kCols)], kCols);
        const size_t at = static_cast<size_t>(t * widths[m] + offsets[m] + row);
        if (m == 1) expected += added_before[at];
        ASSERT_NEAR(out[m][at], expected, Unit() * magnitude + 1e-5) << "matrix " << m << " token " << t;
      }
    }
  }
  for (int t = 0; t < GetParam().tokens; ++t) {
    for (int i = 0; i < 250; ++i) {
      if (i >= 30 && i < 230) continue;
      const size_t at = static_cast<size_t>(t * 250 + i);
      ASSERT_EQ(out[0][at], wide_before[at]) << "channel " << i << " belongs to no matrix";
    }
  }
}

// With int8 a weight is off by up to its group's largest magnitude / 254, and if the kernels use INT8 inputs,
// so is an input relative to its own group.
TEST_P(CpuOperationsTest, DenseMatricesHaveTheRequestedFormat) {
  auto device = CpuDevice::Create({.step_tokens_max = GetParam().tokens,
                                   .cpus = {0, 0},
                                   .isa = GetParam().isa,
                                   .precision = GetParam().precision,
                                   .dense_format = WeightFormat::kInt8});
  ASSERT_TRUE(device.ok()) << device.status();
  step_.reset();
  device_ = *std::move(device);
  step_ = device_->Begin(layout_);
  constexpr int kCols = 128, kRows = 70;
  const Tensor in = RandomTensor(kCols), out = device_->store().NewTensor(kRows);
  const std::vector<float> x = Read(in);
  const Stored stored = RandomStored(WeightFormat::kBf16, kRows, kCols, random_);
  step_->ops().Linear(step_->all(), in, {{Load(stored), {out}}});
  const std::vector<float> weights = Decode(stored.view), y = Read(out);
  const auto largest = [](const float* v) {
    float top = 0;
    for (int i = 0; i < 32; ++i) top = std::max(top, std::fabs(v[i]));
    return top;
  };
  double off = 0;
  for (int t = 0; t < GetParam().tokens; ++t) {
    for (int row = 0; row < kRows; ++row) {
      double expected = 0, tolerance = 1e-5;
      for (int k = 0; k < kCols; ++k) {
        const float* w = &weights[static_cast<size_t>(row * kCols)];
        const float* v = &x[static_cast<size_t>(t * kCols)];
        const double w_off = largest(w + k / 32 * 32) / 254.0, v_off = largest(v + k / 32 * 32) / 254.0;
        expected += static_cast<double>(w[k]) * v[k];
        tolerance += 1.01 * (w_off * (std::fabs(v[k]) + v_off) + v_off * std::fabs(w[k]));
      }
      const double error = std::fabs(y[static_cast<size_t>(t * kRows + row)] - expected);
      ASSERT_LE(error, tolerance);
      off += error;
    }
  }
  EXPECT_GT(off, 1e-3 * GetParam().tokens) << "these are not int8 weights";
}

TEST_P(CpuOperationsTest, GatedLinearIsSiluOfGateTimesUp) {
  constexpr int kCols = 192, kRows = 150;
  const Tensor in = RandomTensor(kCols);
  const Stored gate = RandomStored(WeightFormat::kBf16, kRows, kCols, random_);
  const Stored up = RandomStored(WeightFormat::kBf16, kRows, kCols, random_);
  const Tensor out = device_->store().NewTensor(kRows);
  const auto gate_up = device_->store().LoadGated(gate.view, up.view);
  ASSERT_TRUE(gate_up.ok()) << gate_up.status();
  step_->ops().GatedLinear(step_->all(), in, *gate_up, out);
  const std::vector<float> x = Read(in), y = Read(out);
  const std::vector<float> gates = Decode(gate.view), ups = Decode(up.view);
  for (int t = 0; t < GetParam().tokens; ++t) {
    for (int row = 0; row < kRows; ++row) {
      const auto [g, g_size] = Dot(gates, row, &x[static_cast<size_t>(t * kCols)], kCols);
      const auto [u, u_size] = Dot(ups, row, &x[static_cast<size_t>(t * kCols)], kCols);
      // silu's slope is at most 1.1, its value at most |g|.
      const double tolerance =
          Unit() * (1.1 * g_size * (std::fabs(u) + Unit() * u_size) + std::fabs(g) * u_size);
      ASSERT_NEAR(y[static_cast<size_t>(t * kRows + row)], g / (1 + std::exp(-g)) * u, tolerance + 1e-5);
    }
  }
}

TEST_P(CpuOperationsTest, RmsNormWorksOnWindows) {
  constexpr int kHeads = 3, kWidth = 40, kStride = 50;
  const Tensor in = RandomTensor(kHeads * kStride);
  const std::vector<float> x = Read(in), weight = RandomFloats(kWidth, random_);
  step_->ops().RmsNorm(step_->all(), {in, kHeads, kStride, 5}, kWidth, device_->store().LoadVector(weight),
                       1e-5f, {in, kHeads, kStride, 5});
  const std::vector<float> y = Read(in);
  for (int t = 0; t < GetParam().tokens; ++t) {
    for (int h = 0; h < kHeads; ++h) {
      const size_t window = static_cast<size_t>((t * kHeads + h) * kStride);
      double squares = 0;
      for (size_t i = 0; i < kWidth; ++i)
        squares += static_cast<double>(x[window + 5 + i]) * x[window + 5 + i];
      const double scale = 1 / std::sqrt(squares / kWidth + 1e-5);
      for (size_t i = 0; i < kStride; ++i) {
        const bool inside = i >= 5 && i < 5 + kWidth;
        const double expected = inside ? x[window + i] * scale * weight[i - 5] : x[window + i];
        ASSERT_NEAR(y[window + i], expected, std::fabs(expected) * 1e-6);
      }
    }
  }
}

TEST_P(CpuOperationsTest, RopeRotatesPairsByThePositionsAngle) {
  for (const RopeLayout layout : {RopeLayout::kInterleaved, RopeLayout::kHalf}) {
    for (const int pairs : {4, 32, 40}) {
      const Tensor in = RandomTensor(2 * 2 * pairs);
      const std::vector<float> x = Read(in);
      std::vector<float> inverse;
      for (int i = 0; i < pairs; ++i) inverse.push_back(std::pow(1e4f, -static_cast<float>(i) / pairs));
      const RopeTable table = device_->store().LoadRope(inverse, 1.25f, layout);
      step_->ops().Rope(step_->all(), table, {in, 2, 2 * pairs, 0}, {in, 2, 2 * pairs, 0});  // in place
      const std::vector<float> y = Read(in);
      for (int t = 0; t < GetParam().tokens; ++t) {
        for (int h = 0; h < 2; ++h) {
          for (int i = 0; i < pairs; ++i) {
            const double angle = static_cast<double>(layout_.positions[static_cast<size_t>(t)]) *
                                 inverse[static_cast<size_t>(i)];
            const int window = (t * 2 + h) * 2 * pairs;
            const size_t a = static_cast<size_t>(window + (layout == RopeLayout::kHalf ? i : 2 * i));
            const size_t b =
                static_cast<size_t>(window + (layout == RopeLayout::kHalf ? i + pairs : 2 * i + 1));
            ASSERT_NEAR(y[a], 1.25 * (x[a] * std::cos(angle) - x[b] * std::sin(angle)), 2e-6);
            ASSERT_NEAR(y[b], 1.25 * (x[b] * std::cos(angle) + x[a] * std::sin(angle)), 2e-6);
          }
        }
      }
    }
  }
}

// The gate is exact regardless of the precision of the rest, and whether or not its weights are BF16.
TEST_P(CpuOperationsTest, TheGateIsExactToFp32) {
  constexpr int kExperts = 50, kCols = 256;
  const Tensor in = RandomTensor(kCols);
  const std::vector<float> x = Read(in);
  for (const bool bf16 : {true, false}) {
    std::vector<float> weights =
        bf16 ? Decode(RandomStored(WeightFormat::kBf16, kExperts, kCols, random_).view)
             : RandomFloats(kExperts * kCols, random_);
    for (float& w : weights) w *= 0.125f;
    const Gate gate = device_->store().LoadGate(weights, {}, kExperts);
    const RouteTable routes =
        device_->store().NewRouteTable(kExperts);  // all experts, so that every weight is visible
    struct Backend : ExpertBackend {
      absl::Status Start(const LayerCallView& c) override {
        call = c;
        return absl::OkStatus();
      }
      absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
      absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
      bool Ready() const override { return true; }
      LayerCallView call;
    } backend;
    device_->ConnectExperts(backend);
    step_ = device_->Begin(layout_);
    step_->ops().Route(
        step_->all(), gate,
        {.scoring = GateScoring::kSoftmax, .experts_per_token = kExperts, .norm_topk_prob = false}, in,
        routes);
    const auto sent = step_->SendExperts(step_->StageExperts(step_->all(), 0, in, routes), in);
    ASSERT_TRUE(sent.ok()) << sent.status();
    for (int t = 0; t < GetParam().tokens; ++t) {
      std::vector<double> p;
      double sum = 0;
      for (int e = 0; e < kExperts; ++e) {
        p.push_back(std::exp(Dot(weights, e, &x[static_cast<size_t>(t * kCols)], kCols).first));
        sum += p.back();
      }
      for (int k = 0; k < kExperts; ++k) {
        const size_t at = static_cast<size_t>(t * kExperts + k);
        const double expected = p[static_cast<size_t>(backend.call.experts[at])] / sum;
        ASSERT_NEAR(backend.call.weights[at], expected, expected * 1e-4);
        ASSERT_LE(backend.call.weights[at], backend.call.weights[k > 0 ? at - 1 : at]);
      }
    }
  }
}

TEST_P(CpuOperationsTest, LogitRowsAreCompacted) {
  const Tensor in = RandomTensor(33);
  const std::vector<float> x = Read(in);
  const Tensor out = device_->store().NewTensor(33);
  const std::vector<float> y = Read(step_->SelectLogitRows(in, out), out);
  ASSERT_EQ(y.size(), layout_.logit_rows.size() * 33);
  for (size_t r = 0; r < layout_.logit_rows.size(); ++r) {
    for (size_t i = 0; i < 33; ++i)
      EXPECT_EQ(y[r * 33 + i], x[static_cast<size_t>(layout_.logit_rows[r]) * 33 + i]);
  }
}

std::string CpuOperationsName(const ::testing::TestParamInfo<CpuOperationsCase>& info) {
  constexpr const char* kPrecisions[] = {"fast", "bf16", "fp32"};
  return std::string(IsaName(info.param.isa)) + "_" + kPrecisions[static_cast<size_t>(info.param.precision)] +
         "_" + std::to_string(info.param.tokens);
}
std::vector<CpuOperationsCase> Cases() {
  std::vector<CpuOperationsCase> cases;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    for (const Precision precision : {Precision::kFast, Precision::kFloat}) {
      for (const int tokens : {1, 3, 70}) cases.push_back({isa, precision, tokens});
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(All, CpuOperationsTest, ::testing::ValuesIn(Cases()), CpuOperationsName);

}  // namespace
}  // namespace numoe::execution
