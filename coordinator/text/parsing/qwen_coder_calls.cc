#include "coordinator/text/parsing/qwen_coder_calls.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/text/parsing/python_literal.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFunctionTag = "<function=", kFunctionEnd = "</function>";
constexpr std::string_view kParameterTag = "<parameter=", kParameterEnd = "</parameter>";
// The number of bytes that are held back to find out whether a tag ends a value; longer tags are text.
constexpr size_t kTagBytesMax = 256;
static_assert(kTagBytesMax > kParameterEnd.size() && kTagBytesMax > kFunctionEnd.size());

bool Begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
// Returns whether `text` is an incomplete `tag`.
bool IsPartOf(std::string_view text, std::string_view tag) {
  return text.size() < tag.size() && Begins(tag, text);
}

std::string Escaped(std::string_view text) {
  const std::string quoted =
      ordered_json(text).dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
  NUMOE_DCHECK(quoted.size() >= 2 && quoted.front() == '"' && quoted.back() == '"');
  return quoted.substr(1, quoted.size() - 2);
}

// Returns `text` without the one line break at its end, which the format adds.
std::string_view WithoutLineBreak(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

// Returns `text` as JSON of one of the types. The model sometimes writes Python literals, which are
// translated.
std::string Typed(std::string_view text, ValueTypes types) {
  const std::string_view trimmed = Trimmed(text);
  const auto fits = [types](std::string_view written) {
    const absl::StatusOr<ordered_json> json = ParseBoundedJson(written);
    return json.ok() && ((types & ValueTypeOf(*json)) != 0 || (types & kStringValue) == 0);
  };
  if (fits(trimmed)) return std::string(trimmed);
  if ((types & kBooleanValue) != 0) {
    std::string lower(trimmed.substr(0, 6));
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == "true" || lower == "false") return lower;
  }
  if (const std::optional<std::string> json = JsonOfPythonLiteral(trimmed); json && fits(*json)) return *json;
  return "\"" + Escaped(text) + "\"";
}

}  // namespace

void QwenCoderCallReader::Begin() {
  text_.clear();
  pending_.clear();
  at_ = At::kFunction;
  name_.clear();
  tool_ = nullptr;
  announced_ = false;
  unmarked_call_ = false;
  keys_.clear();
}

void QwenCoderCallReader::BeginUnmarked() {
  Begin();
  unmarked_call_ = true;
}

std::optional<std::string> QwenCoderCallReader::TakeRest() {
  NUMOE_DCHECK(unmarked_call_);
  if (at_ != At::kAfter) return std::nullopt;
  return std::exchange(pending_, {});
}

void QwenCoderCallReader::Body(std::string_view text) {
  if (!announced_) text_ += text;
  pending_ += text;
  while (Step()) {
  }
}

void QwenCoderCallReader::End(bool closed) {
  if (announced_) {
    if (!closed || at_ == At::kAfter) return;
    if (at_ == At::kValue) {
      const ValueEnd end = FindValueEnd();
      std::string_view rest = pending_;
      if (begun_ && Begins(rest.substr(end.text), kFunctionEnd)) rest = rest.substr(0, end.text);
      PushValue(WithoutLineBreak(rest));
      EndValue();
    }
    return Close();
  }
  const bool named = !name_.empty() && at_ != At::kBroken;
  if (named && closed) return Close();
  if (closed || at_ == At::kBroken) sink_.NoCall(text_);
}

bool QwenCoderCallReader::Step() {
  switch (at_) {
    case At::kFunction:
    case At::kBetween:
      return StepBetween();
    case At::kName:
      return StepName();
    case At::kKey:
      return StepKey();
    case At::kValue:
      return StepValue();
    case At::kAfter:
      return StepAfter();
    case At::kBroken:
      pending_.clear();
      return false;
  }
  return false;
}

// Finds another call between the same marks. Other text there is ignored.
bool QwenCoderCallReader::StepAfter() {
  if (unmarked_call_) return false;
  const size_t tag = pending_.find('<');
  pending_.erase(0, std::min(tag, pending_.size()));
  if (pending_.empty() || IsPartOf(pending_, kFunctionTag)) return false;
  if (Begins(pending_, kFunctionTag)) {
    std::string next = std::exchange(pending_, {});
    Begin();
    text_ = pending_ = std::move(next);
  } else {
    pending_.erase(0, 1);
  }
  return true;
}

bool QwenCoderCallReader::StepName() {
  NUMOE_DCHECK(at_ == At::kName);
  const size_t end = pending_.find_first_of(">\n");
  if (end == std::string::npos) return false;
  name_ = Trimmed(std::string_view(pending_).substr(0, end));
  at_ = pending_[end] == '>' && !name_.empty() ? At::kBetween : At::kBroken;
  pending_.erase(0, end + 1);
  for (const DeclaredTool& tool : tools_) {
    if (tool.name == name_) tool_ = &tool;
  }
  return true;
}

