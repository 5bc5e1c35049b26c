#include "coordinator/serving/api/messages_request.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"
#include "coordinator/serving/api/thinking_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr size_t kStopSequencesMax = 16;

std::string TypeOf(const ordered_json& block) {
  if (!block.is_object()) return "";
  const auto type = block.find("type");
  return type != block.end() && type->is_string() ? type->get<std::string>() : "";
}

// The place of a block's type, or of the block itself if it is not an object.
std::string PlaceOfType(const ordered_json& block, const std::string& where) {
  return block.is_object() ? where + ".type" : where;
}

// Returns a field that a block must have; null after an error.
const std::string* Text(JsonFields& in, const ordered_json& block, const char* field,
                        const std::string& where) {
  const auto it = block.find(field);
  if (it != block.end() && it->is_string()) return it->get_ptr<const std::string*>();
  in.Fail(where + "." + field,
          it == block.end() ? "a string, found nothing" : "a string, found " + JsonFields::Short(*it));
  return nullptr;
}

// Reads a string, or joins blocks of text.
std::string TextContent(JsonFields& in, const ordered_json& content, const std::string& where,
                        const char* between) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    in.Fail(where, "a string or a list of blocks, found " + JsonFields::Short(content));
    return "";
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", where, i);
    if (TypeOf(content[i]) != "text") {
      in.Fail(
          PlaceOfType(content[i], place),
          "a block of type \"text\" (this model takes text only), found " + JsonFields::Short(content[i]));
      return "";
    }
    const std::string* part = Text(in, content[i], "text", place);
    if (part == nullptr) return "";
    text += (i > 0 ? between : "") + *part;
  }
  return text;
}

// Converts the messages of a conversation one after the other into the form that templates know.
class MessagesReader {
 public:
  explicit MessagesReader(JsonFields& in) : in_(in) {}

  void Add(const ordered_json& message, size_t index) {
    const std::string where = fmt::format("messages[{}]", index);
    if (!message.is_object()) return in_.Fail(where, "an object, found " + JsonFields::Short(message));
    const std::string* role = Text(in_, message, "role", where);
    if (role == nullptr) return;
    if (*role != "user" && *role != "assistant" && *role != "system")
      return in_.Fail(where + ".role",
                      "\"user\", \"assistant\" or \"system\", found " + JsonFields::Short(*role));
    const ordered_json content = message.value("content", ordered_json());
    const std::string place = where + ".content";
    if (*role == "system") {
      out_.push_back({{"role", "system"}, {"content", TextContent(in_, content, place, "\n")}});
    } else if (content.is_string()) {
      out_.push_back({{"role", *role}, {"content", content}});
    } else if (!content.is_array()) {
      in_.Fail(place, "a string or a list of blocks, found " + JsonFields::Short(content));
    } else {
      *role == "user" ? AddUser(content, place) : AddAssistant(content, place);
    }
  }

  ordered_json Take() { return std::move(out_); }

 private:
  // A user's message may contain tool results, each of which becomes a message.
  void AddUser(const ordered_json& content, const std::string& where) {
    std::string text;
    bool said = content.empty();
    const auto flush = [&] {
      if (std::exchange(said, false))
        out_.push_back({{"role", "user"}, {"content", std::exchange(text, "")}});
    };
    for (size_t i = 0; i < content.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", where, i);
      const std::string type = TypeOf(content[i]);
      if (type == "tool_result") {
        flush();
        AddToolResult(content[i], place);
      } else if (type == "text") {
        const std::string* part = Text(in_, content[i], "text", place);
        if (part == nullptr) return;
        text += *part;
        said = true;
      } else {
        return in_.Fail(PlaceOfType(content[i], place),
                        "a block of type text or tool_result (this model takes text only), found " +
                            JsonFields::Short(content[i]));
      }
    }
    flush();
  }

  void AddToolResult(const ordered_json& block, const std::string& where) {
    const std::string* id = Text(in_, block, "tool_use_id", where);
    if (id == nullptr) return;
    if (calls_.count(*id) == 0) {
      return in_.Fail(where + ".tool_use_id",
                      "the id of a tool_use block in an earlier message of the assistant, found " +
                          JsonFields::Short(*id));
    }
    std::string text;
    if (const auto content = block.find("content"); content != block.end() && !content->is_null())
      text = TextContent(in_, *content, where + ".content", "\n");
    // Templates have no field for errors, and the model must see them.
    if (block.value("is_error", ordered_json()) == true) text = "Error: " + text;
    out_.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", text}});
  }

  void AddAssistant(const ordered_json& content, const std::string& where) {
    std::string text, thinking;
    ordered_json calls = ordered_json::array();
    for (size_t i = 0; i < content.size(); ++i) {
      const std::string place = fmt::format("{}[{}]", where, i);
      const ordered_json& block = content[i];
      const std::string type = TypeOf(block);
      if (type == "text" || type == "thinking") {
        const std::string* part = Text(in_, block, type.c_str(), place);
        if (part == nullptr) return;
        (type == "text" ? text : thinking) += *part;
      } else if (type == "tool_use") {
        AddCall(block, place, calls);
      } else if (type != "redacted_thinking") {  // encrypted by another server, so it cannot be read
        return in_.Fail(PlaceOfType(block, place),
                        "a block of type text, thinking or tool_use, found " + JsonFields::Short(block));
      }
    }
    ordered_json message = {{"role", "assistant"}, {"content", text}};
    if (text.empty() && !calls.empty()) message["content"] = nullptr;
    if (!thinking.empty()) message["reasoning_content"] = thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    out_.push_back(std::move(message));
  }

