// Compares tokens drawn by the CUDA device with TokenDrawer on the logits that are read from the same device:
// seeds, penalties, biases, masks, top-k, top-p, min-p and log-probabilities, together with rows that are
// left to the host.
#include "coordinator/execution/device/cuda/sampling_tables.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "common/formats/bf16.h"
#include "coordinator/engine/scheduler/token_drawer.h"
#include "coordinator/execution/device/cuda/cuda_device.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kSamplingTablesIn = 64;
constexpr int kTokens = 40;   // of the embedding; the row of the last one is NaN
constexpr int kVocab = 1000;  // of the head
constexpr int kKnown = 997;   // of the tokeniser
constexpr int kBadToken = kTokens - 1;

/// The results of a step.
struct DrawnStep {
  std::vector<std::vector<float>> logits;  // of the rows that were read
  std::vector<DrawnRow> drawn;
};

/// logits = head * norm(embedding), nothing more.
class Drawing {
 public:
  explicit Drawing(int slots, int vocab = kVocab) : vocab_(vocab) {
    auto created =
        CudaDevice::Create({.rows = 32, .sequences = slots, .blocks_per_sequence = 1}, NewSimulatedRuntime());
    EXPECT_TRUE(created.ok()) << created.status();
    device_ = *std::move(created);
    residual_ = device_->store().NewTensor(kSamplingTablesIn, TensorUse::kResidual);
    selected_ = device_->store().NewTensor(kSamplingTablesIn, TensorUse::kResidual);
    normed_ = device_->store().NewTensor(kSamplingTablesIn);
    logits_ = device_->store().NewTensor(vocab, TensorUse::kLogits);
    std::mt19937 random(3);
    table_ = RandomBf16(kTokens, random);
    std::fill(table_.end() - kSamplingTablesIn, table_.end(),
              EncodeBf16(std::numeric_limits<float>::quiet_NaN()));
    weights_ = RandomBf16(vocab, random);
    embedding_ = *device_->store().LoadEmbedding(View(table_, kTokens));
    head_ = *device_->store().LoadMatrix(View(weights_, vocab));
    ones_ = device_->store().LoadVector(std::vector<float>(kSamplingTablesIn, 1.0f));
    device_->store().NewCache(
        {.layers = 1, .row = {.heads = 1, .key_width = 32, .value_width = 32}, .query_heads = 1});
    const absl::Status reserved = device_->ReserveKvCache({.blocks = 1, .block_tokens = 16});
    EXPECT_TRUE(reserved.ok()) << reserved;
  }

  DrawnStep Run(const std::vector<TokenId>& tokens, const std::vector<const SampleSpec*>& samples = {}) {
    StepLayout layout{.blocks_per_sequence_max = 1};
    layout.block_tables = {0};
    for (const TokenId token : tokens) {
      layout.logit_rows.push_back(static_cast<int32_t>(layout.tokens.size()));
      layout.tokens.push_back(token);
      layout.positions.push_back(0);
      layout.sequences.push_back(0);
    }
    layout.samples = samples;
    const std::unique_ptr<Step> step = device_->Begin(layout);
    step->ops().Embed(step->all(), embedding_, residual_);
    const Rows rows = step->SelectLogitRows(residual_, selected_);
    step->ops().RmsNorm(rows, {selected_}, kSamplingTablesIn, ones_, 1e-6f, {normed_});
    step->ops().Linear(rows, normed_, {{head_, {logits_}}});
    const auto output = step->ReadLogits(rows, logits_);
    EXPECT_TRUE(output.ok()) << output.status();
    DrawnStep drawn{.logits = {}, .drawn = {output->drawn.begin(), output->drawn.end()}};
    const absl::Span<const float> values = output->logits;
    for (size_t at = 0; at < values.size(); at += static_cast<size_t>(vocab_))
      drawn.logits.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(at),
                                values.begin() + static_cast<std::ptrdiff_t>(at) + vocab_);
    return drawn;
  }

 private:
  static std::vector<uint16_t> RandomBf16(int rows, std::mt19937& random) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<uint16_t> values(static_cast<size_t>(rows) * kSamplingTablesIn);
    for (uint16_t& value : values) value = EncodeBf16(uniform(random));
    return values;
  }
  static MatrixView View(const std::vector<uint16_t>& values, int rows) {
    return {.format = MatrixFormat::kBF16,
            .rows = rows,
            .cols = kSamplingTablesIn,
            .data = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                                        values.size() * sizeof(uint16_t))};
  }

  const int vocab_;
  std::vector<uint16_t> table_, weights_;
  std::unique_ptr<CudaDevice> device_;
  Tensor residual_, selected_, normed_, logits_;
  Matrix embedding_, head_;
  Vector ones_;
};

