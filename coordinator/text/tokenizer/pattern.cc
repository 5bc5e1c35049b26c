#include "coordinator/text/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::text {

// Han characters of Unicode 15.1's Script=Han that Debian 12's PCRE2 (Unicode 14) does not have. They count
// as letters.
#define NUMOE_NEW_HAN "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
// sc: is the Script property; a plain \p{Han} would be the script extensions in PCRE2 and include shared
// punctuation.
#define NUMOE_HAN "\\p{sc:Han}" NUMOE_NEW_HAN
// The published "[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", transformed by De Morgan's laws into one
// class. A group with a lookahead would need a stack frame for each letter, and some words have thousands of
// letters (base64, Thai).
#define NUMOE_UPPER "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" NUMOE_HAN "]"
#define NUMOE_LOWER "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" NUMOE_HAN "]"
#define NUMOE_BEFORE "[^\\r\\n\\p{L}\\p{N}" NUMOE_NEW_HAN "]?"
#define NUMOE_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
const char kKimiPattern[] = "[" NUMOE_HAN
                            "]+"
                            "|" NUMOE_BEFORE NUMOE_UPPER "*" NUMOE_LOWER "+" NUMOE_SUFFIX
                            "|" NUMOE_BEFORE NUMOE_UPPER "+" NUMOE_LOWER "*" NUMOE_SUFFIX
                            "|\\p{N}{1,3}"
                            "| ?[^\\s\\p{L}\\p{N}" NUMOE_NEW_HAN
                            "]+[\\r\\n]*"
                            "|\\s*[\\r\\n]+"
                            "|\\s+(?!\\S)"
                            "|\\s+";

namespace {

// Unicode's White_Space. PCRE2's own \s includes U+180E, which has not been white space since Unicode 6.3.
constexpr std::string_view kWhiteSpace = "\\t-\\r\\x{85}\\p{Z}";

// Returns the expression with \s and \S written as White_Space. Refuses syntax that PCRE2 accepts but reads
// differently from Oniguruma and Rust: a class within a class, and class intersection.
absl::StatusOr<std::string> Translate(std::string_view expression) {
  std::string out;
  bool in_class = false;
  size_t class_start = 0;  // the place at which "]" is still an ordinary character
  for (size_t i = 0; i < expression.size(); ++i) {
    const std::string_view rest = expression.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      if (rest[1] == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (rest[1] == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += rest.substr(0, 2);
      }
      ++i;
      continue;
    }
    if (in_class && rest.substr(0, 2) == "[:") {  // [:alpha:] and similar classes
      const size_t length = std::min(rest.find(":]"), rest.size() - 2) + 2;
      out += rest.substr(0, length);
      i += length - 1;
      continue;
    }
    if (!in_class && rest[0] == '[') {
      in_class = true;
      class_start = i + (rest.substr(0, 2) == "[^" ? 2 : 1);
    } else if (in_class && rest[0] == ']' && i != class_start) {
      in_class = false;
    } else if (in_class && (rest.substr(0, 2) == "&&" || rest[0] == '[')) {
      return absl::UnimplementedError(
          fmt::format("pattern at byte {}: found {} inside a class, expected a plain class (write "
                      "intersections as a lookahead)",
                      i, rest[0] == '[' ? "\"[\"" : "\"&&\""));
    }
    out += rest[0];
  }
  return out;
}

constexpr uint32_t kHeapKibMax = 256 * 1024;  // for a match in the interpreter

struct MatchDataDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;

struct Found {
  size_t begin, end;
};

std::optional<Found> WholeMatch(int found, pcre2_match_data* match) {
  if (found < 0) return std::nullopt;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
  return Found{ends[0], ends[1]};
}

// Matches with the interpreter. It keeps the heap of its largest match in the match data, so each match has
// its own.
std::optional<Found> Interpret(const pcre2_code* code, std::string_view text, size_t at) {
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_heap_limit(context.get(), kHeapKibMax);
  const MatchData match(pcre2_match_data_create(1, nullptr));
  return WholeMatch(pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), context.get()),
                    match.get());
}

// JIT code has 32 KiB of stack; a match that needs more is repeated by the interpreter, which uses the heap.
std::optional<Found> Match(const pcre2_code* code, bool jit, std::string_view text, size_t at) {
  if (!jit) return Interpret(code, text, at);
  // One object for each thread, because texts may be as short as a word. It has room only for the whole
  // match, not for groups.
  thread_local const MatchData match(pcre2_match_data_create(1, nullptr));
  const int found = pcre2_jit_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, 0,
                                    match.get(), nullptr);
  return found == PCRE2_ERROR_JIT_STACKLIMIT ? Interpret(code, text, at) : WholeMatch(found, match.get());
}

}  // namespace

absl::StatusOr<Pattern> Pattern::Compile(const std::string& expression) {
  ASSIGN_OR_RETURN(const std::string translated, Translate(expression));
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (code == nullptr) {
    unsigned char reason[256];
    pcre2_get_error_message(error, reason, sizeof reason);
    return absl::InvalidArgumentError(
        fmt::format("pattern at byte {}: {}", offset, reinterpret_cast<char*>(reason)));
  }
  Pattern pattern;
  pattern.jit_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;  // without JIT it is only slower
  pattern.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return pattern;
}

void Pattern::Split(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  NUMOE_CHECK(code != nullptr) << "a Pattern must come from Compile";
  size_t done = 0;
  size_t at = 0;
  while (at < text.size()) {
    const std::optional<Found> found = Match(code, jit_, text, at);
    // An exhausted match limit ends the search, too. The rest is then one piece, which decodes to the same
    // text, but tokens may extend across places where the pattern would have divided it.
    if (!found) break;
    NUMOE_DCHECK(at <= found->begin && found->begin <= found->end && found->end <= text.size());
    if (found->end == found->begin) {
      do ++at;
      while (at < text.size() && (text[at] & 0xC0) == 0x80);  // moves to the next character
      continue;
    }
    if (found->begin > done) piece(text.substr(done, found->begin - done));
    piece(text.substr(found->begin, found->end - found->begin));
    done = at = found->end;
  }
  if (done < text.size()) piece(text.substr(done));
}

}  // namespace numoe::text
