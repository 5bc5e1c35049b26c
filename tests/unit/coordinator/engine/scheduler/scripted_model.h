// ScriptedModel: a Model whose next token is a function of the whole history, which it stores in its KV
// blocks.
//
// So every mistake with blocks (a wrong table, a row that was not written, a block that must not be shared)
// changes the text. On demand it fails, or draws tokens like a device that leaves some rows to the host. Used
// by the engine thread; the switches are atomic.
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "coordinator/execution/model/model.h"
#include "coordinator/execution/sampling/sampler.h"
#include "gtest/gtest.h"

namespace numoe::engine {

class ScriptedModel final : public execution::Model {
 public:
  static constexpr int kVocab = 97;
  static constexpr float kLikely = 10.0f;  // the next token's logit; the other logits are 0
  ScriptedModel(int blocks, int block_tokens)
      : block_tokens_(block_tokens), rows_(static_cast<size_t>(blocks) * block_tokens, -1) {}

  absl::StatusOr<execution::StepLogits> Forward(const execution::StepBatch& batch) override {
    ++steps_;
    largest_batch_ = std::max<int>(largest_batch_, static_cast<int>(batch.sequences.size()));
    if (failures_left_ > 0) {
      --failures_left_;
      return absl::UnavailableError("scripted loss");
    }
    logits_.clear();
    drawn_.clear();
    for (const execution::StepSequence& s : batch.sequences) {
      for (size_t i = 0; i < s.tokens.size(); ++i) Row(s, s.position + static_cast<int64_t>(i)) = s.tokens[i];
      if (s.logits_last == 0) continue;
      uint64_t hash = 17;
      const int64_t end = s.position + static_cast<int64_t>(s.tokens.size());
      for (int64_t p = 0; p < end; ++p) {
        hash = hash * 31 + static_cast<uint64_t>(Row(s, p) + 2);
        if (p >= end - s.logits_last) AddRow(hash % kVocab);
      }
      EXPECT_TRUE(draws_ || s.sample == nullptr) << "this model does not draw";
      if (s.sample != nullptr && hash % 3 != 0) DrawLastRow(*s.sample);
    }
    return execution::StepLogits{.rows = static_cast<int>(logits_.size()) / kVocab,
                                 .vocab_size = kVocab,
                                 .values = logits_,
                                 .drawn = drawn_};
  }
  bool CanDraw() const override { return draws_; }
  const ModelConfig& config() const override { return config_; }
  int64_t KvBytesPerToken() const override { return 4; }

  /// Returns the tokens of greedy decoding after `prompt`, computed without a cache.
  static std::vector<TokenId> Expected(std::vector<TokenId> prompt, int count) {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      uint64_t hash = 17;
      for (const TokenId t : prompt) hash = hash * 31 + static_cast<uint64_t>(t + 2);
      out.push_back(static_cast<TokenId>(hash % kVocab));
      prompt.push_back(out.back());
    }
    return out;
  }

  std::atomic<int> failures_left_{0};
  std::atomic<int> nan_token_{-1};
  std::atomic<bool> draws_{false};
  std::atomic<int> rows_drawn_{0};
  std::atomic<int> steps_{0};
  std::atomic<int> largest_batch_{0};

 private:
  TokenId& Row(const execution::StepSequence& s, int64_t position) {
    return rows_[static_cast<size_t>(s.blocks[static_cast<size_t>(position / block_tokens_)]) *
                     block_tokens_ +
                 static_cast<size_t>(position % block_tokens_)];
  }
  void AddRow(uint64_t token) {
    logits_.resize(logits_.size() + kVocab, 0.0f);
    logits_[logits_.size() - kVocab + token] = kLikely;
    if (nan_token_ >= 0 && token == static_cast<uint64_t>(nan_token_)) logits_.back() = 0.0f / 0.0f;
    if (draws_) drawn_.emplace_back();
  }
  void DrawLastRow(const execution::SampleSpec& spec) {
    const absl::Span<const float> row = absl::MakeConstSpan(logits_).last(kVocab);
    drawn_.back() = Draw(row, spec);
    logits_.resize(logits_.size() - kVocab);
    ++rows_drawn_;
  }
  static absl::StatusOr<execution::DrawnToken> Draw(absl::Span<const float> row,
                                                    const execution::SampleSpec& spec) {
    const absl::StatusOr<TokenId> token = execution::Sampler(spec.vocab).Sample(row, spec.choice);
    if (!token.ok()) return token.status();
    execution::DrawnToken drawn{.token = *token, .logprobs = {}};
    if (spec.logprobs) {
      const auto found =
          execution::ReadLogprobs(row.first(static_cast<size_t>(spec.vocab)), *token, *spec.logprobs);
      if (!found.ok()) return found.status();
      drawn.logprobs.push_back(*found);
    }
    return drawn;
  }

  const int block_tokens_;
  std::vector<TokenId> rows_;
  std::vector<float> logits_;
  std::vector<execution::DrawnRow> drawn_;
  ModelConfig config_;
};

}  // namespace numoe::engine