/// Another random mask for each token.
class RandomMasks final : public TokenConstraint {
 public:
  explicit RandomMasks(unsigned seed) : random_(seed) {}
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override {
    const bool few = random_() % 2 == 0;
    mask_.assign(kKnown / 64 + 1, 0);
    for (TokenId t = 0; t < kKnown; ++t) {
      const bool rare = random_() % 40 == 0;
      if (rare == few) mask_[static_cast<size_t>(t) / 64] |= uint64_t{1} << t % 64;
    }
    if (random_() % 4 == 0) mask_.clear();  // any token may come
    if (random_() % 16 == 0) mask_.assign(kKnown / 64 + 1, 0);
    return absl::MakeConstSpan(mask_);
  }
  void Accept(TokenId token) override {
    EXPECT_TRUE(mask_.empty() || (mask_[static_cast<size_t>(token) / 64] >> token % 64 & 1) != 0);
  }

 private:
  std::mt19937 random_;
  std::vector<uint64_t> mask_;
};

engine::SamplingParams RandomSampling(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  engine::SamplingParams p{.temperature = pick({0, 0.3, 1, 1, 2, 50}),
                           .top_p = pick({1, 1, 0.9, 0.5, 0.01}),
                           .top_k = static_cast<int>(pick({0, 0, 1, 5, 200})),
                           .min_p = pick({0, 0, 0.05, 0.7}),
                           .max_tokens = 100};
  if (random() % 3 == 0) p.frequency_penalty = 0.7, p.presence_penalty = 0.2;
  if (random() % 3 == 0) p.repetition_penalty = 1.3;
  if (random() % 3 == 0) p.logit_bias = {{5, 8.0f}, {700, -30.0f}, {996, 9.0f}};
  if (random() % 3 == 0) p.stop_token_ids = {1, 2, 5, 2}, p.min_tokens = static_cast<int>(random() % 4);
  if (random() % 2 == 0) p.logprobs = static_cast<int>(random() % (kLogprobsMax + 1));
  if (random() % 5 == 0) p.allowed_token_ids = {4, 65, 500, 501, 502, 996};
  return p;
}

engine::SequencePtr NewSequence(const engine::SamplingParams& sampling, unsigned constraint = 0) {
  engine::EngineRequest request{.prompt = {1, 5, 5, 9, 700}, .sampling = sampling};
  if (constraint != 0) request.constraint = std::make_unique<RandomMasks>(constraint);
  auto made =
      engine::MakeSequence(std::move(request), {.tokens_max = 1000, .vocab = kKnown, .eos_token_ids = {2}});
  EXPECT_TRUE(made.ok()) << made.status();
  (*made)->seed = 77 + constraint;
  return *std::move(made);
}

void ExpectSame(const absl::StatusOr<DrawnToken>& found, const absl::StatusOr<DrawnToken>& expected) {
  ASSERT_EQ(found.status(), expected.status());
  if (!found.ok()) return;
  EXPECT_EQ(found->token, expected->token);
  ASSERT_EQ(found->logprobs.size(), expected->logprobs.size());
  if (found->logprobs.empty()) return;
  const TokenLogprobs &a = found->logprobs[0], &b = expected->logprobs[0];
  const auto near = [](float x) { return std::fabs(x) * 2e-7f + 2e-7f; };
  EXPECT_EQ(a.chosen.token, b.chosen.token);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_NEAR(a.chosen.logprob, b.chosen.logprob, near(b.chosen.logprob));
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token, b.top[i].token) << i;
    EXPECT_NEAR(a.top[i].logprob, b.top[i].logprob, near(b.top[i].logprob)) << i;
  }
}

// There are two of each sequence: the device draws the tokens of one, TokenDrawer those of the other.
TEST(SamplingTablesTest, ADeviceDrawsTheSameTokensAsTokenDrawerFromItsLogits) {
  Drawing device(/*slots=*/32);
  engine::TokenDrawer drawer(kKnown);
  std::mt19937 random(11);
  int drawn = 0, errors = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<engine::SequencePtr> ours, theirs;
    for (unsigned i = 0; i < 24; ++i) {
      const engine::SamplingParams sampling = RandomSampling(random);
      const unsigned constraint = i % 3 == 0 ? 1 + static_cast<unsigned>(random() % 1000) : 0;
      ours.push_back(NewSequence(sampling, constraint));
      theirs.push_back(NewSequence(sampling, constraint));
    }
    for (int token = 0; token < 4; ++token) {
      std::vector<TokenId> inputs;
      std::vector<SampleSpec> specs(ours.size());
      std::vector<const SampleSpec*> samples(ours.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        inputs.push_back(static_cast<TokenId>(random() % (kTokens - 1)));
        const auto spec = drawer.SpecOf(*ours[i]);
        if (!spec.ok() || random() % 6 == 0) continue;  // the host needs the logits of this row
        specs[i] = *spec;
        samples[i] = &specs[i];
      }
      const DrawnStep read = device.Run(inputs), step = device.Run(inputs, samples);
      ASSERT_EQ(read.logits.size(), ours.size());
      EXPECT_TRUE(read.drawn.empty());
      ASSERT_EQ(step.drawn.size(), ours.size());
      size_t on_host = 0;
      for (size_t i = 0; i < ours.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "round " << round << " sequence " << i << " token " << token);
        ASSERT_EQ(step.drawn[i].has_value(), samples[i] != nullptr);
        engine::LogitRow row;
        if (step.drawn[i]) row.drawn = &*step.drawn[i];
        if (!step.drawn[i]) {
          EXPECT_EQ(step.logits[on_host], read.logits[i]) << "the host must get the other rows, in order";
          row.logits = step.logits[on_host++];
        }
        const auto found = drawer.Draw(*ours[i], row);
        const auto expected = drawer.Draw(*theirs[i], {.logits = read.logits[i]});
        ExpectSame(found, expected);
        drawn += step.drawn[i] ? 1 : 0;
        errors += found.ok() ? 0 : 1;
        if (HasFatalFailure()) return;
        if (!found.ok()) ours[i] = NewSequence({}), theirs[i] = NewSequence({});
        if (!found.ok()) continue;
        ours[i]->tokens.push_back(found->token);
        theirs[i]->tokens.push_back(expected->token);
      }
      EXPECT_EQ(on_host, step.logits.size());
    }
  }
  EXPECT_GT(drawn, 400);
  EXPECT_GT(errors, 2) << "there should be masks that allow no token";
}