  void AddCall(const ordered_json& block, const std::string& where, ordered_json& calls) {
    const std::string* id = Text(in_, block, "id", where);
    const std::string* name = Text(in_, block, "name", where);
    if (id == nullptr || name == nullptr) return;
    const ordered_json input = block.value("input", ordered_json::object());
    if (!input.is_object()) return in_.Fail(where + ".input", "an object, found " + JsonFields::Short(input));
    calls_.insert(*id);
    calls.push_back(
        {{"id", *id}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", input}}}});
  }

  JsonFields& in_;
  ordered_json out_ = ordered_json::array();
  std::unordered_set<std::string> calls_;  // ids
};

void ReadTools(JsonFields& in, Conversation& out) {
  const ordered_json* tools = in.Array("tools");
  if (tools == nullptr || tools->empty()) return;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    const ordered_json& tool = (*tools)[i];
    const std::string type = TypeOf(tool);
    if (!tool.is_object()) return in.Fail(where, "an object, found " + JsonFields::Short(tool));
    if (!type.empty() && type != "custom")
      return in.Fail(where + ".type", "\"custom\", because this server runs no tools itself, found " +
                                          JsonFields::Short(tool));
    if (!tool.contains("input_schema") || !tool["input_schema"].is_object())
      return in.Fail(where + ".input_schema", "a JSON Schema whose type is object");
    ordered_json function = ordered_json::object();
    for (const auto& [theirs, ours] : {std::pair{"name", "name"},
                                       {"description", "description"},
                                       {"input_schema", "parameters"},
                                       {"strict", "strict"}}) {
      if (tool.contains(theirs)) function[ours] = tool[theirs];
    }
    out.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
}

// The types auto, any, tool and none correspond to OpenAI's auto, required, a named function and none.
void ReadChoice(JsonFields& in, Conversation& out) {
  const ordered_json* choice = in.Object("tool_choice");
  const DeclarationPlaces places = {.function = "", .parameters = ".input_schema"};
  if (choice == nullptr) return ReadCalls(in, places, nullptr, true, out);
  JsonFields inner(*choice, "tool_choice.");
  bool single = false;
  std::string name;
  inner.Bool("disable_parallel_tool_use", single);
  inner.String("name", name);
  in.Take(inner);
  const std::string type = TypeOf(*choice);
  ordered_json openai = type == "any" ? "required" : type;
  if (type == "tool") openai = {{"type", "function"}, {"function", {{"name", name}}}};
  if (type != "auto" && type != "none" && type != "any" && (type != "tool" || name.empty())) {
    return in.Fail("tool_choice",
                   "a type of auto, any, tool (with a name) or none, found " + JsonFields::Short(*choice));
  }
  ReadCalls(in, places, &openai, !single, out);
}

// `output_format` is the name of the field in the beta of the API.
void ReadOutputFormat(JsonFields& in, GenerationRequest& out) {
  if (const ordered_json* config = in.Object("output_config"); config != nullptr) {
    const auto format = config->find("format");
    if (format != config->end() && !format->is_null()) ReadFormat(in, "output_config.format", *format, out);
  }
  if (const ordered_json* format = in.Get("output_format"); format != nullptr)
    ReadFormat(in, "output_format", *format, out);
}

}  // namespace

void ReadMessagesConversation(JsonFields& in, GenerationRequest& out) {
  Conversation& c = out.conversation.emplace();
  out.prompt_param = "messages";
  out.errors = net::ErrorShape::kAnthropic;
  const ordered_json* messages = in.Get("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return in.Fail("messages", "a list with at least one message, found " +
                                   (messages == nullptr ? "nothing" : JsonFields::Short(*messages)));
  }
  c.messages = ordered_json::array();
  if (const ordered_json* system = in.Get("system"); system != nullptr) {
    std::string text = TextContent(in, *system, "system", "\n");
    if (!text.empty()) c.messages.push_back({{"role", "system"}, {"content", std::move(text)}});
  }
  MessagesReader reader(in);
  for (size_t i = 0; i < messages->size() && !in.error(); ++i) reader.Add((*messages)[i], i);
  for (ordered_json& message : reader.Take()) c.messages.push_back(std::move(message));
  if (in.error()) return;
  // A last message of the assistant is continued.
  const ordered_json& last = c.messages.back();
  c.continue_final_message =
      last["role"] == "assistant" && !last.contains("tool_calls") && last["content"] != "";
  c.add_generation_prompt = !c.continue_final_message;
  ReadTools(in, c);
  ReadChoice(in, c);
  ReadThinking(in, out, UnaskedThinking::kOff);
}

std::variant<GenerationRequest, net::ApiError> ReadMessagesRequest(const ordered_json& body,
                                                                   const GenerationDefaults& defaults) {
  GenerationRequest out;
  SetSamplingDefaults(defaults, out);
  JsonFields in(body);
  RefuseInnerSampling(in);
  ReadCommon(in, out);
  in.Bool("stream", out.stream);
  ReadSampling(in, out);
  if (out.n != 1) in.Fail("n", "1, because a message is one answer");
  if (out.best_of != out.n) in.Fail("best_of", "1, because a message is one answer");
  out.n = out.best_of = 1;
  if (in.Get("max_tokens") == nullptr) in.Fail("max_tokens", "an integer of at least 1, found nothing");
  in.Number("max_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  in.Strings("stop_sequences", kStopSequencesMax, out.stop);
  for (const char* name : {"max_completion_tokens", "max_output_tokens", "n_predict"})
    in.Misplaced(name, "max_tokens");
  ReadStructure(in, out);
  ReadOutputFormat(in, out);
  ReadMessagesConversation(in, out);
  if (in.error()) return *in.error();
  out.ignored_fields = IgnoredFields(in);
  return out;
}

}  // namespace numoe::serving
