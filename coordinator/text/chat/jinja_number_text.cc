#include "coordinator/text/chat/jinja_number_text.h"

#include <cstdlib>
#include <string>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Returns `text` without underscores between digits; nullopt if there is an underscore elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && DigitOf(text[i - 1]) < 36 && DigitOf(text[i + 1]) < 36;
    if (!between) return std::nullopt;
  }
  return out;
}

}  // namespace

NumberText ReadInteger(std::string_view text, int64_t base) {
  text = StripSpace(text, true, true);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      text.remove_prefix(2);
      if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    }
  }
  if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return {};
    base = 10;
  }
  const std::optional<std::string> digits = WithoutUnderscores(text);
  if (!digits || digits->empty() || base < 2 || base > 36) return {};
  NumberText out{.integer = 0, .beyond = false};
  for (const char c : *digits) {
    const int digit = DigitOf(c);
    if (digit >= base) return {};
    if (out.beyond) continue;
    int64_t next = 0;
    out.beyond =
        __builtin_mul_overflow(*out.integer, base, &next) ||
        (negative ? __builtin_sub_overflow(next, digit, &next) : __builtin_add_overflow(next, digit, &next));
    out.integer = next;
  }
  if (out.beyond) out.integer.reset();
  return out;
}

std::optional<double> ReadReal(std::string_view text) {
  text = StripSpace(text, true, true);
  const std::optional<std::string> number = WithoutUnderscores(text);
  if (!number || number->empty()) return std::nullopt;
  const std::string lower = Lower(*number);
  const std::string unsigned_part = lower.substr(lower[0] == '-' || lower[0] == '+' ? 1 : 0);
  const bool named = unsigned_part == "inf" || unsigned_part == "infinity" || unsigned_part == "nan";
  if (!named && lower.find_first_not_of("0123456789+-.e") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  NUMOE_DCHECK_GE(end, lower.c_str());
  return end == lower.c_str() + lower.size() ? std::optional(value) : std::nullopt;
}

}  // namespace numoe::text::jinja
