#include "coordinator/http/completion_request.h"

#include <fmt/format.h>

#include <optional>

#include "common/weights/json_reader.h"
#include "coordinator/chat/chat_messages.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

constexpr int kStopStringsMax = 16;
constexpr size_t kCacheSaltBytesMax = 1024;
constexpr int kCompletionTokensDefault = 16;  // OpenAI's default for /v1/completions

// Typed access to fields; keeps the first error.
class Reader {
 public:
  explicit Reader(const ordered_json& root) : root_(root) {}

  const ordered_json* Get(const char* name) const {
    const auto it = root_.find(name);
    return it == root_.end() || it->is_null() ? nullptr : &*it;
  }
  void Fail(const std::string& name, const std::string& expected) {
    if (!error_) error_ = BadRequest(name, fmt::format("'{}': expected {}", name, expected));
  }
  template <typename T>
  void Number(const char* name, double low, double high, T& out) {
    const ordered_json* value = Get(name);
    if (value == nullptr) return;
    const bool whole = std::is_integral_v<T>;
    if (!(whole ? value->is_number_integer() : value->is_number()) ||
        !(value->get<double>() >= low && value->get<double>() <= high)) {
      return Fail(name, fmt::format("{} from {} to {}, found {}", whole ? "an integer" : "a number", low,
                                    high, value->dump().substr(0, 60)));
    }
    out = value->get<T>();
  }
  void Bool(const char* name, bool& out) {
    const ordered_json* value = Get(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(name, "true or false, found " + value->dump().substr(0, 60));
    out = value->get<bool>();
  }
  void String(const char* name, std::string& out) {
    const ordered_json* value = Get(name);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(name, "a string, found " + value->dump().substr(0, 60));
    out = value->get<std::string>();
  }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const ordered_json& root_;
  std::optional<ApiError> error_;
};

void ReadSampling(Reader& in, CompletionRequest& out) {
  SamplingParams& s = out.sampling;
  in.Number("temperature", 0, 2, s.temperature);
  in.Number("top_p", 0, 1, s.top_p);
  int top_k = s.top_k;
  in.Number("top_k", -1, 1e6, top_k);
  s.top_k = top_k < 0 ? 0 : top_k;
  in.Number("min_p", 0, 1, s.min_p);
  if (in.Get("seed") != nullptr) {
    int64_t seed = 0;
    in.Number("seed", -9.2e18, 9.2e18, seed);
    s.seed = static_cast<uint64_t>(seed);
  }
  const char* limit =
      out.chat && in.Get("max_completion_tokens") != nullptr ? "max_completion_tokens" : "max_tokens";
  out.max_tokens_given = in.Get(limit) != nullptr;
  s.max_tokens = out.chat ? INT32_MAX : kCompletionTokensDefault;
  in.Number(limit, 1, INT32_MAX, s.max_tokens);
  in.Bool("ignore_eos", s.ignore_eos);
  int n = 1;
  in.Number("n", 1, 1e6, n);
  if (n != 1) in.Fail("n", "1 (more choices than one are not served)");
}

void ReadStop(Reader& in, CompletionRequest& out) {
  if (const ordered_json* stop = in.Get("stop"); stop != nullptr) {
    const ordered_json list = stop->is_string() ? ordered_json::array({*stop}) : *stop;
    if (!list.is_array() || list.size() > kStopStringsMax)
      return in.Fail("stop", fmt::format("a string or a list of at most {} strings", kStopStringsMax));
    for (const ordered_json& text : list) {
      if (!text.is_string() || text.get_ref<const std::string&>().empty())
        return in.Fail("stop", "strings that are not empty");
      out.stop.push_back(text.get<std::string>());
    }
  }
  if (const ordered_json* ids = in.Get("stop_token_ids"); ids != nullptr) {
    if (!ids->is_array()) return in.Fail("stop_token_ids", "a list of token ids");
    for (const ordered_json& id : *ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
        return in.Fail("stop_token_ids", "token ids");
      out.sampling.stop_token_ids.push_back(id.get<TokenId>());
    }
  }
}

void ReadPrompt(Reader& in, CompletionRequest& out) {
  const ordered_json* prompt = in.Get("prompt");
  if (prompt == nullptr) return in.Fail("prompt", "a string or a list of token ids, found nothing");
  const ordered_json* one = prompt;
  if (prompt->is_array() && prompt->size() == 1 && ((*prompt)[0].is_string() || (*prompt)[0].is_array()))
    one = &(*prompt)[0];
  if (one->is_string()) {
    out.prompt = one->get<std::string>();
    return;
  }
  if (!one->is_array()) return in.Fail("prompt", "a string or a list of token ids");
  for (const ordered_json& id : *one) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      return in.Fail("prompt", "one prompt: a string or a list of token ids");
    out.prompt_tokens.push_back(id.get<TokenId>());
  }
}

void ReadChat(Reader& in, CompletionRequest& out) {
  const ordered_json* messages = in.Get("messages");
  if (messages == nullptr) return in.Fail("messages", "a list of messages, found nothing");
  absl::StatusOr<ordered_json> normalised = NormaliseMessages(*messages);
  if (!normalised.ok())
    return in.Fail("messages", "well-formed messages: " + std::string(normalised.status().message()));
  out.messages = *std::move(normalised);
  if (const ordered_json* tools = in.Get("tools"); tools != nullptr) {
    if (!tools->is_array()) return in.Fail("tools", "a list of tools");
    if (!tools->empty()) out.tools = *tools;
  }
  if (const ordered_json* choice = in.Get("tool_choice"); choice != nullptr) {
    if (*choice != "none" && *choice != "auto")
      return in.Fail("tool_choice",
                     "\"none\" or \"auto\" (calls are not forced), found " + choice->dump().substr(0, 60));
    // The model cannot call what it is not shown.
    if (*choice == "none") out.tools = nullptr;
  }
  in.Bool("parallel_tool_calls", out.parallel_tool_calls);
  if (const ordered_json* kwargs = in.Get("chat_template_kwargs"); kwargs != nullptr) {
    if (!kwargs->is_object()) return in.Fail("chat_template_kwargs", "an object");
    out.template_kwargs = *kwargs;
  }
}

