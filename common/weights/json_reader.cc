#include "common/weights/json_reader.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

namespace numoe {
namespace {

constexpr size_t kDepthMax = 64;

// First pass: only looks for syntax errors, duplicate keys and depth, so that the second pass cannot fail.
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
    if (keys_.back().insert(key).second) return true;
    error_ = fmt::format("key \"{}\" occurs twice", key);
    return false;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    error_ = fmt::format("not valid JSON at byte {}", position);
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  bool Open() {
    keys_.emplace_back();
    if (keys_.size() <= kDepthMax) return true;
    error_ = fmt::format("nested deeper than {}", kDepthMax);
    return false;
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;
  std::string error_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, std::string_view file) {
  StrictChecker checker;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", file, checker.error().empty() ? "not valid JSON" : checker.error()));
  }
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace numoe
