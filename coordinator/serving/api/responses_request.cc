#include "coordinator/serving/api/responses_request.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"
#include "coordinator/serving/api/thinking_fields.h"
#include "coordinator/text/chat/chat_messages.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::string StringOf(const ordered_json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string TypeOf(const ordered_json& item) {
  if (!item.is_object()) return "";
  const std::string type = StringOf(item, "type");
  return type.empty() && item.contains("role") ? "message" : type;
}

// Reads a string, or parts of text.
std::string TextOf(JsonFields& in, const ordered_json& content, const std::string& where) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) {
    in.Fail(where, "a string or a list of parts, found " + JsonFields::Short(content));
    return text;
  }
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string type = TypeOf(content[i]), place = fmt::format("{}[{}]", where, i);
    const bool known = type == "input_text" || type == "output_text" || type == "text" ||
                       type == "reasoning_text" || type == "refusal";
    if (!known) {
      in.Fail(content[i].is_object() ? place + ".type" : place,
              "a part with text (this model takes text only), found " + JsonFields::Short(content[i]));
      return "";
    }
    // A refusal of the model in an earlier turn is a text that it said.
    const char* const field = type == "refusal" ? "refusal" : "text";
    if (!content[i].contains(field) || !content[i][field].is_string()) {
      in.Fail(place + "." + field, "a string, found " + JsonFields::Short(content[i]));
      return "";
    }
    text += content[i][field].get_ref<const std::string&>();
  }
  return text;
}

class ItemsReader {
 public:
  explicit ItemsReader(JsonFields& in) : in_(in) {}

  void Add(const ordered_json& item, const std::string& where) {
    const std::string type = TypeOf(item);
    if (type == "message") return AddMessage(item, where);
    if (type == "function_call") return AddCall(item, where);
    if (type == "function_call_output") return AddOutput(item, where);
    if (type == "reasoning") return AddReasoning(item, where);
    in_.Fail(item.is_object() ? where + ".type" : where,
             "an item of type message, function_call, function_call_output or reasoning, found " +
                 JsonFields::Short(item));
  }

  ordered_json Take() {
    Flush();
    return std::move(out_);
  }

 private:
  // One turn of the assistant consists of several items.
  void Flush() {
    if (!turn_.is_null()) out_.push_back(std::exchange(turn_, nullptr));
  }
  ordered_json& Turn() {
    if (turn_.is_null()) turn_ = {{"role", "assistant"}, {"content", nullptr}};
    return turn_;
  }

  void AddMessage(const ordered_json& item, const std::string& where) {
    const std::string role = StringOf(item, "role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      return in_.Fail(where + ".role", "user, assistant, system or developer, found " +
                                           JsonFields::Short(item.value("role", ordered_json())));
    std::string text = TextOf(in_, item.value("content", ordered_json()), where + ".content");
    if (role != "assistant") {
      Flush();
      out_.push_back({{"role", role}, {"content", std::move(text)}});
      return;
    }
    if (!turn_.is_null() && (!turn_["content"].is_null() || turn_.contains("tool_calls"))) Flush();
    Turn()["content"] = std::move(text);
  }

