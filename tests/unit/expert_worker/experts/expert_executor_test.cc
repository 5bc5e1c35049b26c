// Compares layer calls with a double-precision reference for every format, slicing and instruction set; bad
// calls; statistics.
//
// Reference. The weights are those that the packed bytes mean: the checkpoint's own (DecodeMatrix) if they
// are held as published, and the rounded ones (UnpackWeight) if loading rounds them to another format.
//
// Tolerance. Let u = 2^-24. The error of a dot product of n terms in fp32, in any order, is at most (n + 4) u
// sum |w x|, where the 4 is for decoding w and combining lanes. So gate g and up v have errors dg and dv.
// |silu'| <= 1.1, and silu itself has an error of 16 u, so the error of h = silu(g) v is dh <= 1.1 dg |v| +
// |silu(g)| dv + 32 u |h|. The error of an output is then sum_experts weight (sum |d| dh + (n + 4) u sum |d
// h|), plus one rounding for each expert that is added.
//
// Quantised activations begin with an error of their own, which is propagated in the same way: 2^-8 of a
// value for BF16, and half a step of the group's top / 127 for INT8. AMX is not tested here; the kernels' own
// test has its tolerance.
#include "expert_worker/experts/expert_executor.h"

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"
#include "tests/unit/expert_worker/experts/tiny_experts.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

constexpr double kUnit = 1.0 / (1 << 24);

struct Matrix {
  int rows = 0;
  int cols = 0;
  std::vector<double> w;
};

struct CallData {
  std::vector<float> hidden;
  std::vector<ExpertId> experts;
  std::vector<float> weights;
  LayerCallView view;
};

CallData RandomCall(int tokens, int k, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  CallData call;
  for (int i = 0; i < tokens * kHidden; ++i) call.hidden.push_back(normal(random));
  for (int t = 0; t < tokens; ++t) {
    const auto first = static_cast<ExpertId>(random() % kExperts);
    for (int i = 0; i < k; ++i)
      call.experts.push_back((first + i * 5) % kExperts);  // 5: distinct in 6, not ascending
  }
  for (int i = 0; i < tokens * k; ++i) call.weights.push_back(0.1f + std::fabs(normal(random)));
  call.view = {.layer = kMoeLayer, .tokens = tokens, .experts_per_token = k};
  call.view.hidden = call.hidden;
  call.view.experts = call.experts;
  call.view.weights = call.weights;
  return call;
}

// Computes y = W x and how far fp32 may be from it, given x and its error.
void Multiply(const Matrix& m, const std::vector<double>& x, const std::vector<double>& dx,
              std::vector<double>& y, std::vector<double>& dy) {
  y.assign(static_cast<size_t>(m.rows), 0);
  dy.assign(static_cast<size_t>(m.rows), 0);
  for (int o = 0; o < m.rows; ++o) {
    double magnitude = 0;
    double carried = 0;
    for (int i = 0; i < m.cols; ++i) {
      const double w = m.w[static_cast<size_t>(o) * m.cols + i];
      y[o] += w * x[i];
      magnitude += std::fabs(w * x[i]);
      carried += std::fabs(w) * dx[i];
    }
    dy[o] = carried + (m.cols + 4) * kUnit * magnitude;
  }
}

// Computes all experts in double precision.
class Reference {
 public:
  Reference(const Checkpoint& checkpoint, WeightFormat format) : format_(format) {
    for (ExpertId e = 0; e < kExperts; ++e) {
      gate_.push_back(Read(checkpoint, format, ExpertModule(e, "gate"), kIntermediate, kHidden));
      up_.push_back(Read(checkpoint, format, ExpertModule(e, "up"), kIntermediate, kHidden));
      down_.push_back(Read(checkpoint, format, ExpertModule(e, "down"), kHidden, kIntermediate));
    }
  }

