#include "coordinator/text/chat/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    // Line ends become \n, and one at the end is dropped.
    for (size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = NextTag();
      std::string text = source_.substr(at_, tag - at_);
      if (tag == source_.size()) {
        EmitText(std::move(text));
        break;
      }
      const char kind = source_[tag + 1];
      NUMOE_DCHECK(source_[tag] == '{' && (kind == '{' || kind == '%' || kind == '#'));
      const char control = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      StripBefore(kind, control, text);
      const int text_lines = static_cast<int>(std::count(source_.begin() + static_cast<int64_t>(at_),
                                                         source_.begin() + static_cast<int64_t>(tag), '\n'));
      EmitText(std::move(text));
      line_ += text_lines;
      at_ = tag + 2 + ((control == '-' || control == '+') ? 1 : 0);
      if (kind == '#') {
        RETURN_IF_ERROR(SkipComment());
      } else if (kind == '%' && IsRaw()) {
        RETURN_IF_ERROR(ReadRaw());
      } else {
        RETURN_IF_ERROR(ReadTag(kind));
      }
    }
    tokens_.push_back({TokenKind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(fmt::format("line {}: {}", line_, what));
  }

  size_t NextTag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    }
    return source_.size();
  }

  void EmitText(std::string text) {
    if (text.empty()) return;
    tokens_.push_back({TokenKind::kText, std::move(text), line_});
  }

  // Strips white space before a tag: all of it with '-'; the line's indentation before blocks and comments,
  // unless there is a '+'.
  void StripBefore(char kind, char control, std::string& text) const {
    if (control == '-') {
      text.erase(text.find_last_not_of(kSpace) + 1);
    } else if (kind != '{' && control != '+') {
      const size_t newline = text.rfind('\n');
      const size_t begin = newline == std::string::npos ? 0 : newline + 1;
      const bool line_start = newline != std::string::npos || at_ == 0 || source_[at_ - 1] == '\n';
      if (line_start && text.find_first_not_of(" \t\v\f\r", begin) == std::string::npos) text.erase(begin);
    }
  }

  // Skips white space after a tag that ended with `control`.
  void SkipAfter(bool block, char control) {
    if (control == '-') {
      while (at_ < source_.size() && kSpace.find(source_[at_]) != std::string_view::npos) Advance();
    } else if (block && control != '+' && at_ < source_.size() && source_[at_] == '\n') {
      Advance();
    }
  }
  void Advance() {
    NUMOE_DCHECK_LT(at_, source_.size());
    if (source_[at_] == '\n') ++line_;
    ++at_;
  }
  void AdvanceTo(size_t to) {
    NUMOE_DCHECK(at_ <= to && to <= source_.size());
    while (at_ < to) Advance();
  }

  absl::Status SkipComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return Error("comment is not closed, expected #}");
    const char control = end > at_ ? source_[end - 1] : ' ';
    AdvanceTo(end + 2);
    SkipAfter(/*block=*/true, control);
    return absl::OkStatus();
  }

  bool IsRaw() const {
    const size_t word = source_.find_first_not_of(kSpace, at_);
    if (word == std::string::npos || source_.compare(word, 3, "raw") != 0) return false;
    const size_t end = source_.find_first_not_of(kSpace, word + 3);
    return end != std::string::npos &&
           (source_.compare(end, 2, "%}") == 0 || source_.compare(end, 3, "-%}") == 0);
  }

  absl::Status ReadRaw() {
    const size_t open_end = source_.find("%}", at_);
    NUMOE_CHECK(open_end != std::string::npos && open_end > 0) << "IsRaw has found the end";
    const char open_control = source_[open_end - 1];
    AdvanceTo(open_end + 2);
    SkipAfter(/*block=*/false, open_control);  // the line break after {% raw %} is text
    size_t tag = at_;
    while (true) {
      tag = source_.find("{%", tag);
      if (tag == std::string::npos) return Error("raw is not closed, expected endraw");
      size_t word = tag + 2;
      if (word < source_.size() && (source_[word] == '-' || source_[word] == '+')) ++word;
      word = source_.find_first_not_of(kSpace, word);
      if (word != std::string::npos && source_.compare(word, 6, "endraw") == 0) break;
      ++tag;
    }
    std::string text = source_.substr(at_, tag - at_);
    StripBefore('%', source_[tag + 2], text);
    EmitText(std::move(text));
    const size_t end = source_.find("%}", tag);
    if (end == std::string::npos) return Error("endraw is not closed, expected %}");
    const char control = source_[end - 1];
    AdvanceTo(end + 2);
    SkipAfter(/*block=*/true, control);
    return absl::OkStatus();
  }

  absl::Status ReadTag(char kind) {
    const bool block = kind == '%';
    tokens_.push_back({block ? TokenKind::kBlockBegin : TokenKind::kPrintBegin, "", line_});
    const std::string close = block ? "%}" : "}}";
    int depth = 0;  // open brackets; "}}" inside a dict literal does not close the tag
    while (true) {
      while (at_ < source_.size() && kSpace.find(source_[at_]) != std::string_view::npos) Advance();
      if (at_ >= source_.size()) return Error(fmt::format("tag is not closed, expected {}", close));
      const char c = source_[at_];
      if (depth == 0) {
        const bool controlled = c == '-' || (c == '+' && block);
        if (source_.compare(at_ + (controlled ? 1 : 0), 2, close) == 0) {
          at_ += controlled ? 3 : 2;
          tokens_.push_back({block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "", line_});
          SkipAfter(block, controlled ? c : ' ');
          return absl::OkStatus();
        }
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      RETURN_IF_ERROR(ReadToken(c));
    }
  }

  absl::Status ReadToken(char c) {
    if (c == '"' || c == '\'') return ReadString(c);
    if (c >= '0' && c <= '9') return ReadPrefixed() ? absl::OkStatus() : ReadNumber();
    const auto word = [](char x) {
      return x == '_' || (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') ||
             (x & 0x80) != 0;
    };
    if (word(c)) {
      const size_t begin = at_;
      while (at_ < source_.size() && word(source_[at_])) ++at_;
      tokens_.push_back({TokenKind::kName, source_.substr(begin, at_ - begin), line_});
      return absl::OkStatus();
    }
    for (const std::string_view op :
         {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "<",
          ">",  "=",  ".",  ":",  "|",  ",",  ";", "(", ")", "[", "]", "{", "}"}) {
      if (source_.compare(at_, op.size(), op) == 0) {
        at_ += op.size();
        tokens_.push_back({TokenKind::kOperator, std::string(op), line_});
        return absl::OkStatus();
      }
    }
    return Error(fmt::format("unexpected character '{}'", c));
  }

  // Reads an integer with a prefix: 0x1f, 0o17 or 0b11.
  bool ReadPrefixed() {
    const char letter =
        at_ + 1 < source_.size() && source_[at_] == '0' ? static_cast<char>(source_[at_ + 1] | 0x20) : ' ';
    const std::string_view digits = letter == 'x'   ? "0123456789abcdefABCDEF"
                                    : letter == 'o' ? "01234567"
                                    : letter == 'b' ? "01"
                                                    : "";
    size_t end = at_ + 2;
    const auto is_digit = [&](size_t at) {
      return at < source_.size() && digits.find(source_[at]) != std::string_view::npos;
    };
    while (is_digit(end) || (end < source_.size() && source_[end] == '_' && is_digit(end + 1))) ++end;
    if (digits.empty() || end == at_ + 2) return false;
    std::string text = source_.substr(at_, end - at_);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    tokens_.push_back({TokenKind::kInteger, std::move(text), line_});
    at_ = end;
    return true;
  }

  absl::Status ReadNumber() {
    const size_t begin = at_;
    // After a dot comes the index of an item: a.0.1 is not a.(0.1).
    const bool place =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    const auto digit_at = [&](size_t at) {
      return at < source_.size() && source_[at] >= '0' && source_[at] <= '9';
    };
    const auto digits = [&] {
      while (digit_at(at_) || (at_ < source_.size() && source_[at_] == '_' && digit_at(at_ + 1))) ++at_;
    };
    digits();
    bool is_float = false;
    if (!place && at_ + 1 < source_.size() && source_[at_] == '.' && source_[at_ + 1] >= '0' &&
        source_[at_ + 1] <= '9') {
      is_float = true;
      ++at_;
      digits();
    }
    if (!place && at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      size_t next = at_ + 1;
      if (next < source_.size() && (source_[next] == '+' || source_[next] == '-')) ++next;
      if (next < source_.size() && source_[next] >= '0' && source_[next] <= '9') {
        is_float = true;
        at_ = next;
        digits();
      }
    }
    NUMOE_DCHECK_LT(begin, at_);
    std::string text = source_.substr(begin, at_ - begin);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    if (!is_float && text[0] == '0' && text.find_first_not_of('0') != std::string::npos)
      return Error(fmt::format("integer {}: a number begins with 0 only if it is 0", text));
    tokens_.push_back({is_float ? TokenKind::kFloat : TokenKind::kInteger, text, line_});
    return absl::OkStatus();
  }

  absl::Status ReadString(char quote) {
    const int line = line_;
    NUMOE_DCHECK_EQ(source_[at_], quote);
    std::string out;
    ++at_;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] != '\\' || at_ + 1 >= source_.size()) {
        out += source_[at_];
        Advance();
        continue;
      }
      const char next = source_[at_ + 1];
      constexpr std::string_view kFrom = "ntr\\'\"bfav";
      constexpr std::string_view kTo = "\n\t\r\\'\"\b\f\a\v";
      static_assert(kFrom.size() == kTo.size());
      if (next == 'x' || next == 'u' || next == 'U') {
        RETURN_IF_ERROR(ReadCodePoint(next == 'x' ? 2 : next == 'u' ? 4 : 8, out));
      } else if (next == 'N') {
        return Error("escapes \\N{...} are not supported: write the character, or \\u and its number");
      } else if (next >= '0' && next <= '7') {
        ReadOctal(out);
      } else if (next == '\n') {
        at_ += 2;
        ++line_;
      } else if (const size_t i = kFrom.find(next); i != std::string_view::npos) {
        out += kTo[i];
        at_ += 2;
      } else {  // Python keeps unknown escapes as they are
        out += source_[at_];
        ++at_;
      }
    }
    if (at_ >= source_.size()) return Error("string is not closed");
    ++at_;
    tokens_.push_back({TokenKind::kString, std::move(out), line});
    return absl::OkStatus();
  }

  void ReadOctal(std::string& out) {
    int32_t point = 0;
    size_t end = at_ + 1;
    for (; end < source_.size() && end < at_ + 4 && source_[end] >= '0' && source_[end] <= '7'; ++end)
      point = point * 8 + (source_[end] - '0');
    out += CodePointText(point);
    at_ = end;
  }

  absl::Status ReadCodePoint(size_t digits, std::string& out) {
    NUMOE_DCHECK(digits == 2 || digits == 4 || digits == 8) << digits;
    const std::string hex = source_.substr(at_ + 2, digits);
    if (hex.size() != digits || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return Error(
          fmt::format("escape \\{}{}: expected {} hexadecimal digits", source_[at_ + 1], hex, digits));
    }
    const unsigned long point = std::stoul(hex, nullptr, 16);
    if (point > 0x10FFFF) return Error(fmt::format("escape \\U{}: no character has this number", hex));
    out += CodePointText(static_cast<int32_t>(point));
    at_ += 2 + digits;
    return absl::OkStatus();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace numoe::text::jinja