  void AddCall(const ordered_json& item, const std::string& where) {
    for (const char* field : {"call_id", "name", "arguments"}) {
      if (!item.contains(field) || !item[field].is_string()) return in_.Fail(where + "." + field, "a string");
    }
    calls_.insert(item["call_id"].get<std::string>());
    Turn()["tool_calls"].push_back(
        {{"id", item["call_id"]},
         {"type", "function"},
         {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
  }

  void AddOutput(const ordered_json& item, const std::string& where) {
    const std::string id = StringOf(item, "call_id");
    if (calls_.count(id) == 0) {
      return in_.Fail(where + ".call_id", "the id of an earlier function_call, found " +
                                              JsonFields::Short(item.value("call_id", ordered_json())));
    }
    Flush();
    out_.push_back({{"role", "tool"},
                    {"tool_call_id", id},
                    {"content", TextOf(in_, item.value("output", ordered_json()), where + ".output")}});
  }

  void AddReasoning(const ordered_json& item, const std::string& where) {
    Flush();
    const ordered_json content = item.value("content", ordered_json());
    if (content.is_null()) return;  // the reasoning is encrypted, or there is only a summary
    Turn()["reasoning_content"] = TextOf(in_, content, where + ".content");
  }

  JsonFields& in_;
  ordered_json out_ = ordered_json::array();
  ordered_json turn_;                      // the assistant's unfinished turn; null if there is none
  std::unordered_set<std::string> calls_;  // ids
};

template <size_t kCount>
ordered_json Known(const ordered_json& object, const std::string_view (&names)[kCount]) {
  ordered_json known = ordered_json::object();
  for (const auto& [name, value] : object.items()) {
    if (std::find(std::begin(names), std::end(names), name) != std::end(names)) known[name] = value;
  }
  return known;
}

// Returns the item with only the fields of OpenAI's description; others are accepted and not stored.
ordered_json KnownItem(const ordered_json& item) {
  static constexpr std::string_view kItem[] = {"type",    "id",        "status",           "role",
                                               "content", "summary",   "call_id",          "name",
                                               "output",  "arguments", "encrypted_content"};
  static constexpr std::string_view kPart[] = {"type", "text", "refusal", "annotations"};
  if (!item.is_object()) return item;
  ordered_json known = Known(item, kItem);
  for (const char* parts : {"content", "summary", "output"}) {
    const auto found = known.find(parts);
    if (found == known.end() || !found->is_array()) continue;
    for (ordered_json& part : *found) {
      if (part.is_object()) part = Known(part, kPart);
    }
  }
  return known;
}

void ReadInput(JsonFields& in, ResponsesFields& fields) {
  const ordered_json* input = in.Get("input");
  if (input == nullptr) return in.Fail("input", "a string or a list of items, found nothing");
  if (input->is_string()) {
    const ordered_json part = {{"type", "input_text"}, {"text", *input}};
    fields.input.push_back({{"type", "message"}, {"role", "user"}, {"content", ordered_json::array({part})}});
  } else if (input->is_array() && !input->empty()) {
    for (const ordered_json& item : *input) fields.input.push_back(KnownItem(item));
  } else {
    in.Fail("input", "a string or a list of items, found " + JsonFields::Short(*input));
  }
}

void ReadMessages(JsonFields& in, const ResponsesFields& fields, size_t history, Conversation& out) {
  ItemsReader reader(in);
  for (size_t i = 0; i < fields.input.size() && !in.error(); ++i)
    reader.Add(fields.input[i], i < history ? "previous_response_id" : fmt::format("input[{}]", i - history));
  ordered_json messages = ordered_json::array();
  std::string instructions;
  in.String("instructions", instructions);
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  for (ordered_json& message : reader.Take()) messages.push_back(std::move(message));
  if (in.error()) return;
  absl::StatusOr<ordered_json> normalised = text::NormaliseMessages(messages);
  if (!normalised.ok())
    return in.Fail("input", "well-formed items: " + std::string(normalised.status().message()));
  out.messages = *std::move(normalised);
}

void ReadTools(JsonFields& in, Conversation& out) {
  const ordered_json* tools = in.Array("tools");
  if (tools != nullptr) {
    for (const ordered_json& tool : *tools) {
      ordered_json declared = tool;
      if (tool.is_object()) {
        ordered_json function = tool;
        function.erase("type");
        declared = {{"type", tool.value("type", ordered_json())}, {"function", std::move(function)}};
      }
      out.tools.push_back(std::move(declared));
    }
  }
  bool parallel = true;
  in.Bool("parallel_tool_calls", parallel);
  ReadCalls(in, {.function = "", .parameters = ".parameters"}, in.Get("tool_choice"), parallel, out);
}

void ReadUnsupported(JsonFields& in, const GenerationRequest& request, const ResponsesFields& fields) {
  for (const char* name : {"conversation", "prompt"}) {
    if (in.Get(name) != nullptr)
      in.Fail(name, "no value, because this server stores none of them; send input");
  }
  if (fields.background && !fields.store)
    in.Fail("store", "true, because a response in the background is read later");
  if (fields.background && request.stream)
    in.Fail("stream", "false, because a response in the background is read by its id");
  const ordered_json* include = in.Array("include");
  if (include != nullptr &&
      std::find(include->begin(), include->end(), "message.output_text.logprobs") != include->end())
    in.Fail("include", "no log-probabilities; /v1/chat/completions has them");
}

void ReadResponsesTruncation(JsonFields& in, GenerationRequest& out) {
  std::string truncation;
  in.String("truncation", truncation);
  if (!truncation.empty() && truncation != "disabled" && truncation != "auto")
    in.Fail("truncation", "\"disabled\" or \"auto\", found " + JsonFields::Short(truncation));
  out.truncation.messages = truncation == "auto";
}

void ReadText(JsonFields& in, GenerationRequest& out) {
  const ordered_json* text = in.Object("text");
  if (text == nullptr) return;
  const auto format = text->find("format");
  if (format == text->end() || format->is_null()) return;
  ReadFormat(in, "text.format", *format, out);
  if (TypeOf(*format) == "json_schema" && !format->contains("name"))
    in.Fail("text.format.name", "the schema's name, found nothing");
}

// The fields of the request that OpenAI's response object repeats, even if the client has not sent them.
ordered_json Repeated(const JsonFields& in, const GenerationRequest& request, const ResponsesFields& fields) {
  const auto or_else = [&in](const char* name, ordered_json otherwise) {
    const ordered_json* value = in.Get(name);
    return value == nullptr ? std::move(otherwise) : *value;
  };
  return {{"background", fields.background},
          {"instructions", or_else("instructions", nullptr)},
          {"max_output_tokens", or_else("max_output_tokens", nullptr)},
          {"parallel_tool_calls", request.conversation->calls.parallel},
          {"previous_response_id", or_else("previous_response_id", nullptr)},
          {"reasoning", or_else("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", fields.store},
          {"temperature", request.sampling.temperature},
          {"text", or_else("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", or_else("tool_choice", "auto")},
          {"tools", or_else("tools", ordered_json::array())},
          {"top_p", request.sampling.top_p},
          {"truncation", or_else("truncation", "disabled")},
          {"user", or_else("user", nullptr)},
          {"metadata", or_else("metadata", ordered_json::object())}};
}

}  // namespace

std::variant<GenerationRequest, net::ApiError> ReadResponsesRequest(const ordered_json& body,
                                                                    const GenerationDefaults& defaults,
                                                                    const ResponseHistory& history,
                                                                    ResponsesFields& fields) {
  GenerationRequest out;
  SetSamplingDefaults(defaults, out);
  JsonFields in(body);
  RefuseInnerSampling(in);
  ReadCommon(in, out);
  in.Bool("stream", out.stream);
  in.Bool("store", fields.store);
  in.Bool("background", fields.background);
  in.Object("metadata");
  ReadSampling(in, out);
  if (out.n != 1) in.Fail("n", "1, because a response is one answer");
  if (out.best_of != out.n) in.Fail("best_of", "1, because a response is one answer");
  out.n = out.best_of = 1;
  out.sampling.max_tokens = std::nullopt;
  in.Number("max_output_tokens", 1, INT32_MAX, out.sampling.max_tokens);
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"})
    in.Misplaced(name, "max_output_tokens");
  in.Misplaced("stop_sequences", "stop");
  std::string previous;
  in.String("previous_response_id", previous);
  if (!previous.empty()) {
    auto items = history(previous);
    if (!items) {
      net::ApiError error =
          net::BadRequest("previous_response_id",
                          "there is no such response, or it is not complete: " + previous.substr(0, 100));
      error.code = "previous_response_not_found";
      return error;
    }
    fields.input = *std::move(items);
  }
  const size_t history_items = fields.input.size();
  Conversation& c = out.conversation.emplace();
  out.prompt_param = "input";
  ReadInput(in, fields);
  ReadMessages(in, fields, history_items, c);
  ReadTools(in, c);
  ReadThinking(in, out);
  ReadStructure(in, out);
  ReadText(in, out);
  ReadResponsesTruncation(in, out);
  ReadUnsupported(in, out, fields);
  if (in.error()) return *in.error();
  fields.repeated = Repeated(in, out, fields);
  out.ignored_fields = IgnoredFields(in);
  return out;
}

}  // namespace numoe::serving