  // The bound is for activations in the format that `isa` uses for an expert's number of rows.
  void Run(const LayerCallView& call, Isa isa, Precision precision, std::vector<double>& out,
           std::vector<double>& bound) const {
    out.assign(call.hidden.size(), 0);
    bound.assign(call.hidden.size(), 0);
    for (size_t i = 0; i < call.experts.size(); ++i) {
      const size_t token = i / static_cast<size_t>(call.experts_per_token);
      const std::vector<double> x(call.hidden.begin() + token * kHidden,
                                  call.hidden.begin() + (token + 1) * kHidden);
      std::vector<double> y, dy;
      const auto rows =
          static_cast<int>(std::count(call.experts.begin(), call.experts.end(), call.experts[i]));
      RunExpert(call.experts[i], x, ChooseActivationFormat(isa, format_, rows, precision), y, dy);
      for (int o = 0; o < kHidden; ++o) {
        const double add = static_cast<double>(call.weights[i]) * y[o];
        out[token * kHidden + o] += add;
        bound[token * kHidden + o] +=
            call.weights[i] * dy[o] + (call.experts_per_token + 4) * kUnit * std::fabs(add);
      }
    }
  }

 private:
  static Matrix Read(const Checkpoint& checkpoint, WeightFormat format, const std::string& module, int rows,
                     int cols) {
    const absl::StatusOr<MatrixView> view = checkpoint.FindMatrix(module, rows, cols, TinyConfig());
    NUMOE_CHECK(view.ok()) << view.status();
    Matrix m{rows, cols, {}};
    std::vector<float> values(static_cast<size_t>(rows) * cols);
    DecodeMatrix(*view, 0, rows, 0, cols, absl::MakeSpan(values));
    m.w.assign(values.begin(), values.end());
    if (format == NativeFormat(*view)) return m;
    const AlignedBytes memory(PackedBytes(format, rows, cols));
    const absl::Status packed = PackMatrix(format, *view, 0, rows, 0, cols, memory.span());
    NUMOE_CHECK(packed.ok()) << packed;
    const PackedMatrix matrix{.format = format, .rows = rows, .cols = cols, .data = memory.span().data()};
    for (int o = 0; o < rows; ++o) {
      for (int i = 0; i < cols; ++i) m.w[static_cast<size_t>(o) * cols + i] = UnpackWeight(matrix, o, i);
    }
    return m;
  }

  // 64-byte aligned bytes.
  class AlignedBytes {
   public:
    explicit AlignedBytes(size_t bytes) : lines_((bytes + 63) / 64), bytes_(bytes) {}
    absl::Span<std::byte> span() const {
      return absl::MakeSpan(reinterpret_cast<std::byte*>(lines_.data()), bytes_);
    }

   private:
    struct alignas(64) Line {
      std::byte bytes[64];
    };
    mutable std::vector<Line> lines_;
    size_t bytes_;
  };

  // Returns how far quantising to `format` may move values that already have an error of `error`.
  static std::vector<double> Quantised(const std::vector<double>& x, std::vector<double> error,
                                       ActivationFormat format) {
    for (size_t group = 0; group < x.size(); group += 32) {
      const size_t end = std::min(group + 32, x.size());
      double top = 0;
      for (size_t i = group; i < end; ++i) top = std::max(top, std::fabs(x[i]) + error[i]);
      for (size_t i = group; i < end; ++i) {
        if (format == ActivationFormat::kInt8) error[i] += 1.001 * top / 254;
        if (format == ActivationFormat::kInt8Pair || format == ActivationFormat::kInt16)
          error[i] += 1.01 * top / 254 / 254;
        if (format == ActivationFormat::kBf16 || format == ActivationFormat::kBf16Quads)
          error[i] += (std::fabs(x[i]) + error[i]) / 256;
        // Tiles round the weights by as much, too.
        if (format == ActivationFormat::kTiles || format == ActivationFormat::kTileQuads)
          error[i] += (std::fabs(x[i]) + error[i]) * (0x1p-7 + 0x1p-16);
      }
    }
    return error;
  }