// Reads the text between tags, which should be only white space.
bool QwenCoderCallReader::StepBetween() {
  pending_.erase(0, std::min(pending_.find_first_not_of(kWhiteSpace), pending_.size()));
  if (pending_.empty()) return false;
  if (at_ == At::kFunction) {
    if (IsPartOf(pending_, kFunctionTag)) return false;
    at_ = Begins(pending_, kFunctionTag) ? At::kName : At::kBroken;
    if (at_ == At::kName) pending_.erase(0, kFunctionTag.size());
    return true;
  }
  if (IsPartOf(pending_, kParameterTag) || IsPartOf(pending_, kFunctionEnd)) return false;
  if (Begins(pending_, kParameterTag)) {
    pending_.erase(0, kParameterTag.size());
    at_ = At::kKey;
  } else if (Begins(pending_, kFunctionEnd)) {
    pending_.erase(0, kFunctionEnd.size());
    Close();
  } else {
    pending_.erase(0, pending_.find('<', 1));  // ignores other text and unknown tags
  }
  return true;
}

bool QwenCoderCallReader::StepKey() {
  NUMOE_DCHECK(at_ == At::kKey && !name_.empty());
  const size_t end = pending_.find_first_of(">\n");
  if (end == std::string::npos) return false;
  const std::string key(Trimmed(std::string_view(pending_).substr(0, end)));
  const bool complete = pending_[end] == '>' && !key.empty();
  pending_.erase(0, end + 1);
  at_ = complete ? At::kValue : At::kBetween;
  if (complete) BeginValue(key);
  return true;
}

bool QwenCoderCallReader::StepValue() {
  NUMOE_DCHECK(at_ == At::kValue);
  if (!begun_) {
    if (pending_.empty() || pending_ == "\r") return false;
    if (Begins(pending_, "\r\n")) {
      pending_.erase(0, 2);
    } else if (pending_[0] == '\n') {
      pending_.erase(0, 1);
    } else {
      in_line_ = true;
    }
    begun_ = true;
  }
  const ValueEnd end = FindValueEnd();
  const std::string_view text = std::string_view(pending_).substr(0, end.text);
  const std::string_view certain = WithoutLineBreak(text);
  PushValue(certain);
  if (!end.found) {
    pending_.erase(0, certain.size());
    return false;
  }
  NUMOE_DCHECK(end.text <= end.next && end.next <= pending_.size());
  pending_.erase(0, end.next);
  EndValue();
  at_ = At::kBetween;
  return true;
}

QwenCoderCallReader::ValueEnd QwenCoderCallReader::FindValueEnd() const {
  const std::string_view text = pending_;
  for (size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view tag = text.substr(at);
    if (Begins(tag, kParameterEnd)) return {at, at + kParameterEnd.size(), true};
    bool undecided = IsPartOf(tag, kParameterEnd) || IsPartOf(tag, kFunctionEnd);
    if (Begins(tag, kFunctionEnd)) {
      const size_t after = std::min(tag.find_first_not_of(kWhiteSpace, kFunctionEnd.size()), tag.size());
      const std::string_view next = tag.substr(after);
      if (!unmarked_call_ && Begins(next, kFunctionTag)) return {at, at, true};
      undecided =
          after <= kTagBytesMax && (next.empty() || (!unmarked_call_ && IsPartOf(next, kFunctionTag)));
    }
    const bool line =
        at > 0 && text[at - 1] == '\n';  // the line break is held back, so it is still in `text`
    if ((line || in_line_) && IsNextParameter(tag, undecided)) return {at, at, true};
    if (undecided) return {at, at, false};
  }
  return {text.size(), text.size(), false};
}

bool QwenCoderCallReader::IsNextParameter(std::string_view tag, bool& undecided) const {
  if (IsPartOf(tag, kParameterTag)) undecided = true;
  if (!Begins(tag, kParameterTag)) return false;
  const std::string_view head = tag.substr(0, kTagBytesMax);
  const size_t end = head.find_first_of(">\n");
  if (end == std::string_view::npos) {
    undecided = tag.size() < kTagBytesMax;
    return false;
  }
  const std::string_view key = Trimmed(head.substr(kParameterTag.size(), end - kParameterTag.size()));
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  return head[end] == '>' && !key.empty() && (tool_ == nullptr || has(tool_->properties)) && !has(keys_);
}

void QwenCoderCallReader::BeginValue(const std::string& key) {
  NUMOE_DCHECK(!key.empty());
  begun_ = in_line_ = false;
  value_.clear();
  dropped_ = std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  if (dropped_) return;  // the first value counts, because it has been passed on already
  types_ = 0;
  if (tool_ != nullptr) {
    if (const auto it = tool_->types.find(key); it != tool_->types.end()) types_ = it->second;
  }
  if (!announced_) Announce();
  const bool streams = types_ == 0 || types_ == kStringValue;
  sink_.Arguments((keys_.empty() ? "{\"" : ", \"") + Escaped(key) + (streams ? "\": \"" : "\": "));
  keys_.push_back(key);
}

void QwenCoderCallReader::PushValue(std::string_view text) {
  if (dropped_ || text.empty()) return;
  if (types_ == 0 || types_ == kStringValue) {
    sink_.Arguments(Escaped(text));
  } else {
    value_ += text;
  }
}

void QwenCoderCallReader::EndValue() {
  if (dropped_) return;
  sink_.Arguments(types_ == 0 || types_ == kStringValue ? "\"" : Typed(value_, types_));
}

void QwenCoderCallReader::Close() {
  NUMOE_DCHECK(at_ != At::kAfter);
  if (!announced_) Announce();
  sink_.Arguments(keys_.empty() ? "{}" : "}");
  at_ = At::kAfter;
}

void QwenCoderCallReader::Announce() {
  NUMOE_CHECK(!announced_ && !name_.empty());
  sink_.BeginCall(name_);
  announced_ = true;
  text_.clear();
}

}  // namespace numoe::text
