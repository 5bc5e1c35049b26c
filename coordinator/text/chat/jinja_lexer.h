// Template source to tokens, with Jinja's white-space control under Hugging Face's settings.
//
// trim_blocks: the newline behind a block tag is dropped; lstrip_blocks: spaces before a block tag on its
// line are dropped; '-' in a tag strips all white space on that side and '+' turns the settings off; one
// trailing newline of the source is dropped; comments vanish; raw blocks are text. Errors give the line.
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
  std::string text;  // decoded for strings
  int line = 1;
};

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace numoe::text::jinja
