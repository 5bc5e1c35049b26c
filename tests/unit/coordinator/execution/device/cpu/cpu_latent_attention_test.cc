// Compares latent attention in both forms, and mixed in one step, with the plain formula in double precision.
//
// Tolerance. The error of a product with inputs rounded to BF16 is at most 2^-8 of the sum of magnitudes;
// scores are the result of two such products, and so are values. Each is a sum of many rounded terms of
// either sign, so the real error is far below that bound: the test requires a mean error of at most 1 % of
// the mean magnitude in BF16, and of 1e-5 in fp32. With an FP8 cache the same holds relative to the values in
// the cache, and 4 % relative to the values that were written: a code is off by at most 2^-4 of itself, 2 %
// on average, in scores and in values.
#include <cmath>
#include <random>

#include "coordinator/execution/device/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution {
namespace {

constexpr int kHeads = 6, kNope = 32, kRope = 16, kValue = 40;
constexpr int kLatentBlockTokens = 16;
constexpr float kScale = 0.15f;

struct Piece {
  int sequence, begin, end;
};

struct LatentCase {
  Isa isa;
  Precision precision;
  CacheType cache = CacheType::kBf16;
};

class LatentTest : public ::testing::TestWithParam<LatentCase> {
 protected:
  static constexpr int kContext = 640;
  static constexpr int kSequences = 3;

