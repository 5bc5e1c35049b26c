// A checkpoint's chat template, which renders a conversation as prompt text, byte for byte like Hugging Face.
//
// The template is read from MODEL/chat_template.jinja, from chat_template in tokenizer_config.json, or from
// tokenizer.chat_template of a GGUF model. Rendering is bounded. Its result distinguishes text that the
// template wrote (trusted: it may contain control tokens) from text of the request. Errors of a template, or
// of its use by a request, are INVALID_ARGUMENT with line and reason. Known differences from Jinja2 in
// transformers' sandbox: lists may be changed by append, extend and pop, as published templates do; integers
// have 64 bits; errors inside a lazy result of a filter occur when the filter runs; random, urlize, lipsum,
// pprint of several lines, include, import and extends are refused with an error that names them. Immutable;
// Render may be called by any thread.
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
  nlohmann::ordered_json tools;     // null if there are no tools
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends at the end of the last message's content
  nlohmann::ordered_json kwargs;        // the request's chat_template_kwargs; null if it has none
  std::vector<std::pair<std::string, std::string>> role_tokens;  // ("bos_token", "[BOS]"), ...
};

class ChatTemplate {
 public:
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::filesystem::path& model);
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source,
                                                             const std::string& name);
  virtual ~ChatTemplate() = default;

  /// Renders a conversation. With continue_final_message the last message stays open, so that the model
  /// continues it; add_generation_prompt must then be false. INVALID_ARGUMENT means that there is no content
  /// to continue, or that the template does not print it unchanged.
  virtual absl::StatusOr<std::vector<TextSegment>> Render(const ChatTemplateInput& input) const = 0;
  virtual const std::string& source() const = 0;
};

}  // namespace numoe::text