// The ways of asking for structured output, of which a request may use one.
class StructureReader {
 public:
  StructureReader(Reader& in, CompletionRequest& out) : in_(in), out_(out) {}

  void ReadAll() {
    ReadResponseFormat();
    if (const ordered_json* outputs = in_.Get("structured_outputs"); outputs != nullptr) {  // vLLM
      if (!outputs->is_object()) return in_.Fail("structured_outputs", "an object");
      for (const auto& [key, kind] : {std::pair{"json", Kind::kJsonSchema},
                                      {"json_object", Kind::kJsonObject},
                                      {"regex", Kind::kRegex},
                                      {"choice", Kind::kChoice},
                                      {"grammar", Kind::kEbnf}}) {
        if (outputs->contains(key)) Take("structured_outputs", kind, (*outputs)[key]);
      }
    }
    for (const auto& [name, kind] :  // vLLM's former names, and SGLang's
         {std::pair{"guided_json", Kind::kJsonSchema},
          {"guided_regex", Kind::kRegex},
          {"guided_choice", Kind::kChoice},
          {"guided_grammar", Kind::kEbnf},
          {"json_schema", Kind::kJsonSchema},
          {"regex", Kind::kRegex},
          {"ebnf", Kind::kEbnf}}) {
      if (const ordered_json* value = in_.Get(name); value != nullptr) Take(name, kind, *value);
    }
  }

 private:
  using Kind = GrammarSource::Kind;

  void ReadResponseFormat() {
    const ordered_json* format = in_.Get("response_format");
    if (format == nullptr) return;
    const std::string type = format->is_object() ? format->value("type", ordered_json()).dump() : "";
    if (type == "\"text\"") return;
    if (type == "\"json_object\"") return Take("response_format", Kind::kJsonObject, true);
    if (type != "\"json_schema\"")
      return in_.Fail("response_format",
                      "a type of text, json_object or json_schema, found " + Short(*format));
    const ordered_json inner = format->value("json_schema", ordered_json());
    if (!inner.is_object() || !inner.contains("schema"))
      return in_.Fail("response_format",
                      "json_schema.schema beside type json_schema, found " + Short(*format));
    Take("response_format", Kind::kJsonSchema, inner["schema"]);
  }

  void Take(const char* param, Kind kind, const ordered_json& value) {
    if (value.is_null() || (kind == Kind::kJsonObject && value == false)) return;
    if (out_.structure) {
      return in_.Fail(param, fmt::format("one kind of structured output in a request, found {} as well",
                                         out_.structure_param));
    }
    out_.structure_param = param;
    switch (kind) {
      case Kind::kJsonObject:
        out_.structure = GrammarSource{kind, ""};
        break;
      case Kind::kJsonSchema:  // as an object, or as its text
        if (!value.is_object() && !value.is_boolean() && !value.is_string())
          return in_.Fail(param, "a JSON Schema, found " + Short(value));
        out_.structure = GrammarSource{kind, value.is_string() ? value.get<std::string>() : value.dump()};
        break;
      case Kind::kChoice:
        if (!value.is_array()) return in_.Fail(param, "a list of strings, found " + Short(value));
        out_.structure = GrammarSource{kind, value.dump()};
        break;
      case Kind::kRegex:
      case Kind::kEbnf:
        if (!value.is_string()) return in_.Fail(param, "a string, found " + Short(value));
        out_.structure = GrammarSource{kind, value.get<std::string>()};
        break;
    }
  }

  static std::string Short(const ordered_json& value) { return value.dump().substr(0, 60); }

  Reader& in_;
  CompletionRequest& out_;
};

}  // namespace

std::variant<CompletionRequest, ApiError> ParseCompletionRequest(std::string_view body, bool chat,
                                                                 const GenerationDefaults& defaults) {
  const absl::StatusOr<ordered_json> parsed = ParseBoundedJson(body);
  if (!parsed.ok()) return BadRequest("", "the body is " + std::string(parsed.status().message()));
  const ordered_json& root = *parsed;
  if (!root.is_object()) return BadRequest("", "the body must be a JSON object");
  CompletionRequest out;
  out.chat = chat;
  out.sampling.temperature = defaults.temperature;
  out.sampling.top_p = defaults.top_p;
  out.sampling.top_k = defaults.top_k;
  out.sampling.min_p = defaults.min_p;
  Reader in(root);
  in.String("model", out.model);
  in.Bool("stream", out.stream);
  if (const ordered_json* options = in.Get("stream_options"); options != nullptr) {
    if (!options->is_object()) in.Fail("stream_options", "an object");
    Reader inner(*options);
    inner.Bool("include_usage", out.include_usage);
    if (inner.error()) return *inner.error();
  }
  in.String("cache_salt", out.cache_salt);
  if (out.cache_salt.size() > kCacheSaltBytesMax)
    in.Fail("cache_salt", fmt::format("at most {} bytes", kCacheSaltBytesMax));
  ReadSampling(in, out);
  ReadStop(in, out);
  StructureReader(in, out).ReadAll();
  chat ? ReadChat(in, out) : ReadPrompt(in, out);
  if (in.error()) return *in.error();
  return out;
}

}  // namespace numoe
