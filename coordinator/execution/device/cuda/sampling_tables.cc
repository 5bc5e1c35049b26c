#include "coordinator/execution/device/cuda/sampling_tables.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/sampling/logit_row.h"

namespace numoe::execution::cuda {
namespace {

static_assert(kTopLogprobsMax == kLogprobsMax);
static_assert(sizeof(SamplingRow) == 80 && sizeof(TokenRule) == 16 && sizeof(SampledToken) == 180,
              "CONTRACT.md states these sizes");

absl::StatusOr<DrawnToken> Drawn(const SampledToken& sampled, const SamplingRow& row) {
  if (sampled.status == SampleStatus::kNotANumber) return NotANumber();
  if (sampled.status == SampleStatus::kNothingAllowed) return NothingAllowed(row.masked);
  NUMOE_CHECK(sampled.status == SampleStatus::kOk)
      << "the kernel drew no token from a row that has a sample spec";
  DrawnToken drawn{.token = sampled.token, .logprobs = {}};
  if (row.top_logprobs < 0) return drawn;
  TokenLogprobs found{.chosen = {sampled.token, sampled.logprob}, .rank = sampled.rank, .top = {}};
  for (int i = 0; i < sampled.top_count; ++i)
    found.top.push_back({sampled.top_tokens[i], sampled.top_logprobs[i]});
  drawn.logprobs.push_back(std::move(found));
  return drawn;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SamplingTables>> SamplingTables::Create(const SamplingSizes& sizes,
                                                                       Runtime& runtime) {
  auto tables = std::unique_ptr<SamplingTables>(new SamplingTables(sizes));
  if (sizes.rows == 0) return tables;
  ASSIGN_OR_RETURN(tables->tables_on_host_, runtime.AllocateHost(sizes.table_bytes()));
  ASSIGN_OR_RETURN(tables->tables_, runtime.Allocate(sizes.table_bytes()));
  ASSIGN_OR_RETURN(tables->shaped_, runtime.Allocate(sizes.shaped_bytes()));
  ASSIGN_OR_RETURN(tables->sampled_on_host_, runtime.AllocateHost(sizes.sampled_bytes()));
  ASSIGN_OR_RETURN(tables->sampled_, runtime.Allocate(sizes.sampled_bytes()));
  return tables;
}

void SamplingTables::Fill(const StepLayout& layout, int rows) {
  NUMOE_CHECK(layout.samples.empty() || layout.samples.size() == layout.logit_rows.size());
  any_ = false;
  rules_ = slots_ = 0;
  on_device_.assign(layout.samples.size(), false);
  rows_ = sizes_.rows == 0 ? 0 : rows;
  if (rows_ == 0) return;
  NUMOE_CHECK(layout.logit_rows.size() <= static_cast<size_t>(rows) && rows <= sizes_.rows) << rows;
  auto* const table = Host<SamplingRow>(0);
  std::fill_n(table, rows, SamplingRow{});
  for (size_t r = 0; r < layout.samples.size(); ++r) {
    if (layout.samples[r] == nullptr) continue;
    SamplingRow row;
    if (!Add(*layout.samples[r], row)) continue;
    table[r] = row;
    on_device_[r] = any_ = true;
  }
}

// Returns false if the row is left to the host.
bool SamplingTables::Add(const SampleSpec& spec, SamplingRow& row) {
  const SamplingChoice& choice = spec.choice;
  NUMOE_CHECK(spec.vocab > 0 && spec.vocab <= sizes_.vocab) << spec.vocab << " of " << sizes_.vocab;
  row = {.position = choice.position,
         .seed = choice.seed,
         .top_p = choice.top_p,
         .min_p = choice.min_p,
         .top_k = choice.top_k,
         .vocab = spec.vocab,
         .top_logprobs = spec.logprobs.value_or(-1)};
  if (choice.temperature > 0 && choice.top_k != 1) {
    row.inverse_temperature = static_cast<float>(1 / choice.temperature);
    if (!std::isfinite(row.inverse_temperature) || row.inverse_temperature <= 0) return false;
  }
  return AddShape(choice, row);
}

// Adds the mask and the rules, which are applied before the draw.
bool SamplingTables::AddShape(const SamplingChoice& choice, SamplingRow& row) {
  absl::Span<const TokenRule> rules;
  if (choice.rules != nullptr) {
    const std::optional<absl::Span<const TokenRule>> list = choice.rules->List();
    if (!list) return false;
    rules = *list;
  }
  row.masked = !choice.allowed.empty();
  if (!row.masked && rules.empty()) return true;
  if (slots_ == sizes_.slots || rules.size() > static_cast<size_t>(kSampleRulesMax - rules_)) return false;
  if (choice.rules != nullptr) {
    const LogitPenalties& penalties = choice.rules->penalties();
    row.repetition = penalties.repetition;
    row.frequency = penalties.frequency;
    row.presence = penalties.presence;
    row.forbids = choice.rules->Forbids();
    row.rules_begin = rules_;
    row.rules_count = static_cast<int32_t>(rules.size());
    std::copy(rules.begin(), rules.end(), Host<TokenRule>(sizes_.rules_offset()) + rules_);
    rules_ += row.rules_count;
  }
  row.slot = slots_++;
  auto* const mask = Host<uint64_t>(sizes_.masks_offset()) + int64_t{row.slot} * sizes_.mask_words();
  const auto words = static_cast<size_t>(sizes_.mask_words());
  const size_t given = std::min(choice.allowed.size(), words);
  std::copy_n(choice.allowed.begin(), given, mask);
  std::fill(mask + given, mask + words, uint64_t{0});
  return true;
}

void SamplingTables::Upload(Runtime& runtime, Stream stream) const {
  if (rows_ == 0) return;
  const auto copy = [&](uint64_t offset, size_t bytes) {
    if (bytes > 0) runtime.Copy(tables_->device() + offset, tables_on_host_->host() + offset, bytes, stream);
  };
  copy(0, static_cast<size_t>(rows_) * sizeof(SamplingRow));
  copy(sizes_.rules_offset(), static_cast<size_t>(rules_) * sizeof(TokenRule));
  copy(sizes_.masks_offset(),
       static_cast<size_t>(slots_) * static_cast<size_t>(sizes_.mask_words()) * sizeof(uint64_t));
}

void SamplingTables::EnqueueDraw(const float* logits, Stream stream) const {
  if (rows_ == 0) return;
  LaunchSample({.logits = logits,
                .stride = sizes_.vocab,
                .rows = rows_,
                .params = Device<SamplingRow>(0),
                .rules = Device<TokenRule>(sizes_.rules_offset()),
                .masks = Device<uint64_t>(sizes_.masks_offset()),
                .mask_words = sizes_.mask_words(),
                .shaped = reinterpret_cast<float*>(shaped_->device()),
                .sampled = reinterpret_cast<SampledToken*>(sampled_->device())},
               stream);
}

void SamplingTables::Download(Runtime& runtime, Stream stream) const {
  if (!any_) return;
  runtime.Copy(sampled_on_host_->host(), sampled_->device(), on_device_.size() * sizeof(SampledToken),
               stream);
}

absl::Span<const DrawnRow> SamplingTables::Read() {
  drawn_.clear();
  if (!any_) return {};
  const auto* const sampled = reinterpret_cast<const SampledToken*>(sampled_on_host_->host());
  for (size_t r = 0; r < on_device_.size(); ++r) {
    drawn_.emplace_back();
    if (on_device_[r]) drawn_.back() = Drawn(sampled[r], Host<SamplingRow>(0)[r]);
  }
  return drawn_;
}

}  // namespace numoe::execution::cuda
