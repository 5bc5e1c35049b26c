#include "common/json/json_reader.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace numoe {
namespace {

constexpr size_t kDepthMax = 64;
constexpr size_t kClientDepthMax = 100;
constexpr int kClientKeysMax = 2000;
// 100 times this number take a second at most; a conversation of 50,000 messages has fewer.
constexpr int kClientAllKeysMax = 200'000;
constexpr size_t kMessageBytesMax = 200;

std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

std::string Cut(std::string text) {
  if (text.size() <= kMessageBytesMax) return text;
  size_t end = kMessageBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u)
    --end;  // not inside a character
  return text.substr(0, end) + "...";
}

// The first pass only checks for syntax errors, duplicate keys and depth, so that the second pass cannot
// fail.
class StrictChecker : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& key) override {
    NUMOE_DCHECK(!keys_.empty());
    if (keys_.back().insert(key).second) return true;
    error_ = fmt::format("key \"{}\" occurs twice, expected once", Printable(key));
    return false;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& exception) override {
    const std::string_view what =
        exception.what();  // "[id] parse error at line 1, column 2: what was found and expected"
    const size_t colon = what.find(": ");
    error_ = fmt::format("not valid JSON at byte {}: {}", position,
                         Printable(colon == std::string_view::npos ? what : what.substr(colon + 2)));
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  bool Open() {
    keys_.emplace_back();
    if (keys_.size() <= kDepthMax) return true;
    error_ = fmt::format("nested deeper than expected, at most {} levels", kDepthMax);
    return false;
  }
  bool Close() {
    NUMOE_DCHECK(!keys_.empty());
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;
  std::string error_;
};

// Checks only brackets, and colons outside strings. So the parser that follows is safe with any text.
absl::Status CheckBounds(std::string_view text) {
  std::vector<int> keys;  // for each open bracket
  int all_keys = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      keys.push_back(0);
      if (keys.size() > kClientDepthMax)
        return absl::InvalidArgumentError(fmt::format("nested deeper than {} levels", kClientDepthMax));
    } else if ((c == '}' || c == ']') && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty()) {
      if (++keys.back() > kClientKeysMax)
        return absl::InvalidArgumentError(fmt::format("an object of more than {} keys", kClientKeysMax));
      if (++all_keys > kClientAllKeysMax) {
        return absl::InvalidArgumentError(
            fmt::format("objects of more than {} keys together", kClientAllKeysMax));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view file) {
  StrictChecker checker;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", file, checker.error().empty() ? "not valid JSON" : checker.error()));
  }
  nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  NUMOE_DCHECK(!json.is_discarded());
  return json;
}

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string Printable(std::string_view text) {
  const std::string quoted = Dump(std::string(text));
  NUMOE_DCHECK(quoted.size() >= 2 && quoted.front() == '"' && quoted.back() == '"');
  return Cut(quoted.substr(1, quoted.size() - 2));
}

std::string Brief(const nlohmann::json& value) { return Cut(Dump(value)); }

absl::StatusOr<nlohmann::ordered_json> ParseBoundedJson(std::string_view text) {
  if (const absl::Status status = CheckBounds(text); !status.ok()) return status;
  nlohmann::ordered_json json =
      nlohmann::ordered_json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    if (text.empty()) return absl::InvalidArgumentError("empty, expected JSON");
    StrictChecker checker;  // knows where the error is
    nlohmann::json::sax_parse(text.begin(), text.end(), &checker);
    const bool knows = checker.error().starts_with("not valid JSON");
    return absl::InvalidArgumentError(knows ? checker.error() : "not valid JSON");
  }
  return json;
}

}  // namespace numoe
