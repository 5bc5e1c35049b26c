// A checkpoint's chat template: from a conversation to prompt text, byte for byte as Hugging Face renders it.
//
// Reads MODEL/chat_template.jinja, chat_template in tokenizer_config.json, or tokenizer.chat_template of a
// GGUF model. Rendering is bounded and its result says which text the template wrote (trusted: control
// tokens) and which came from the request. Errors of a template or of what a request makes it do are
// InvalidArgument with line and reason. Known differences from Jinja2 under transformers' sandbox: lists may
// be changed by append, extend and pop, as published templates do; integers have 64 bits; errors inside of
// what a filter gives lazily come when it is made; and random, urlize, lipsum, pprint of several lines,
// include, import and extends are refused by name. Immutable; Render from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/text_segment.h"
#include "nlohmann/json.hpp"

namespace numoe::text {

struct ChatTemplateInput {
  nlohmann::ordered_json messages;  // normalised (chat_messages.h)
  nlohmann::ordered_json tools;     // null: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends where the last message's content does
  nlohmann::ordered_json kwargs;        // the request's chat_template_kwargs; null: none
  std::vector<std::pair<std::string, std::string>> role_tokens;  // ("bos_token", "[BOS]"), ...
};

class ChatTemplate {
 public:
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::filesystem::path& model);
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source,
                                                             const std::string& name);
  virtual ~ChatTemplate() = default;

  /// continue_final_message leaves the last message open, so that the model goes on with it; it excludes
  /// add_generation_prompt. InvalidArgument where there is no content to go on with, or the template does not
  /// print it.
  virtual absl::StatusOr<std::vector<TextSegment>> Render(const ChatTemplateInput& input) const = 0;
  virtual const std::string& source() const = 0;
};

}  // namespace numoe::text