SampleSpec Spec(int64_t position, absl::Span<const uint64_t> allowed = {},
                const LogitRules* rules = nullptr) {
  return {.choice = {.temperature = 1, .seed = 5, .position = position, .allowed = allowed, .rules = rules},
          .vocab = kKnown,
          .logprobs = {}};
}

TEST(SamplingTablesTest, OnlyTheRowWithNanFails) {
  Drawing device(/*slots=*/8);
  const SampleSpec spec = Spec(3);
  const DrawnStep step = device.Run({1, kBadToken, 2}, {&spec, &spec, &spec});
  ASSERT_EQ(step.drawn.size(), 3u);
  EXPECT_TRUE(step.logits.empty());
  EXPECT_TRUE(step.drawn[0]->ok() && step.drawn[2]->ok());
  EXPECT_EQ(step.drawn[1]->status().code(), absl::StatusCode::kDataLoss);
}

TEST(SamplingTablesTest, TheHostDrawsRowsForWhichThereIsNoRoom) {
  Drawing device(/*slots=*/2);
  std::vector<uint64_t> mask(kKnown / 64 + 1);
  mask[3] = 1;  // token 192
  const LogitRules rules({.bias = {{17, 1000.0f}}}, {}, kKnown);
  const LogitRules twice({.bias = {{17, 1000.0f}, {17, 1.0f}}}, {}, kKnown);
  SampleSpec masked = Spec(1, mask), plain = Spec(2), ruled = Spec(3, {}, &rules),
             listless = Spec(4, {}, &twice), frozen = Spec(5);
  frozen.choice.temperature = 1e-300;  // its reciprocal is not a float
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::vector<float>> logits = device.Run(tokens).logits;
  const DrawnStep step = device.Run(tokens, {&listless, &masked, &plain, &ruled, &masked, &frozen, &plain});
  ASSERT_EQ(step.drawn.size(), tokens.size());
  for (const size_t row : {1, 2, 3, 6}) ASSERT_TRUE(step.drawn[row] && step.drawn[row]->ok()) << row;
  EXPECT_EQ((*step.drawn[1])->token, 192);
  EXPECT_EQ((*step.drawn[3])->token, 17);
  ASSERT_EQ(step.logits.size(), 3u);
  for (const auto& [read, row] : std::map<size_t, size_t>{{0, 0}, {1, 4}, {2, 5}}) {
    EXPECT_FALSE(step.drawn[row]);
    EXPECT_EQ(step.logits[read], logits[row]);
  }
  EXPECT_EQ(device.Run(tokens).logits, logits) << "the next step must not depend on it";
}

TEST(SamplingTablesTest, RowsAreReadIfTheVocabularyIsNotAMultipleOfFour) {
  Drawing device(/*slots=*/8, /*vocab=*/998);
  const SampleSpec spec = Spec(3);
  const DrawnStep step = device.Run({1, 2}, {&spec, &spec});
  EXPECT_EQ(step.logits.size(), 2u);
  EXPECT_TRUE(step.drawn.empty());
}

TEST(SamplingTablesTest, RulesOfAllRowsShareTheirRoom) {
  const auto runtime = NewSimulatedRuntime();
  auto tables = SamplingTables::Create(PlanSampling(200, kVocab, 200), *runtime);
  ASSERT_TRUE(tables.ok()) << tables.status();
  std::vector<TokenId> prompt(kKnown);
  for (TokenId t = 0; t < kKnown; ++t) prompt[static_cast<size_t>(t)] = t;
  const LogitRules rules({.repetition_penalty = 1.5}, prompt, kKnown);
  const SampleSpec ruled = Spec(1, {}, &rules), plain = Spec(2);
  StepLayout layout;
  layout.samples.assign(200, &ruled);
  layout.samples.back() = &plain;
  layout.logit_rows.resize(200);
  (*tables)->Fill(layout, 200);
  constexpr size_t kFitting = kSampleRulesMax / kKnown;
  for (size_t row = 0; row < 199; ++row) EXPECT_EQ((*tables)->OnDevice(row), row < kFitting) << row;
  EXPECT_TRUE((*tables)->OnDevice(199));
}

}  // namespace
}  // namespace numoe::execution::cuda
