#include "coordinator/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "common/base/check.h"

namespace numoe {

// "X && not Han" of the published expression is a class behind a negative lookahead here. sc: is the Script property;
// a plain \p{Han} would be script extensions in PCRE2 and take in shared punctuation. \s under UCP is White_Space.
#define NUMOE_NOT_HAN(letters) "(?:(?!\\p{sc:Han})[" letters "])"
#define NUMOE_UPPER NUMOE_NOT_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
#define NUMOE_LOWER NUMOE_NOT_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}")
#define NUMOE_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
const char kKimiPattern[] =
    "\\p{sc:Han}+"
    "|[^\\r\\n\\p{L}\\p{N}]?" NUMOE_UPPER "*" NUMOE_LOWER "+" NUMOE_SUFFIX
    "|[^\\r\\n\\p{L}\\p{N}]?" NUMOE_UPPER "+" NUMOE_LOWER "*" NUMOE_SUFFIX
    "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)"
    "|\\s+";

absl::StatusOr<Pattern> Pattern::Compile(const std::string& expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (code == nullptr) {
    unsigned char reason[256];
    pcre2_get_error_message(error, reason, sizeof reason);
    return absl::InvalidArgumentError(fmt::format("pattern at byte {}: {}", offset, reinterpret_cast<char*>(reason)));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT it is only slower
  Pattern pattern;
  pattern.code_ = std::shared_ptr<void>(code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  return pattern;
}

void Pattern::Split(std::string_view text, absl::FunctionRef<void(std::string_view)> piece) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  size_t done = 0;
  size_t at = 0;
  while (at < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  at == 0 ? 0 : PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    // Besides "no match", an exhausted match limit ends the pieces: the rest is one piece, which merges correctly.
    if (found < 0) break;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
    if (ends[1] == ends[0]) {
      ++at;
      continue;
    }
    if (ends[0] > done) piece(text.substr(done, ends[0] - done));
    piece(text.substr(ends[0], ends[1] - ends[0]));
    done = at = ends[1];
  }
  if (done < text.size()) piece(text.substr(done));
}

}  // namespace numoe