  void SetUp() override {
    if (!SelectIsa(IsaName(GetParam().isa)).ok())
      GTEST_SKIP() << "this CPU lacks " << IsaName(GetParam().isa);
    auto device = CpuDevice::Create({.step_tokens_max = kContext,
                                     .cpus = {0, 0, 0},
                                     .isa = GetParam().isa,
                                     .precision = GetParam().precision});
    ASSERT_TRUE(device.ok());
    device_ = *std::move(device);
    const Cache cache = device_->store().NewCache(
        {.layers = 1, .row = {.key_width = key_width_, .plain_width = kRope}, .query_heads = kHeads});
    ASSERT_TRUE(device_
                    ->ReserveKvCache({.type = GetParam().cache,
                                      .blocks = kSequences * kContext / kLatentBlockTokens,
                                      .block_tokens = kLatentBlockTokens})
                    .ok());
    key_up_ = RandomBf16(kHeads * kNope * latent_, 0.1f);
    value_up_ = RandomBf16(kHeads * kValue * latent_, 0.1f);
    std::vector<float> transposed(key_up_.size());
    const auto latent = static_cast<size_t>(latent_);
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t n = 0; n < kNope; ++n) {
        for (size_t r = 0; r < latent; ++r)
          transposed[(h * latent + r) * kNope + n] = key_up_[(h * kNope + n) * latent + r];
      }
    }
    args_ = {.cache = cache.At(0),
             .query = device_->store().NewTensor(kHeads * (kNope + kRope)),
             .out = device_->store().NewTensor(kHeads * kValue),
             .absorbed = device_->store().NewTensor(kHeads * key_width_),
             .context = device_->store().NewTensor(kHeads * latent_),
             .key_up = *device_->store().LoadHeads(key_up_, kHeads, kNope, latent_),
             .key_absorbed = *device_->store().LoadHeads(transposed, kHeads, latent_, kNope),
             .value_up = *device_->store().LoadHeads(value_up_, kHeads, kValue, latent_),
             .scale = kScale};
    cache_ = RandomBf16(kSequences * kContext * key_width_, 1.0f);
    queries_ = RandomBf16(kSequences * kContext * kHeads * (kNope + kRope), 1.0f);
    cache_rows_ = device_->store().NewTensor(key_width_);
    for (int s = 0; s < kSequences; ++s) {
      Begin({{s, 0, kContext}});
      Put(cache_, key_width_, cache_rows_);
      step_->ops().WriteKv(step_->all(), args_.cache, cache_rows_);
    }
  }

  std::vector<float> RandomBf16(int count, float scale) {
    std::vector<float> values = RandomFloats(static_cast<size_t>(count), random_);
    for (float& v : values) v = DecodeBf16(EncodeBf16(v * scale));
    return values;
  }
  void Begin(const std::vector<Piece>& pieces) {
    step_.reset();
    layout_ = {};
    layout_.blocks_per_sequence_max = kContext / kLatentBlockTokens;
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (int b = 0; b < layout_.blocks_per_sequence_max; ++b)
        layout_.block_tables.push_back(b * kSequences + pieces[i].sequence);
      for (int p = pieces[i].begin; p < pieces[i].end; ++p) {
        layout_.tokens.push_back(pieces[i].sequence * kContext + p);  // row of the test's tables
        layout_.positions.push_back(p);
        layout_.sequences.push_back(static_cast<int32_t>(i));
      }
    }
    step_ = device_->Begin(layout_);
  }
  // Writes the step's rows of `table` [sequences * positions, cols] to a tensor.
  void Put(const std::vector<float>& table, int cols, Tensor tensor) {
    const MatrixView view{.format = MatrixFormat::kF32,
                          .rows = static_cast<int64_t>(table.size()) / cols,
                          .cols = cols,
                          .data = absl::MakeSpan(reinterpret_cast<const std::byte*>(table.data()),
                                                 table.size() * sizeof(float))};
    step_->ops().Embed(step_->all(), *device_->store().LoadEmbedding(view), tensor);
  }
  std::vector<float> Attend(const std::vector<Piece>& pieces) {
    Begin(pieces);
    Put(queries_, kHeads * (kNope + kRope), args_.query);
    step_->ops().AttendLatent(step_->all(), args_);
    const auto out = step_->ReadLogits(step_->all(), args_.out);
    return {out->logits.begin(), out->logits.end()};
  }

  // Returns the written rows as the cache holds them.
  std::vector<float> Held() const {
    if (GetParam().cache == CacheType::kBf16) return cache_;
    std::vector<float> held = cache_;
    std::vector<uint8_t> codes(static_cast<size_t>(latent_)), exponents(codes.size());
    for (size_t row = 0; row < held.size(); row += static_cast<size_t>(key_width_)) {
      NarrowRow(Isa::kScalar, &held[row], latent_, codes.data(), exponents.data());
      for (size_t i = 0; i < codes.size(); ++i)
        held[row + i] = DecodeBf16(cache_row::Widen(codes[i], exponents[i / cache_row::kGroup]));
    }
    return held;
  }

  // Computes the formula of LatentAttendArgs for one token's head, over such a cache.
  std::vector<double> Reference(const std::vector<float>& cache, int row, int position, int head) const {
    const float* query = &queries_[static_cast<size_t>((row * kHeads + head) * (kNope + kRope))];
    const auto latent = static_cast<size_t>(latent_);
    std::vector<double> mixed(latent), out(kValue);
    double sum = 0;
    for (int p = 0; p <= position; ++p) {
      const float* c = &cache[static_cast<size_t>((row - position + p) * key_width_)];
      double score = 0;
      for (int n = 0; n < kNope; ++n) {
        double key = 0;
        for (int r = 0; r < latent_; ++r)
          key += static_cast<double>(key_up_[static_cast<size_t>((head * kNope + n) * latent_ + r)]) * c[r];
        score += query[n] * key;
      }
      for (int i = 0; i < kRope; ++i) score += static_cast<double>(query[kNope + i]) * c[latent_ + i];
      const double weight = std::exp(score * kScale);
      sum += weight;
      for (size_t r = 0; r < latent; ++r) mixed[r] += weight * c[r];
    }
    for (size_t v = 0; v < kValue; ++v) {
      for (size_t r = 0; r < latent; ++r)
        out[v] += value_up_[(static_cast<size_t>(head) * kValue + v) * latent + r] * mixed[r] / sum;
    }
    return out;
  }

  void ExpectReference(const std::vector<float>& out) const {
    const double tolerance = GetParam().precision == Precision::kFloat ? 1e-5 : 0.01;
    ExpectReference(out, Held(), tolerance);
    if (GetParam().cache == CacheType::kFp8) ExpectReference(out, cache_, 0.04);
  }
  void ExpectReference(const std::vector<float>& out, const std::vector<float>& cache,
                       double tolerance) const {
    double error = 0, magnitude = 0, worst = 0;
    size_t at = 0;
    for (size_t t = 0; t < layout_.tokens.size(); ++t) {
      const bool checked = t % 13 == 0 || t + 1 == layout_.tokens.size();  // the reference is slow
      for (int h = 0; h < kHeads; ++h) {
        if (!checked) {
          at += kValue;
          continue;
        }
        for (const double expected : Reference(cache, layout_.tokens[t], layout_.positions[t], h)) {
          const double off = std::fabs(out[at++] - expected);
          error += off;
          worst = std::max(worst, off);
          magnitude += std::fabs(expected);
        }
      }
    }
    EXPECT_LE(error, tolerance * magnitude);
    EXPECT_LE(worst, 100 * tolerance) << "a single value is far off";
  }

  const int latent_ = GetParam().cache == CacheType::kFp8 ? 192 : 96;
  const int key_width_ = latent_ + kRope;
  std::mt19937 random_{23};
  std::unique_ptr<CpuDevice> device_;
  StepLayout layout_;
  std::unique_ptr<Step> step_;
  LatentAttendArgs args_;
  Tensor cache_rows_;
  std::vector<float> key_up_, value_up_, cache_, queries_;
};

