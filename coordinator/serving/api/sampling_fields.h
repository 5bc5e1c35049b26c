// The sampling parameters that all dialects name alike.
//
// temperature, top_p, top_k, min_p, seed (SGLang: sampling_seed), the penalties, logit_bias, min_tokens
// (SGLang: min_new_tokens), ignore_eos, stop, stop_token_ids, allowed_token_ids, include_stop_str_in_output
// (SGLang: no_stop_trim), skip_special_tokens, n, best_of, and those of promise_fields.h. The number of
// tokens has a name of its own in each dialect. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/weights/model_config.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// What holds where the client says nothing.
void SetSamplingDefaults(const GenerationDefaults& defaults, GenerationRequest& out);
/// Lists of token ids come out sorted, each id once.
void ReadSampling(JsonFields& in, GenerationRequest& out);
/// What no reader knows: that stop_token_ids and allowed_token_ids are tokens of this model; none: they are.
std::optional<net::ApiError> CheckTokenIds(const engine::SamplingParams& sampling, int vocab_size);
/// Nor that an answer of at least min_tokens may be of max_tokens at most; none: it may.
std::optional<net::ApiError> CheckTokenCounts(const engine::SamplingParams& sampling);
/// Whether a server may lock the parameter of this name at this number. INVALID_ARGUMENT says what there is.
absl::Status CheckSamplingValue(const std::string& name, double value);

}  // namespace numoe::serving