  void RunExpert(ExpertId expert, const std::vector<double>& x, ActivationFormat format,
                 std::vector<double>& y, std::vector<double>& dy) const {
    const std::vector<double> dx = Quantised(x, std::vector<double>(x.size()), format);
    std::vector<double> g, dg, v, dv;
    Multiply(gate_[expert], x, dx, g, dg);
    Multiply(up_[expert], x, dx, v, dv);
    std::vector<double> h(g.size()), dh(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      const double silu = g[i] / (1 + std::exp(-g[i]));
      h[i] = silu * v[i];
      dh[i] =
          1.1 * dg[i] * (std::fabs(v[i]) + dv[i]) + std::fabs(silu) * dv[i] + 32 * kUnit * std::fabs(h[i]);
    }
    Multiply(down_[expert], h, Quantised(h, dh, format), y, dy);
  }

  WeightFormat format_;
  std::vector<Matrix> gate_, up_, down_;
};

struct Case {
  MatrixFormat stored;
  const char* format;
  const char* activations;
};

class ExpertExecutorTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { checkpoint_ = OpenCheckpoint(TinyTensors(GetParam().stored), folder_); }

  std::unique_ptr<ExpertExecutor> Load(const SliceSpec& slice, std::optional<Isa> isa, int threads = 3) {
    auto executor = ExpertExecutor::Load(*checkpoint_, TinyConfig(),
                                         {.slice = slice,
                                          .format = *ParseWeightFormatOrAuto(GetParam().format),
                                          .isa = isa,
                                          .precision = PrecisionOfCase(),
                                          .threads = threads});
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *std::move(executor) : nullptr;
  }

  static std::vector<float> Execute(ExpertExecutor& executor, const LayerCallView& call) {
    std::vector<float> out(call.hidden.size(), std::nanf(""));  // must be overwritten
    const absl::Status status = executor.Execute(call, absl::MakeSpan(out));
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  WeightFormat Format() const {
    const absl::StatusOr<WeightFormat> format = ParseWeightFormat(GetParam().format);
    return format.ok() ? *format : NativeFormat({.format = GetParam().stored, .data = {}, .scales = {}});
  }

  static Precision PrecisionOfCase() { return *ParsePrecision(GetParam().activations); }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

std::vector<Isa> IsasOfThisMachine() {
  UseEmulator();
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (SelectIsa(isa).ok()) isas.push_back(isa);
  }
  return isas;
}

TEST_P(ExpertExecutorTest, SlicesSumToTheReference) {
  const Reference reference(*checkpoint_, Format());
  const CallData call = RandomCall(5, 2, 11);
  for (const Isa isa : IsasOfThisMachine()) {
    std::vector<double> expected, bound;
    reference.Run(call.view, isa, PrecisionOfCase(), expected, bound);
    for (const SliceMode mode : {SliceMode::kIntermediate, SliceMode::kExpert}) {
      for (int workers = 1; workers <= 3; ++workers) {
        std::vector<double> sum(expected.size());
        for (int w = 0; w < workers; ++w) {
          const auto executor = Load({.mode = mode, .worker_index = w, .worker_count = workers}, isa);
          ASSERT_NE(executor, nullptr);
          const std::vector<float> part = Execute(*executor, call.view);
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        }
        for (size_t i = 0; i < sum.size(); ++i) {
          ASSERT_NEAR(sum[i], expected[i], bound[i]) << IsaName(isa) << ", " << workers << " workers, mode "
                                                     << static_cast<int>(mode) << ", output " << i;
        }
      }
    }
  }
}

TEST_P(ExpertExecutorTest, ManyTokensMatchTheReference) {
  const Reference reference(*checkpoint_, Format());
  const CallData call = RandomCall(70, 3, 12);
  for (const Isa isa : IsasOfThisMachine()) {
    std::vector<double> expected, bound;
    reference.Run(call.view, isa, PrecisionOfCase(), expected, bound);
    const auto executor = Load({}, isa);
    ASSERT_NE(executor, nullptr);
    const std::vector<float> out = Execute(*executor, call.view);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected[i], bound[i]) << IsaName(isa) << ", output " << i;
  }
}