TEST_P(LatentTest, DecodingAgreesWithTheFormula) {
  const std::vector<float> out = Attend({{0, 639, 640}, {1, 0, 1}, {2, 300, 301}});
  ExpectReference(out);
}

TEST_P(LatentTest, APromptAgreesWithTheFormula) {
  const std::vector<float> out = Attend({{1, 0, kContext}});
  ExpectReference(out);
}

TEST_P(LatentTest, PromptsAndDecodingInOneStepAgreeWithTheFormula) {
  const std::vector<float> out = Attend({{0, 511, 512}, {1, 0, 100}, {2, 639, 640}});
  ExpectReference(out);
}

// With fp32 activations a token has the same bits as when it is computed alone.
TEST_P(LatentTest, ExactStepsDoNotDependOnTheBatch) {
  if (GetParam().precision != Precision::kFloat) GTEST_SKIP() << "only exact activations (fp32) promise this";
  const std::vector<float> whole = Attend({{1, 0, 600}});
  const std::vector<float> part = Attend({{0, 3, 4}, {1, 590, 600}});
  constexpr size_t kRow = kHeads * kValue;
  EXPECT_EQ(std::vector<float>(part.begin() + kRow, part.end()),
            std::vector<float>(whole.end() - 10 * kRow, whole.end()));
}

std::string LatentName(const ::testing::TestParamInfo<LatentCase>& info) {
  return std::string(IsaName(info.param.isa)) +
         (info.param.precision == Precision::kFloat ? "_fp32" : "_fast") +
         (info.param.cache == CacheType::kFp8 ? "_fp8_cache" : "");
}
INSTANTIATE_TEST_SUITE_P(All, LatentTest,
                         ::testing::Values(LatentCase{Isa::kScalar, Precision::kFloat},
                                           LatentCase{Isa::kScalar, Precision::kFast},
                                           LatentCase{Isa::kAvx2, Precision::kFast},
                                           LatentCase{Isa::kAvx512, Precision::kFloat},
                                           LatentCase{Isa::kAvx512, Precision::kFast},
                                           LatentCase{Isa::kScalar, Precision::kFloat, CacheType::kFp8},
                                           LatentCase{Isa::kAvx2, Precision::kFast, CacheType::kFp8},
                                           LatentCase{Isa::kAvx512, Precision::kFloat, CacheType::kFp8},
                                           LatentCase{Isa::kAvx512, Precision::kFast, CacheType::kFp8}),
                         LatentName);

}  // namespace
}  // namespace numoe::execution
