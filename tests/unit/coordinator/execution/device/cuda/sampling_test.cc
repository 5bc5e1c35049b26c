// Compares sampling on the device with Sampler, LogitRules and ReadLogprobs: the token must be the same for
// the same row, seed and position.

#include "coordinator/execution/device/cuda/kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coordinator/execution/sampling/logit_row.h"
#include "coordinator/execution/sampling/logprobs.h"
#include "coordinator/execution/sampling/sampler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/device_buffer.h"

namespace numoe::execution {
namespace {

using cuda::SampledToken;
using cuda::SampleStatus;
using cuda::SamplingRow;

/// A step's rows for both samplers.
struct SamplingStep {
  int vocab = 0;
  std::vector<std::vector<float>> logits;
  std::vector<SamplingChoice> choices;
  std::vector<std::unique_ptr<LogitRules>> rules;
  std::vector<std::vector<uint64_t>> masks;  // an empty mask allows all tokens
  std::vector<SamplingRow> rows;
  std::vector<TokenRule> device_rules;

  explicit SamplingStep(int tokens) : vocab(tokens) {}

  SamplingRow& Add(std::vector<float> row, const SamplingChoice& choice) {
    logits.push_back(std::move(row));
    choices.push_back(choice);
    rules.push_back(nullptr);
    masks.emplace_back();
    rows.push_back(
        {.position = choice.position,
         .seed = choice.seed,
         .top_p = choice.top_p,
         .min_p = choice.min_p,
         .inverse_temperature = choice.temperature > 0 ? static_cast<float>(1 / choice.temperature) : 0.0f,
         .top_k = choice.top_k,
         .vocab = vocab});
    return rows.back();
  }

  /// Adds the rules of the last row: for the host as in a request, for the device as a list of tokens.
  void AddRules(const LogitRuleParams& params, const std::vector<TokenId>& prompt,
                const std::vector<TokenId>& drawn) {
    rules.back() = std::make_unique<LogitRules>(params, prompt, vocab);
    for (const TokenId token : drawn) rules.back()->Count(token);
    std::map<TokenId, TokenRule> merged;
    for (const auto& [token, bias] : params.bias) merged[token] = {.bias = bias, .biased = true};
    if (params.repetition_penalty != 1) {
      for (const TokenId token : prompt) merged[token].seen = true;
    }
    if (params.repetition_penalty != 1 || params.frequency_penalty != 0 || params.presence_penalty != 0) {
      for (const TokenId token : drawn) {
        merged[token].seen = true;
        ++merged[token].generated;
      }
    }
    for (const TokenId token : params.late) merged[token].late = true;
    SamplingRow& row = rows.back();
    row.repetition = static_cast<float>(params.repetition_penalty);
    row.frequency = static_cast<float>(params.frequency_penalty);
    row.presence = static_cast<float>(params.presence_penalty);
    row.rules_begin = static_cast<int32_t>(device_rules.size());
    row.rules_count = static_cast<int32_t>(merged.size());
    row.forbids = static_cast<int>(drawn.size()) < params.min_tokens && !params.late.empty();
    for (auto [token, rule] : merged) {
      rule.token = token;
      device_rules.push_back(rule);
    }
  }
  void AddMask(const std::vector<TokenId>& allowed) {
    std::vector<uint64_t>& mask = masks.back();
    mask.assign(static_cast<size_t>(vocab + 63) / 64, 0);
    for (const TokenId token : allowed) mask[static_cast<size_t>(token) / 64] |= uint64_t{1} << token % 64;
  }

  std::vector<SampledToken> RunOnDevice() {
    const size_t stride = static_cast<size_t>(vocab + 7) / 4 * 4;
    const size_t words = static_cast<size_t>(vocab + 63) / 64;
    std::vector<float> all(rows.size() * stride, 1e9f);  // tokens beyond the vocabulary must never be drawn
    std::vector<uint64_t> all_masks;
    size_t slots = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      std::copy(logits[row].begin(), logits[row].end(),
                all.begin() + static_cast<std::ptrdiff_t>(row * stride));
      rows[row].masked = !masks[row].empty();
      if (!rows[row].masked && rows[row].rules_count == 0) continue;
      rows[row].slot = static_cast<int32_t>(slots++);
      if (rows[row].masked) all_masks.insert(all_masks.end(), masks[row].begin(), masks[row].end());
      all_masks.resize(slots * words);
    }
    if (device_rules.empty()) device_rules.emplace_back();
    if (slots == 0) all_masks.resize(1);
    DeviceBuffer<float> x(all), shaped(std::max<size_t>(slots, 1) * stride);
    DeviceBuffer<SamplingRow> params(rows);
    DeviceBuffer<TokenRule> rule(device_rules);
    DeviceBuffer<uint64_t> mask(all_masks);
    DeviceBuffer<SampledToken> sampled(rows.size());
    cuda::LaunchSample({.logits = x.data(),
                        .stride = static_cast<int64_t>(stride),
                        .rows = static_cast<int>(rows.size()),
                        .params = params.data(),
                        .rules = rule.data(),
                        .masks = mask.data(),
                        .mask_words = static_cast<int>(words),
                        .shaped = shaped.data(),
                        .sampled = sampled.data()},
                       nullptr);
    return sampled.Download();
  }