TEST_P(ExpertExecutorTest, ThreadsAndRepetitionDoNotChangeABit) {
  const CallData call = RandomCall(33, 3, 13);
  const auto one = Load({}, std::nullopt, 1);
  ASSERT_NE(one, nullptr);
  const std::vector<float> expected = Execute(*one, call.view);
  for (const int threads : {2, 4, 9}) {
    const auto executor = Load({}, std::nullopt, threads);
    ASSERT_NE(executor, nullptr);
    for (int repeat = 0; repeat < 20; ++repeat) {
      ASSERT_EQ(Execute(*executor, call.view), expected) << threads << " threads, repetition " << repeat;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertExecutorTest, ::testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const char* activations : {"fp32", "bf16", "auto"}) {
                             for (const auto& [stored, format] : {std::pair{MatrixFormat::kInt4Group, "auto"},
                                                                  {MatrixFormat::kInt4Group, "int8"},
                                                                  {MatrixFormat::kFp8Block, "auto"},
                                                                  {MatrixFormat::kFp8Block, "bf16"},
                                                                  {MatrixFormat::kBF16, "auto"},
                                                                  {MatrixFormat::kBF16, "int8"},
                                                                  {MatrixFormat::kBF16, "int4"}}) {
                               cases.push_back({stored, format, activations});
                             }
                           }
                           return cases;
                         }()),
                         [](const ::testing::TestParamInfo<Case>& test) {
                           return fmt::format("stored{}_{}_{}", static_cast<int>(test.param.stored),
                                              test.param.format, test.param.activations);
                         });

class CallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    checkpoint_ = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder_);
    auto executor = ExpertExecutor::Load(*checkpoint_, TinyConfig(), {.threads = 3});
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }

  // Returns the error of a call that must fail and leave the output unchanged.
  std::string Error(const LayerCallView& call, size_t outputs) {
    std::vector<float> out(outputs, 42.0f);
    const absl::Status status = executor_->Execute(call, absl::MakeSpan(out));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(out, ::testing::Each(42.0f));
    return status.ToString();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<ExpertExecutor> executor_;
};

TEST_F(CallTest, BadCallsAreRefusedWithTheirReason) {
  CallData good = RandomCall(3, 2, 1);
  const size_t outputs = good.hidden.size();
  LayerCallView call = good.view;
  call.layer = kDenseLayer;
  EXPECT_THAT(Error(call, outputs), HasSubstr("layer 0 is not one of the model's MoE layers"));
  call.layer = 2;
  EXPECT_THAT(Error(call, outputs), HasSubstr("layer 2"));
  call.layer = -1;
  EXPECT_THAT(Error(call, outputs), HasSubstr("layer -1"));
  call = good.view;
  call.tokens = 0;
  EXPECT_THAT(Error(call, outputs), HasSubstr("0 tokens, expected 1 to 8192"));
  call.tokens = 2147483647;
  EXPECT_THAT(Error(call, outputs), HasSubstr("2147483647 tokens"));
  call = good.view;
  call.experts_per_token = 0;
  EXPECT_THAT(Error(call, outputs), HasSubstr("0 experts per token"));
  call.experts_per_token = 65;
  EXPECT_THAT(Error(call, outputs), HasSubstr("65 experts per token, expected 1 to 64"));
  call = good.view;
  call.hidden.remove_suffix(1);
  EXPECT_THAT(Error(call, outputs), HasSubstr("479 hidden values"));
  call = good.view;
  call.weights.remove_suffix(1);
  EXPECT_THAT(Error(call, outputs), HasSubstr("5 weights"));
  EXPECT_THAT(Error(good.view, outputs - 1), HasSubstr("479 outputs"));
  good.experts[3] = kExperts;
  EXPECT_THAT(Error(good.view, outputs), HasSubstr("token 1: expert id 6, expected 0 to 5"));
  good.experts[3] = good.experts[2];
  EXPECT_THAT(Error(good.view, outputs), HasSubstr("twice"));
  EXPECT_EQ(executor_->Stats().failed_calls, 12u);
  EXPECT_THAT(executor_->Statistics().Calls().tokens.counts, ::testing::Each(0u));
}

