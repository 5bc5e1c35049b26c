#include "coordinator/serving/api/refused_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr char kSampler[] = "this server samples with temperature, top_k, top_p, min_p and its penalties";
constexpr char kBeams[] =
    "this server samples one token after the other; n or best_of ask for several answers";
constexpr char kProcessor[] = "this server runs no code of its clients";
constexpr char kAdapter[] = "this server has no adapters; /v1/models lists its models";
constexpr char kLogprobs[] = "ask for probabilities with logprobs and top_logprobs";
constexpr char kBadWords[] = "bad_words forbids words, and a logit_bias of -100 forbids tokens";
constexpr char kFunctions[] = "declare functions in tools, and choose among them with tool_choice";
constexpr char kTextOnly[] = "this model generates only text";
constexpr char kRunsNoTools[] = "this server runs no tools itself";

bool IsOff(const ordered_json& value, std::string_view off) {
  if (value.is_null() || value == false) return true;
  if ((value.is_string() || value.is_array() || value.is_object()) &&
      (value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty()))
    return true;
  const ordered_json values = ordered_json::parse(off);
  NUMOE_DCHECK(values.is_array());
  return std::find(values.begin(), values.end(), value) != values.end();
}

net::ApiError Refuse(const std::string& param, std::string_view off, const std::string& reason,
                     const ordered_json& found) {
  const ordered_json values = ordered_json::parse(off);
  std::string expected = "no value";
  for (const ordered_json& value : values) expected += " or " + value.dump();
  return net::BadRequest(param, fmt::format("'{}': expected {}, found {}: {}", param, expected,
                                            JsonFields::Short(found), reason));
}

std::optional<net::ApiError> FindIn(const ordered_json& fields, const std::string& path) {
  for (const RefusedField& field : RefusedFields()) {
    const auto value = fields.find(field.name);
    if (value == fields.end() || IsOff(*value, field.off)) continue;
    return Refuse(path + field.name, field.off, field.reason, *value);
  }
  return std::nullopt;
}

// Kimi-K3 can declare tools in a message in the middle of a conversation.
std::optional<net::ApiError> FindToolsOfMessages(const ordered_json& body) {
  const auto messages = body.find("messages");
  if (messages == body.end() || !messages->is_array()) return std::nullopt;
  for (size_t i = 0; i < messages->size(); ++i) {
    const ordered_json& message = (*messages)[i];
    if (!message.is_object() || !message.contains("tools") || IsOff(message["tools"], "[]")) continue;
    return Refuse(fmt::format("messages[{}].tools", i), "[]",
                  "this model's template declares tools once; declare them in the request's tools",
                  message["tools"]);
  }
  return std::nullopt;
}

}  // namespace

const std::vector<RefusedField>& RefusedFields() {
  static const std::vector<RefusedField> fields = {
      // llama.cpp, Ollama and text-generation-webui
      {"typical_p", "[1]", kSampler},
      {"mirostat", "[0]", kSampler},
      {"mirostat_mode", "[0]", kSampler},
      {"dry_multiplier", "[0]", kSampler},
      {"xtc_probability", "[0]", kSampler},
      {"dynatemp_range", "[0]", kSampler},
      {"top_n_sigma", "[-1, 0]", kSampler},
      {"top_a", "[0]", kSampler},
      {"tfs_z", "[1]", kSampler},
      {"smoothing_factor", "[0]", kSampler},
      {"epsilon_cutoff", "[0]", kSampler},
      {"eta_cutoff", "[0]", kSampler},
      {"penalty_alpha", "[0]", kSampler},
      {"no_repeat_ngram_size", "[0]", kSampler},
      {"samplers", "[]", kSampler},
      {"banned_strings", "[]", kBadWords},
      {"banned_tokens", "[]", kBadWords},
      {"custom_token_bans", "[]", kBadWords},
      {"repeat_penalty", "[1]", "the penalty for all earlier tokens is named repetition_penalty"},
      {"t_max_predict_ms", "[-1, 0]", "the time limit of a request is named timeout, in seconds"},
      {"grammar_lazy", "[]", "a grammar applies from the beginning of the answer; see structural_tag"},
      {"n_probs", "[0]", kLogprobs},
      {"lora", "[]", kAdapter},
      // vLLM
      {"use_beam_search", "[]", kBeams},
      {"length_penalty", "[1]", kBeams},
      {"early_stopping", "[]", kBeams},
      {"logits_processors", "[]", kProcessor},
      {"chat_template", "[]", "this server renders conversations with the template of its model"},
      {"prompt_embeds", "[]", "this server accepts text and token ids"},
      {"guided_whitespace_pattern", "[]",
       "this server writes JSON with one optional space after commas and colons"},
      // SGLang
      {"custom_logit_processor", "[]", kProcessor},
      {"lora_path", "[]", kAdapter},
      {"return_hidden_states", "[]", "this server returns no hidden states"},
      {"token_ids_logprob", "[]", kLogprobs},
      {"session_params", "[]", "this server has no sessions; send the complete text"},
      // OpenAI
      {"functions", "[]", kFunctions},
      {"function_call", R"(["none", "auto"])", kFunctions},
      {"modalities", R"([["text"]])", kTextOnly},
      {"audio", "[]", kTextOnly},
      {"web_search_options", "[]", kRunsNoTools},
      // Anthropic
      {"mcp_servers", "[]", kRunsNoTools},
      {"container", "[]", kRunsNoTools},
  };
  return fields;
}

std::optional<net::ApiError> FindRefusedField(const ordered_json& body) {
  NUMOE_CHECK(body.is_object());
  if (auto error = FindIn(body, "")) return error;
  const auto nested = body.find("sampling_params");
  if (nested != body.end()) {
    for (const ordered_json& fields : nested->is_array() ? *nested : ordered_json::array({*nested})) {
      if (!fields.is_object()) continue;
      if (auto error = FindIn(fields, "sampling_params.")) return error;
    }
  }
  return FindToolsOfMessages(body);
}

}  // namespace numoe::serving
