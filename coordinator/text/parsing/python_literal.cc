#include "coordinator/text/parsing/python_literal.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "common/base/check.h"
#include "coordinator/text/parsing/trimmer.h"
#include "nlohmann/json.hpp"

namespace numoe::text {
namespace {

constexpr int kLiteralDepthMax = 64;

void AppendUtf8(uint32_t point, std::string& out) {
  NUMOE_DCHECK_LE(point, 0x10FFFFu);
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  const int tail = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xFF00u >> (tail + 1) & 0xFFu) | point >> (6 * tail));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | (point >> (6 * i) & 0x3F));
}

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::optional<std::string> Read() {
    if (!ReadValue(0)) return std::nullopt;
    SkipSpace();
    return at_ == text_.size() ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipSpace() {
    while (at_ < text_.size() && kWhiteSpace.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool TakeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool ReadValue(int depth) {
    SkipSpace();
    if (depth > kLiteralDepthMax || at_ >= text_.size()) return false;
    const char c = text_[at_];
    if (c == '[' || c == '(') return ReadItems(c == '[' ? ']' : ')', depth);
    if (c == '{') return ReadDict(depth);
    if (c == '\'' || c == '"') return ReadString();
    static constexpr std::pair<std::string_view, std::string_view> kConstants[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (const auto& [python, json] : kConstants) {
      if (!TakeWord(python)) continue;
      out_ += json;
      return true;
    }
    return ReadNumber();
  }

  // Reads a list or a tuple. A tuple of one item needs a comma; (1) is a number.
  bool ReadItems(char close, int depth) {
    const size_t begin = out_.size();
    ++at_;
    out_ += '[';
    size_t count = 0;
    bool comma = true;
    while (!Take(close)) {
      if (!comma) return false;
      if (count++ > 0) out_ += ", ";
      if (!ReadValue(depth + 1)) return false;
      comma = Take(',');
    }
    if (close == ')' && count == 1 && !comma) {
      out_.erase(begin, 1);
    } else {
      out_ += ']';
    }
    return true;
  }

  bool ReadDict(int depth) {
    ++at_;
    out_ += '{';
    bool comma = true;
    for (size_t count = 0; !Take('}'); ++count) {
      if (!comma) return false;
      if (count > 0) out_ += ", ";
      const size_t key = out_.size();
      if (!ReadValue(depth + 1) || out_[key] == '[' || out_[key] == '{') return false;
      if (out_[key] != '"') {
        out_.insert(key, 1, '"');
        out_ += '"';
      }
      if (!Take(':')) return false;
      out_ += ": ";
      if (!ReadValue(depth + 1)) return false;
      comma = Take(',');
    }
    out_ += '}';
    return true;
  }

  bool ReadString() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') return false;
      if (text_[at_] != '\\') {
        value += text_[at_++];
      } else if (!ReadEscape(value)) {
        return false;
      }
    }
    if (at_++ >= text_.size()) return false;
    using nlohmann::json;
    out_ += json(value).dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
    return true;
  }

  bool ReadEscape(std::string& value) {
    if (++at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "ntr\\'\"bfav/", kTo = "\n\t\r\\'\"\b\f\a\v/";
    if (c == 'x' || c == 'u' || c == 'U') return ReadCodePoint(c == 'x' ? 2 : c == 'u' ? 4 : 8, value);
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      value += kTo[i];
    } else if (c != '\n') {  // Python keeps unknown escapes as they are
      value += '\\';
      value += c;
    }
    return true;
  }

  std::optional<uint32_t> ReadHex(size_t digits) {
    const std::string hex(text_.substr(at_, digits));
    if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      return std::nullopt;
    at_ += digits;
    return static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
  }

  bool ReadCodePoint(size_t digits, std::string& value) {
    std::optional<uint32_t> point = ReadHex(digits);
    if (!point) return false;
    if (*point >= 0xD800 && *point < 0xDC00 && TakeWord("\\u")) {  // JSON's surrogate pair
      const std::optional<uint32_t> low = ReadHex(4);
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    }
    if (*point > 0x10FFFF || (*point >= 0xD800 && *point <= 0xDFFF)) return false;
    AppendUtf8(*point, value);
    return true;
  }

  // Reads a decimal number of Python. Forms that JSON lacks (+1, .5, 1., 1_000) are translated.
  bool ReadNumber() {
    const size_t begin = at_;
    const auto digits = [&] {
      std::string found;
      while (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 ||
                                    (text_[at_] == '_' && !found.empty()))) {
        if (text_[at_] != '_') found += text_[at_];
        ++at_;
      }
      return found;
    };
    std::string number;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) {
      if (text_[at_++] == '-') number = "-";
    }
    const std::string whole = digits();
    if (whole.size() > 1 && whole[0] == '0') return false;
    number += whole.empty() ? "0" : whole;
    std::string fraction;
    const bool point = at_ < text_.size() && text_[at_] == '.';
    if (point) {
      ++at_;
      fraction = digits();
      number += "." + (fraction.empty() ? "0" : fraction);
    }
    if (whole.empty() && fraction.empty()) return false;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      number += text_[at_++];
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) number += text_[at_++];
      const std::string exponent = digits();
      if (exponent.empty()) return false;
      number += exponent;
    }
    NUMOE_DCHECK_LT(begin, at_);
    if (text_[at_ - 1] == '_') return false;
    out_ += number;
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::optional<std::string> JsonOfPythonLiteral(std::string_view text) { return LiteralReader(text).Read(); }

}  // namespace numoe::text
