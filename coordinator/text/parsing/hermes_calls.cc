#include "coordinator/text/parsing/hermes_calls.h"

#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe::text {
namespace {

bool IsSpace(char c) { return kWhiteSpace.find(c) != std::string_view::npos; }

// If the string `text` contains a JSON object, as arguments are written in APIs, returns that object;
// otherwise `written`, the JSON of the string itself. Returns "" for white space.
std::string ArgumentsInString(const std::string& text, const std::string& written) {
  const std::string_view trimmed = Trimmed(text);
  if (trimmed.empty()) return "";
  const absl::StatusOr<nlohmann::ordered_json> json = ParseBoundedJson(trimmed);
  return json.ok() && json->is_object() ? std::string(trimmed) : written;
}

}  // namespace

void HermesCallReader::Begin() {
  text_.clear();
  at_ = At::kObject;
  name_.clear();
  arguments_.clear();
  announced_ = streams_ = false;
  trimmer_.Restart(/*keep_leading=*/false);
}

void HermesCallReader::Body(std::string_view text) {
  for (const char c : text) {
    if (!announced_) text_ += c;
    Step(c);
  }
  FlushStreamed();
}

void HermesCallReader::End(bool closed) {
  if (announced_) return;
  const bool named = !name_.empty() && at_ != At::kBroken;
  if (named && (closed || at_ == At::kAfter)) return Announce();
  if (closed || at_ == At::kBroken) sink_.NoCall(text_);
}

void HermesCallReader::Step(char c) {
  if (at_ == At::kInValue) return StepInValue(c);
  if (at_ == At::kInKey) {
    if (c == '"' && !escaped_) {
      at_ = At::kColon;
      return;
    }
    escaped_ = c == '\\' && !escaped_;
    key_ += c;
    return;
  }
  if (at_ == At::kAfter && c == '{' && !name_.empty()) BeginAnother();
  if (IsSpace(c) || at_ == At::kAfter || at_ == At::kBroken) return;
  if (at_ == At::kObject && c == '{') {
    at_ = At::kKey;
  } else if (at_ == At::kKey && c == '"') {
    at_ = At::kInKey;
    key_.clear();
    escaped_ = false;
  } else if (at_ == At::kKey && c == '}') {
    at_ = At::kAfter;
  } else if (at_ == At::kColon && c == ':') {
    at_ = At::kValue;
  } else if (at_ == At::kValue) {
    BeginValue(c);
  } else if (at_ != At::kKey || c != ',') {
    at_ = At::kBroken;
  }
}

// A second object between the same marks is a second call.
void HermesCallReader::BeginAnother() {
  if (!announced_) Announce();
  FlushStreamed();
  Begin();
  text_ = "{";
}

void HermesCallReader::FlushStreamed() {
  if (const std::string out = trimmer_.Push(std::exchange(streamed_, {}), /*hold_end=*/true); !out.empty())
    sink_.Arguments(out);
}

void HermesCallReader::BeginValue(char c) {
  NUMOE_DCHECK(at_ == At::kValue);
  at_ = c == ',' || c == '}' || c == ']' || c == ':' ? At::kBroken : At::kInValue;
  if (at_ == At::kBroken) return;
  value_.clear();
  in_string_ = escaped_ = false;
  depth_ = 0;
  field_ = key_ == "name"                                ? Field::kName
           : key_ == "arguments" || key_ == "parameters" ? Field::kArguments
                                                         : Field::kOther;
  // If a field occurs twice, the first one counts, because it may have been passed on already.
  const bool again = field_ == Field::kName ? !name_.empty() : announced_ || !arguments_.empty();
  if (again) field_ = Field::kOther;
  streams_ = field_ == Field::kArguments && c == '{' && !name_.empty();
  if (streams_) Announce();
  StepInValue(c);
}

void HermesCallReader::StepInValue(char c) {
  NUMOE_DCHECK(at_ == At::kInValue && depth_ >= 0);
  const bool scalar = !in_string_ && depth_ == 0 && !value_.empty();
  if (scalar && (c == ',' || c == '}' || IsSpace(c))) {
    EndValue();
    return Step(c);
  }
  (streams_ ? streamed_ : value_) += c;
  if (in_string_) {
    if (c == '"' && !escaped_) in_string_ = false;
    escaped_ = c == '\\' && !escaped_;
    if (in_string_ || depth_ > 0) return;
    return EndValue();
  }
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if ((c == '}' || c == ']') && --depth_ <= 0) {
    EndValue();
  }
}

void HermesCallReader::EndValue() {
  NUMOE_DCHECK(at_ == At::kInValue);
  at_ = At::kKey;
  if (std::exchange(streams_, false) || field_ == Field::kOther) return;
  const absl::StatusOr<nlohmann::ordered_json> json = ParseBoundedJson(value_);
  const bool text = json.ok() && json->is_string();
  if (field_ == Field::kName) {
    if (text) name_ = json->get<std::string>();
    if (name_.empty()) at_ = At::kBroken;
  } else {
    arguments_ = text ? ArgumentsInString(json->get_ref<const std::string&>(), value_) : value_;
    if (arguments_.empty() || arguments_ == "null") arguments_ = "{}";
  }
  if (at_ != At::kBroken && !name_.empty() && !arguments_.empty()) Announce();
}

void HermesCallReader::Announce() {
  NUMOE_CHECK(!announced_ && !name_.empty());
  sink_.BeginCall(name_);
  announced_ = true;
  text_.clear();
  if (!streams_) sink_.Arguments(arguments_.empty() ? "{}" : arguments_);
}

}  // namespace numoe::text
