// GenerationRequest: what a client asks the model for, whichever API it speaks.
//
// Filled by the reader of a dialect (openai_request.h, responses_request.h, messages_request.h,
// native_request.h), which has checked every field. A conversation or prompts, never both. Value.
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

/// What the chat template is given.
struct Conversation {
  nlohmann::ordered_json messages;  // normalised (chat_messages.h)
  nlohmann::ordered_json tools;     // null: none, or they must not be called
  CallPolicy calls;                 // which of them may be called
  nlohmann::ordered_json template_kwargs;
  int calls_left_out = 0;      // made in messages that were left out; later ones are numbered after them
  bool has_documents = false;  // in template_kwargs, by the request's own field
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

/// Text, or token ids if `tokens` is not empty.
struct Prompt {
  std::string text;
  std::vector<TokenId> tokens;
};

/// Which part of a prompt that is too long the model sees.
struct Truncation {
  int64_t tokens = 0;       // at most; 0: nothing is cut off; -1: as many as fit beside max_tokens
  bool keep_first = false;  // or the last
  bool messages = false;    // whole messages are left out, from the oldest on (conversation_window.h)
};

/// What the model does where a request says nothing of thinking.
enum class UnaskedThinking : uint8_t {
  kAsTrained,  // what its template does by itself
  kOff,        // no thinking, and none is shown of a model that cannot do without (Anthropic's default)
};

struct GenerationRequest {
  std::string model;  // as asked; empty: not given
  std::optional<Conversation> conversation;
  std::vector<Prompt> prompts;  // each answered by itself
  std::string prompt_param;     // the field that the conversation or the prompts came in
  net::ErrorShape errors = net::ErrorShape::kOpenAi;  // whose words an error is said in

  int n = 1;              // answers for each
  int best_of = 1;        // generated for each, of which the n likeliest are given
  bool echo = false;      // of completions: the answer begins with the prompt
  std::string echo_text;  // of a conversation: with what the final message says already
  engine::SamplingParams sampling;
  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string is part of the answer
  std::vector<text::StopPattern> stop_patterns;
  std::vector<std::string> bad_words;  // are nowhere in what is generated
  Truncation truncation;
  std::optional<int> thinking_budget;  // tokens of reasoning, at most
  std::string thinking_budget_param;   // the field that asked for it
  bool skip_special_tokens = true;
  bool add_special_tokens = true;  // text begins with what the model's texts begin with (Tokenizer)
  std::string cache_salt;
  int priority = 0;
  std::optional<double> timeout_s;
  std::string request_id;                        // the client's own; empty: made here
  std::optional<text::GrammarSource> structure;  // what the answer's text must match
  std::string structure_param;                   // the field that asked for it

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // in every event
  bool return_token_ids = false;
  bool logprob_texts = false;  // /generate: log-probabilities have the tokens' texts
  bool counted_only = false;   // the prompt is counted, and may be longer than the context
  bool tokens_as_ids = false;  // log-probabilities name tokens "token_id:123"
  bool include_reasoning = true;
  bool separate_reasoning = true;  // false: it stays in the content, between its marks
  bool list_answer = false;        // /generate: a list, even of one
  int logprob_start = -1;          // /generate: where in the prompt log-probabilities begin; -1: behind it
};

}  // namespace numoe::serving
