// Divides template source into tokens, with Jinja's white-space control and Hugging Face's settings.
//
// trim_blocks drops the newline after a block tag, and lstrip_blocks drops spaces between the beginning of a
// line and a block tag. A '-' in a tag strips all white space on that side, and a '+' turns the settings off.
// One newline at the end of the source is dropped, and so are comments; raw blocks are text. Errors give the
// line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe::text::jinja {

enum class TokenKind : uint8_t {
  kText,
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // for strings without quotes and escapes
  int line = 1;
};

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace numoe::text::jinja
