// The part that both kinds of tokenisers share: joins segments and separates control tokens from trusted
// text.
//
// A pure function; it makes its calls in the order of the text.
#pragma once

#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/base/text_segment.h"
#include "coordinator/text/tokenizer/special_tokens.h"

namespace numoe::text {

/// Calls `text(piece)` for each text between control tokens, which is valid UTF-8, and `special(id)` for each
/// control token.
void CutSpecials(absl::Span<const TextSegment> segments, const SpecialTokens& specials,
                 absl::FunctionRef<void(std::string_view)> text, absl::FunctionRef<void(TokenId)> special);

}  // namespace numoe::text
