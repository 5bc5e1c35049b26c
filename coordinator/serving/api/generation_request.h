// GenerationRequest: what a client asks the model for, the same for all APIs.
//
// Filled by the reader of a dialect (openai_request.h, responses_request.h, messages_request.h,
// native_request.h), which has checked every field. It has a conversation or prompts, never both. Value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/net/http/api_error.h"
#include "coordinator/serving/api/tool_choice.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "coordinator/text/grammar/pattern_search.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

/// The input of the chat template.
struct Conversation {
  nlohmann::ordered_json messages;  // normalised (chat_messages.h)
  nlohmann::ordered_json tools;     // null if there are none, or they must not be called
  CallPolicy calls;                 // the tools that may be called
  nlohmann::ordered_json template_kwargs;
  int calls_left_out = 0;      // calls in messages that were left out; later calls are numbered after them
  bool has_documents = false;  // template_kwargs has the documents of the request's own field
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

/// Text, or token ids if `tokens` is not empty.
struct Prompt {
  std::string text;
  std::vector<TokenId> tokens;
};

/// The part of a prompt that the model sees if it is too long.
struct Truncation {
  int64_t tokens = 0;       // maximum length; 0: no limit; -1: as many as fit together with max_tokens
  bool keep_first = false;  // keeps the first tokens instead of the last ones
  bool messages = false;    // leaves out whole messages, beginning with the oldest (conversation_window.h)
};

/// Whether the model thinks if the request does not mention thinking.
enum class UnaskedThinking : uint8_t {
  kAsTrained,  // the default of its template
  kOff,        // no; the thinking of a model that always thinks is not shown (Anthropic's default)
};

struct GenerationRequest {
  std::string model;  // the name in the request; empty if it has none
  std::optional<Conversation> conversation;
  std::vector<Prompt> prompts;  // each is answered separately
  std::string prompt_param;     // the field that contained the conversation or the prompts
  net::ErrorShape errors = net::ErrorShape::kOpenAi;  // the API whose wording errors have

  int n = 1;              // answers for each prompt
  int best_of = 1;        // answers that are generated for each prompt; the n likeliest are returned
  bool echo = false;      // completions: the answer begins with the prompt
  std::string echo_text;  // conversations: the answer begins with this text of the final message
  engine::SamplingParams sampling;
  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string is part of the answer
  std::vector<text::StopPattern> stop_patterns;
  std::vector<std::string> bad_words;  // must not occur in anything that is generated
  Truncation truncation;
  std::optional<int> thinking_budget;  // maximum number of reasoning tokens
  std::string thinking_budget_param;   // the field that contained it
  bool skip_special_tokens = true;
  bool add_special_tokens = true;  // text gets the model's first token (Tokenizer::FirstToken)
  std::string cache_salt;
  int priority = 0;
  std::optional<double> timeout_s;
  std::string request_id;                        // the client's id; empty if the server makes one
  std::vector<std::string> ignored_fields;       // names of fields that had no effect (ignored_fields.h)
  std::optional<text::GrammarSource> structure;  // what the answer's text must match
  std::string structure_param;                   // the field that contained it

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // in every event
  bool return_token_ids = false;
  bool logprob_texts = false;  // /generate: log-probabilities contain the tokens' texts
  bool counted_only = false;   // the prompt is only counted, and may be longer than the context
  bool tokens_as_ids = false;  // log-probabilities name tokens "token_id:123"
  bool include_reasoning = true;
  bool separate_reasoning = true;  // false: the reasoning stays in the content, between its marks
  bool list_answer = false;        // /generate: the answer is a list, even with one element
  int logprob_start = -1;  // /generate: the first prompt token with log-probabilities; -1: after the prompt
};

}  // namespace numoe::serving
