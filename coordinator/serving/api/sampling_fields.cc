#include "coordinator/serving/api/sampling_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/promise_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr size_t kStopStringsMax = 16;
constexpr size_t kLogitBiasMax = 1024;  // OpenAI's limit is 300
constexpr size_t kStopTokensMax = 1024;
// The fields of ReadSampling that are numbers.
constexpr const char* kNumbers[] = {"temperature",
                                    "top_p",
                                    "top_k",
                                    "min_p",
                                    "seed",
                                    "sampling_seed",
                                    "frequency_penalty",
                                    "n",
                                    "presence_penalty",
                                    "repetition_penalty",
                                    "min_tokens",
                                    "min_new_tokens",
                                    "best_of"};

void ReadLogitBias(JsonFields& in, engine::SamplingParams& out) {
  const ordered_json* bias = in.Object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > kLogitBiasMax)
    return in.Fail("logit_bias", fmt::format("at most {} tokens", kLogitBiasMax));
  for (const auto& [key, value] : bias->items()) {
    TokenId token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || !value.is_number() ||
        !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      return in.Fail("logit_bias", fmt::format("token ids with numbers from -100 to 100, found \"{}\": {}",
                                               key.substr(0, 20), JsonFields::Short(value)));
    }
    out.logit_bias.emplace_back(token, value.get<float>());
  }
}

// Sorts the ids and removes duplicates, because every answer of the request has a copy.
void ReadTokenSet(JsonFields& in, const char* name, std::vector<TokenId>& out) {
  in.Tokens(name, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.shrink_to_fit();
}

// Seeds have 64 bits, as in OpenAI's API, vLLM and SGLang; -1 means no seed (vLLM, llama.cpp). JavaScript
// writes the limits of 64 bits as the numbers in OpenAI's description, which exceed them slightly.
void ReadSeed(JsonFields& in, engine::SamplingParams& out) {
  for (const char* name : {"seed", "sampling_seed"}) {
    const ordered_json* value = in.Get(name);
    if (value == nullptr) continue;
    constexpr double kOpenAiEnd = 9223372036854776000.0;
    std::optional<int64_t> seed = JsonFields::ReadInteger(*value);
    if (!seed && value->is_number() && std::fabs(value->get<double>()) == kOpenAiEnd)
      seed = value->get<double>() < 0 ? INT64_MIN : INT64_MAX;
    if (seed == -1) continue;
    if (!seed) {
      return in.Fail(name, fmt::format("an integer from {} to {}, found {}", INT64_MIN, INT64_MAX,
                                       JsonFields::Short(*value)));
    }
    out.seed = static_cast<uint64_t>(*seed);
  }
}

}  // namespace

absl::Status CheckSamplingValue(const std::string& name, double value) {
  if (std::find(std::begin(kNumbers), std::end(kNumbers), name) == std::end(kNumbers)) {
    return absl::InvalidArgumentError(fmt::format("there is no sampling parameter \"{}\"; expected one of {}",
                                                  name, fmt::join(kNumbers, ", ")));
  }
  const ordered_json fields = {{name, value}};
  JsonFields in(fields);
  GenerationRequest request;
  ReadSampling(in, request);
  return in.error() ? absl::InvalidArgumentError(in.error()->message) : absl::OkStatus();
}

std::optional<net::ApiError> CheckTokenIds(const engine::SamplingParams& sampling, int vocab_size) {
  for (const auto& [name, ids] : {std::pair("stop_token_ids", &sampling.stop_token_ids),
                                  std::pair("allowed_token_ids", &sampling.allowed_token_ids)}) {
    const auto outside =
        std::find_if(ids->begin(), ids->end(), [vocab_size](TokenId id) { return id >= vocab_size; });
    if (outside == ids->end()) continue;
    return net::BadRequest(
        name, fmt::format("'{}': expected token ids below {}, the size of the vocabulary, found {}", name,
                          vocab_size, *outside));
  }
  return std::nullopt;
}

std::optional<net::ApiError> CheckTokenCounts(const engine::SamplingParams& sampling) {
  if (!sampling.max_tokens || sampling.min_tokens <= *sampling.max_tokens) return std::nullopt;
  return net::BadRequest("min_tokens",
                         fmt::format("'min_tokens': expected at most max_tokens, which is {}, found {}",
                                     *sampling.max_tokens, sampling.min_tokens));
}

void SetSamplingDefaults(const GenerationDefaults& defaults, GenerationRequest& out) {
  out.sampling.temperature = defaults.temperature;
  out.sampling.top_p = defaults.top_p;
  out.sampling.top_k = defaults.top_k;
  out.sampling.min_p = defaults.min_p;
  out.sampling.repetition_penalty = defaults.repetition_penalty;
}

void ReadSampling(JsonFields& in, GenerationRequest& out) {
  engine::SamplingParams& s = out.sampling;
  in.Number("temperature", 0, 2, s.temperature);
  in.Number("top_p", 0, 1, s.top_p);
  int top_k = s.top_k;
  in.Number("top_k", -1, 1e9, top_k);
  s.top_k = top_k < 0 ? 0 : top_k;
  in.Number("min_p", 0, 1, s.min_p);
  ReadSeed(in, s);
  in.Number("frequency_penalty", -2, 2, s.frequency_penalty);
  in.Number("presence_penalty", -2, 2, s.presence_penalty);
  in.Number("repetition_penalty", 1e-3, 2, s.repetition_penalty);
  ReadLogitBias(in, s);
  in.Number("min_tokens", 0, INT32_MAX, s.min_tokens);
  in.Number("min_new_tokens", 0, INT32_MAX, s.min_tokens);
  in.Bool("ignore_eos", s.ignore_eos);
  in.Strings("stop", kStopStringsMax, out.stop);
  ReadTokenSet(in, "stop_token_ids", s.stop_token_ids);
  if (s.stop_token_ids.size() > kStopTokensMax) {
    in.Fail("stop_token_ids",
            fmt::format("at most {} different token ids, found {}", kStopTokensMax, s.stop_token_ids.size()));
  }
  ReadTokenSet(in, "allowed_token_ids", s.allowed_token_ids);
  in.Bool("include_stop_str_in_output", out.include_stop);
  in.Bool("no_stop_trim", out.include_stop);
  in.Bool("skip_special_tokens", out.skip_special_tokens);
  in.Number("n", 1, limits::kChoicesMax, out.n);
  out.best_of = out.n;
  in.Number("best_of", 1, limits::kChoicesMax, out.best_of);
  // Benchmarks send best_of 1 with every request.
  if (out.best_of < out.n && in.Get("n") != nullptr && out.best_of != 1)
    in.Fail("best_of", fmt::format("at least n, which is {}, found {}", out.n, out.best_of));
  out.best_of = std::max(out.best_of, out.n);
  ReadPromises(in, out);
}

}  // namespace numoe::serving
