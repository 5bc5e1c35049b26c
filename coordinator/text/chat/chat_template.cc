#include "coordinator/text/chat/chat_template.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/gguf_model.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"
#include "coordinator/text/chat/jinja_interpreter.h"
#include "coordinator/text/chat/jinja_json.h"
#include "coordinator/text/chat/jinja_parser.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text {
namespace {

constexpr char kGgufKey[] = "tokenizer.chat_template";

// Marks the end of the content to continue, like transformers' apply_chat_template. A template that trims
// content also removes the space at the end of the mark, which shows that it trims.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kContinueWord = kContinueTag.substr(0, kContinueTag.size() - 1);
static_assert(kContinueTag.back() == ' ' && kContinueWord.back() != ' ');

class JinjaTemplate final : public ChatTemplate {
 public:
  JinjaTemplate(jinja::Block block, std::string source)
      : block_(std::move(block)), source_(std::move(source)) {}

  // Errors go to clients, so they do not contain the path of the template on this server.
  absl::StatusOr<std::vector<TextSegment>> Render(const ChatTemplateInput& input) const override {
    absl::StatusOr<jinja::Str> text =
        input.continue_final_message ? RenderOpen(input) : RenderMessages(input, input.messages);
    if (!text.ok()) return text.status();
    return text->Segments();
  }
  const std::string& source() const override { return source_; }

 private:
  absl::StatusOr<jinja::Str> RenderMessages(const ChatTemplateInput& input,
                                            const nlohmann::ordered_json& messages) const {
    std::map<std::string, jinja::Value> variables;
    for (const auto& [role, token] : input.role_tokens) variables[role] = jinja::Value::Text(token);
    variables["messages"] = jinja::FromJson(messages);
    variables["tools"] = jinja::FromJson(input.tools);
    variables["documents"] = jinja::Value(jinja::None{});
    variables["add_generation_prompt"] = jinja::Value(input.add_generation_prompt);
    if (input.kwargs.is_object()) {
      for (const auto& [key, value] : input.kwargs.items()) variables[key] = jinja::FromJson(value);
    }
    return jinja::Interpreter(std::move(variables)).Render(block_);
  }

  absl::StatusOr<jinja::Str> RenderOpen(const ChatTemplateInput& input) const {
    if (input.add_generation_prompt) {
      return absl::InvalidArgumentError(
          "continue_final_message and add_generation_prompt: expected only one of the two");
    }
    const bool has_content = input.messages.is_array() && !input.messages.empty() &&
                             input.messages.back().is_object() && input.messages.back().contains("content") &&
                             input.messages.back()["content"].is_string();
    if (!has_content)
      return absl::InvalidArgumentError(
          "continue_final_message: expected a last message with text as content");
    nlohmann::ordered_json messages = input.messages;
    auto& content = messages.back()["content"].get_ref<std::string&>();
    const std::string message = content;
    content += kContinueTag;
    ASSIGN_OR_RETURN(const jinja::Str rendered, RenderMessages(input, messages));
    const std::string_view text = rendered.text();
    const size_t tag = text.rfind(kContinueWord);
    if (tag == std::string_view::npos ||
        text.find(jinja::StripSpace(message, true, true)) == std::string_view::npos) {
      return absl::InvalidArgumentError(
          "continue_final_message: the template changes the last message's content, expected content that it "
          "prints "
          "unchanged");
    }
    const bool keeps_space = text.substr(tag, kContinueTag.size()) == kContinueTag;
    return rendered.Substr(
        0, keeps_space ? tag : jinja::StripSpace(text.substr(0, tag), /*left=*/false, /*right=*/true).size());
  }

  const jinja::Block block_;
  const std::string source_;
};

absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadFromGguf(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const auto model, GgufModel::Open(file));
  const GgufValue* value = model->contents().Key(kGgufKey);
  if (value == nullptr) return absl::NotFoundError(fmt::format("{}: has no key {}", model->path(), kGgufKey));
  const std::string name = fmt::format("{}: key {}", model->path(), kGgufKey);
  if (const auto source = value->String()) return ChatTemplate::Parse(*source, name);
  return absl::InvalidArgumentError(fmt::format("{}: is {}, expected a string", name, value->Describe()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Parse(std::string_view source,
                                                                  const std::string& name) {
  absl::StatusOr<jinja::Block> block = jinja::Parse(source);
  if (!block.ok()) return Annotate(block.status(), name);
  return std::make_unique<JinjaTemplate>(*std::move(block), std::string(source));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::filesystem::path& dir) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> gguf, GgufModel::Locate(dir));
  if (gguf) return LoadFromGguf(*gguf);
  const std::filesystem::path file = dir / "chat_template.jinja";
  if (std::filesystem::exists(file)) {
    ASSIGN_OR_RETURN(const std::string source, ReadTextFile(file, limits::kJsonFileBytesMax));
    return Parse(source, file.string());
  }
  const std::string path = (dir / "tokenizer_config.json").string();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(const nlohmann::json config, ParseStrictJson(text, path));
  const auto entry = config.find("chat_template");
  if (entry != config.end() && entry->is_string())
    return Parse(entry->get<std::string>(), path + " chat_template");
  if (entry != config.end() && entry->is_array()) {  // several, by name
    for (const nlohmann::json& named : *entry) {
      if (named.is_object() && named.value("name", "") == "default" && named.contains("template") &&
          named["template"].is_string()) {
        return Parse(named["template"].get<std::string>(), path + " chat_template default");
      }
    }
  }
  return absl::NotFoundError(fmt::format(
      "{}: expected chat_template.jinja, or chat_template in tokenizer_config.json", dir.string()));
}

}  // namespace numoe::text
