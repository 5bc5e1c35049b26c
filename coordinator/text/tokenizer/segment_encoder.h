// What both tokeniser kinds share: joining segments, and cutting control tokens out of trusted text.
//
// Pure; calls back in text order.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/text_segment.h"
#include "coordinator/text/tokenizer/special_tokens.h"

namespace numoe::text {

/// `text(piece)` for stretches of valid UTF-8 without control tokens, `special(id)` for control tokens.
void CutSpecials(absl::Span<const TextSegment> segments, const SpecialTokens& specials,
                 absl::FunctionRef<void(std::string_view)> text, absl::FunctionRef<void(TokenId)> special);

}  // namespace numoe::text