  absl::StatusOr<TokenId> OnHost(size_t row) const {
    Sampler sampler(vocab);
    SamplingChoice choice = choices[row];
    choice.rules = rules[row].get();
    choice.allowed = masks[row];
    return sampler.Sample(logits[row], choice);
  }
};

std::vector<float> RandomRow(std::mt19937_64& random, int vocab) {
  std::vector<float> row(static_cast<size_t>(vocab));
  std::normal_distribution<float> normal(static_cast<float>(random() % 40) - 20,
                                         0.3f + static_cast<float>(random() % 6));
  const int kind = static_cast<int>(random() % 5);
  for (float& logit : row) {
    logit = normal(random);
    if (kind == 0) logit = std::round(logit);         // many equal logits
    if (kind == 1) logit = 3 + logit * 1e-5f;         // nearly equal logits
    if (kind == 2) logit = logit > 0 ? 0.0f : -0.0f;  // all logits equal
  }
  if (kind == 3) row[random() % row.size()] += 25;
  return row;
}

SamplingChoice RandomChoice(std::mt19937_64& random, int vocab) {
  const auto pick = [&](auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> all = {values...};
    return all[random() % all.size()];
  };
  return {.temperature = pick(0.0, 0.1, 0.6, 1.0, 1.0, 1.7, 60.0),
          .top_p = pick(1.0, 1.0, 0.95, 0.5, 0.01, 0.0),
          .top_k = pick(0, 0, 1, 2, 40, vocab / 2, vocab, vocab + 5),
          .min_p = pick(0.0, 0.0, 0.02, 0.5, 1.0, 2.0),
          .seed = random(),
          .position = static_cast<int64_t>(random() % 1000)};
}

TEST(CudaSamplingTest, DrawsWhatTheHostDraws) {
  std::mt19937_64 random(1);
  for (const int vocab : {1, 7, 1000, 5003}) {
    SamplingStep step(vocab);
    for (int row = 0; row < 40; ++row) step.Add(RandomRow(random, vocab), RandomChoice(random, vocab));
    RunUnderAllSchedules([&] {
      const std::vector<SampledToken> got = step.RunOnDevice();
      for (size_t row = 0; row < got.size(); ++row) {
        const absl::StatusOr<TokenId> expected = step.OnHost(row);
        ASSERT_TRUE(expected.ok());
        EXPECT_EQ(got[row].status, SampleStatus::kOk);
        EXPECT_EQ(got[row].token, *expected) << "vocabulary " << vocab << " row " << row;
      }
    });
  }
}

// Both sum weights of 2^-21 and more exactly, so they agree even if top_p is exactly the mass of a prefix.
TEST(CudaSamplingTest, KeepsTheSameTokensIfTopPIsOnABoundary) {
  std::mt19937_64 random(8);
  std::normal_distribution<float> normal;
  SamplingStep step(9);
  for (int row = 0; row < 300; ++row) {
    std::vector<float> logits(9);
    for (float& logit : logits) logit = normal(random);
    std::vector<float> sorted = logits;
    std::sort(sorted.rbegin(), sorted.rend());
    double prefix = 0, total = 0;
    const size_t kept = random() % sorted.size();
    for (size_t i = 0; i < sorted.size(); ++i) {
      total += ExpOfNegative(sorted[i] - sorted[0]);
      if (i == kept) prefix = total;
    }
    const double top_p = prefix / total;
    for (const double near : {std::nextafter(top_p, 0), top_p, std::nextafter(top_p, 1)}) {
      step.Add(logits, {.top_p = near, .seed = static_cast<uint64_t>(row), .position = 1});
    }
  }
  const std::vector<SampledToken> got = step.RunOnDevice();
  for (size_t row = 0; row < got.size(); ++row) EXPECT_EQ(got[row].token, *step.OnHost(row)) << row;
}

TEST(CudaSamplingTest, MasksAndRulesComeFirst) {
  std::mt19937_64 random(2);
  constexpr int kVocab = 777;
  SamplingStep step(kVocab);
  for (int row = 0; row < 60; ++row) {
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> logits(kVocab);
    for (float& logit : logits) logit = normal(random);
    step.Add(logits, RandomChoice(random, kVocab));
    if (row % 3 != 0) {
      LogitRuleParams params{.frequency_penalty = static_cast<double>(random() % 3) / 2,
                             .presence_penalty = static_cast<double>(random() % 3) / 4,
                             .repetition_penalty = random() % 2 == 0 ? 1.0 : 1.25};
      for (int i = 0; i < 4; ++i)
        params.bias.emplace_back(i * 100 + static_cast<int>(random() % 100), i == 0 ? -100 : 9.5f);
      if (random() % 2 == 0) {
        params.min_tokens = 1000;
        std::set<TokenId> tokens;  // some of them beyond the vocabulary
        for (int i = 0; i < 300; ++i) tokens.insert(static_cast<TokenId>(random() % (kVocab + 20)));
        params.late.assign(tokens.begin(), tokens.end());
      }
      std::vector<TokenId> prompt, drawn;
      for (int i = 0; i < 200; ++i) prompt.push_back(static_cast<TokenId>(random() % (kVocab + 20)));
      for (int i = 0; i < 150; ++i) drawn.push_back(static_cast<TokenId>(random() % kVocab));
      step.AddRules(params, prompt, drawn);
    }
    if (row % 4 == 1 || row % 4 == 2) {
      std::vector<TokenId> allowed;  // few tokens, or all except some
      for (TokenId token = 0; token < kVocab; ++token) {
        const bool rare = random() % 50 == 0;
        if (rare == (row % 4 == 1)) allowed.push_back(token);
      }
      step.AddMask(allowed);
    }
  }
  RunUnderAllSchedules([&] {
    const std::vector<SampledToken> got = step.RunOnDevice();
    for (size_t row = 0; row < got.size(); ++row) {
      const absl::StatusOr<TokenId> expected = step.OnHost(row);
      ASSERT_EQ(got[row].status == SampleStatus::kOk, expected.ok()) << row;
      EXPECT_EQ(got[row].token, expected.ok() ? *expected : -1) << row;
    }
  });
}

TEST(CudaSamplingTest, RulesAreIgnoredOnlyIfAMaskWouldAllowNoToken) {
  SamplingStep step(100);
  const std::vector<float> logits = [] {
    std::vector<float> row(100);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
    return row;
  }();
  std::vector<TokenId> all(100);
  std::iota(all.begin(), all.end(), 0);
  step.Add(logits, {.temperature = 0});  // the mask allows only tokens that are still forbidden
  step.AddRules({.bias = {{7, 0.5f}}, .min_tokens = 5, .late = {7, 8}}, {}, {});
  step.AddMask({7, 8});
  step.Add(logits, {.temperature = 0});  // another token is left
  step.AddRules({.min_tokens = 5, .late = {7, 8}}, {}, {});
  step.AddMask({3, 7, 8});
  step.Add(logits, {.temperature = 0});  // no token is left
  step.AddRules({.min_tokens = 5, .late = all}, {}, {});
  step.Add(logits, {.temperature = 1});  // no token is allowed
  step.AddMask({});
  step.Add(logits, {.temperature = 0});  // enough tokens were drawn
  step.AddRules({.min_tokens = 1, .late = {99}}, {}, {5});
  RunUnderAllSchedules([&] {
    const std::vector<SampledToken> got = step.RunOnDevice();
    EXPECT_EQ(got[0].token, 8);
    EXPECT_EQ(got[1].token, 3);
    EXPECT_EQ(got[2].status, SampleStatus::kNothingAllowed);
    EXPECT_EQ(got[3].status, SampleStatus::kNothingAllowed);
    EXPECT_EQ(got[3].token, -1);
    EXPECT_EQ(got[4].token, 99);
    for (const size_t row : {0, 1, 4}) EXPECT_EQ(got[row].token, *step.OnHost(row));
    for (const size_t row : {2, 3}) EXPECT_FALSE(step.OnHost(row).ok());
  });
}

TEST(CudaSamplingTest, RowsWithNanAndPaddingRows) {
  const float infinity = std::numeric_limits<float>::infinity();
  SamplingStep step(3000);
  for (const float bad : {std::nanf(""), infinity, -infinity, 0.0f}) {
    std::vector<float> row(3000, 1.0f);
    row[2999] = bad;
    step.Add(row, {.temperature = 1, .seed = 3});
  }
  step.Add(std::vector<float>(3000, std::nanf("")), {.temperature = 1}).position = -1;
  std::vector<float> hidden(3000, 1.0f);
  hidden[5] = std::nanf("");
  step.Add(hidden, {.temperature = 0});  // the NaN is where the mask forbids tokens
  step.AddMask({17});
  step.Add(hidden, {.temperature = 0}).top_logprobs = 0;  // but log-probabilities need the whole row
  step.AddMask({17});
  RunUnderAllSchedules([&] {
    const std::vector<SampledToken> got = step.RunOnDevice();
    for (size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(got[row].status, SampleStatus::kNotANumber);
      EXPECT_EQ(got[row].token, -1);
      EXPECT_TRUE(absl::IsDataLoss(step.OnHost(row).status()));
    }
    EXPECT_EQ(got[3].token, *step.OnHost(3));
    EXPECT_EQ(got[4].status, SampleStatus::kPadding);
    EXPECT_EQ(got[4].token, -1);
    EXPECT_EQ(got[5].token, 17);
    EXPECT_EQ(got[6].status, SampleStatus::kNotANumber);
  });
}

TEST(CudaSamplingTest, LogprobsMatchTheHosts) {
  std::mt19937_64 random(5);
  for (const int vocab : {1, 13, 4099}) {
    SamplingStep step(vocab);
    for (int row = 0; row < 24; ++row) {
      const int top = static_cast<int>(random() % (cuda::kTopLogprobsMax + 1));
      step.Add(RandomRow(random, vocab), RandomChoice(random, vocab)).top_logprobs = top;
      if (row % 3 == 0) step.AddMask({static_cast<TokenId>(random() % static_cast<unsigned>(vocab))});
    }
    RunUnderAllSchedules([&] {
      const std::vector<SampledToken> got = step.RunOnDevice();
      for (size_t row = 0; row < got.size(); ++row) {
        const absl::StatusOr<TokenLogprobs> expected =
            ReadLogprobs(step.logits[row], got[row].token, step.rows[row].top_logprobs);
        ASSERT_TRUE(expected.ok());
        const auto near = [](float value) { return std::fabs(value) * 2e-7f + 2e-7f; };
        EXPECT_NEAR(got[row].logprob, expected->chosen.logprob, near(expected->chosen.logprob));
        EXPECT_EQ(got[row].rank, expected->rank);
        ASSERT_EQ(got[row].top_count, static_cast<int>(expected->top.size())) << vocab;
        for (size_t i = 0; i < expected->top.size(); ++i) {
          EXPECT_EQ(got[row].top_tokens[i], expected->top[i].token) << "row " << row << " place " << i;
          EXPECT_NEAR(got[row].top_logprobs[i], expected->top[i].logprob, near(expected->top[i].logprob));
        }
      }
    });
  }
}

// The header promises this for the unit of mass, 2^-44 of the best token's weight.
TEST(CudaSamplingTest, TokensBelowTheUnitOfMassAreNeverDrawnAndNearOnesAre) {
  constexpr int kVocab = 2048;
  SamplingStep step(kVocab);
  for (int row = 0; row < 32; ++row) {
    std::vector<float> logits(kVocab, -31.0f);  // exp(-31) is 2^-44.7
    logits[77] = 0;
    step.Add(logits, {.temperature = 1, .seed = 1, .position = row});
    std::fill(logits.begin(), logits.end(),
              -7.0f);  // together they weigh nearly twice as much as the best one
    logits[77] = 0;
    step.Add(logits, {.temperature = 1, .seed = 1, .position = row});
  }
  const std::vector<SampledToken> got = step.RunOnDevice();
  std::set<int> others;
  for (size_t row = 0; row < got.size(); row += 2) {
    EXPECT_EQ(got[row].token, 77);
    others.insert(got[row + 1].token);
    EXPECT_EQ(got[row + 1].token, *step.OnHost(row + 1));
  }
  EXPECT_GT(others.size(), 10u);
}

TEST(CudaSamplingTest, DrawsFollowTheDistribution) {
  SamplingStep step(4);
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, 3.0f};
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) step.Add(logits, {.temperature = 1, .seed = 9, .position = i});
  std::vector<int> counts(4);
  for (const SampledToken& sampled : step.RunOnDevice()) ++counts[static_cast<size_t>(sampled.token)];
  double total = 0;
  for (const float logit : logits) total += std::exp(logit);
  for (size_t token = 0; token < 4; ++token) {
    const double p = std::exp(logits[token]) / total;
    EXPECT_NEAR(counts[token], kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p)));
  }
}

}  // namespace
}  // namespace numoe::execution
