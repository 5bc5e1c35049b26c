// The sampling parameters that have the same names in all dialects.
//
// temperature, top_p, top_k, min_p, seed (SGLang: sampling_seed), the penalties, logit_bias, min_tokens
// (SGLang: min_new_tokens), ignore_eos, stop, stop_token_ids, allowed_token_ids, include_stop_str_in_output
// (SGLang: no_stop_trim), skip_special_tokens, n, best_of, and those of promise_fields.h. The maximum number
// of tokens has a different name in each dialect. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// Sets the values that count if the client sends none.
void SetSamplingDefaults(const GenerationDefaults& defaults, GenerationRequest& out);
/// Reads these fields; lists of token ids are sorted, and contain each id once.
void ReadSampling(JsonFields& in, GenerationRequest& out);
/// Checks that stop_token_ids and allowed_token_ids are tokens of this model; nullopt if they are. Readers do
/// not know the vocabulary.
std::optional<net::ApiError> CheckTokenIds(const engine::SamplingParams& sampling, int vocab_size);
/// Checks that min_tokens is not larger than max_tokens; nullopt if it is not.
std::optional<net::ApiError> CheckTokenCounts(const engine::SamplingParams& sampling);
/// Checks that a server may lock this parameter at this number. INVALID_ARGUMENT lists the parameters, or
/// names the range.
absl::Status CheckSamplingValue(const std::string& name, double value);

}  // namespace numoe::serving