TEST_F(CallTest, ALongCallEqualsItsTokensOneByOne) {
  CallData call = RandomCall(2500, 2, 2);  // 5000 rows: more than the scratch holds at a time
  call.view.batch_invariant = true;
  std::vector<float> out(call.hidden.size());
  ASSERT_TRUE(executor_->Execute(call.view, absl::MakeSpan(out)).ok());
  for (size_t token = 0; token < 2500; token += 37) {
    LayerCallView single = call.view;
    single.tokens = 1;
    single.hidden = call.view.hidden.subspan(token * kHidden, kHidden);
    single.experts = call.view.experts.subspan(token * 2, 2);
    single.weights = call.view.weights.subspan(token * 2, 2);
    std::vector<float> alone(kHidden);
    ASSERT_TRUE(executor_->Execute(single, absl::MakeSpan(alone)).ok());
    ASSERT_EQ(std::memcmp(alone.data(), &out[token * kHidden], kHidden * sizeof(float)), 0)
        << "token " << token;
  }
}

TEST_F(CallTest, ASliceWithNoneOfTheExpertsReturnsZero) {
  auto worker = ExpertExecutor::Load(
      *checkpoint_, TinyConfig(),
      {.slice = {.mode = SliceMode::kExpert, .worker_index = 1, .worker_count = 2}, .threads = 2});
  ASSERT_TRUE(worker.ok()) << worker.status();
  CallData call = RandomCall(2, 1, 3);
  call.experts.assign({0, 4});
  std::vector<float> out(call.hidden.size(), 42.0f);
  ASSERT_TRUE((*worker)->Execute(call.view, absl::MakeSpan(out)).ok());
  EXPECT_THAT(out, ::testing::Each(0.0f));
  EXPECT_THAT((*worker)->Statistics().Experts().rows, ::testing::Each(0u));
}

TEST_F(CallTest, StatisticsCountEveryRow) {
  const CallData call = RandomCall(9, 3, 4);
  std::vector<float> out(call.hidden.size());
  ASSERT_TRUE(executor_->Execute(call.view, absl::MakeSpan(out)).ok());
  ASSERT_TRUE(executor_->Execute(call.view, absl::MakeSpan(out)).ok());
  const ExecutorStats stats = executor_->Stats();
  EXPECT_EQ(stats.threads, 3);
  EXPECT_EQ(stats.weight_bytes, executor_->WeightBytes());
  std::vector<uint64_t> hits(2 * kExperts);
  for (const ExpertId expert : call.experts) hits[static_cast<size_t>(kMoeLayer * kExperts + expert)] += 2;
  EXPECT_EQ(executor_->Statistics().Experts().rows, hits);
  const CallSnapshot calls = executor_->Statistics().Calls();
  EXPECT_EQ(calls.tokens.sum, 2.0 * 9);
  EXPECT_EQ(calls.rows.sum, 2.0 * 27);
  EXPECT_GT(calls.seconds.sum, 0.0);
}

TEST_F(CallTest, TheStartLineSaysWhatWasChosen) {
  const std::string line = executor_->Describe();
  EXPECT_THAT(line, HasSubstr("slice 0/1 by intermediate, format bf16, isa "));
  EXPECT_THAT(line, HasSubstr("3 threads"));
  EXPECT_THAT(line, HasSubstr("pinned "));
}

TEST_F(CallTest, BadOptionsAreNamed) {
  const auto error = [&](const ExecutorOptions& options) {
    return ExpertExecutor::Load(*checkpoint_, TinyConfig(), options).status().ToString();
  };
  EXPECT_THAT(error({.numa_nodes = {99}}), HasSubstr("--numa-nodes=99"));
  EXPECT_THAT(error({.slice = {.worker_index = -1}}), HasSubstr("--worker-index=-1"));
}

}  // namespace
}  // namespace numoe::worker
