// Checks the properties of a tokeniser on which the engine relies, for any file format.
//
// For the fuzz targets of the readers; a failure is a failed CHECK.
#pragma once

#include <string>

#include "common/base/check.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe {

/// Checks that any text is encoded to ids of the vocabulary. With `text_comes_back`, checks that the ids
/// decode to the text.
inline void CheckTokenizer(const text::Tokenizer& tokenizer, bool text_comes_back) {
  NUMOE_CHECK_GE(tokenizer.VocabSize(), 256);
  for (const char* text : {"abc", "a1 b\n\n世界 \xF0\x9F\x99\x82", "[EOS]<think> x"}) {
    const std::vector<TokenId> plain = tokenizer.Encode(text, text::Specials::kAsText);
    for (const TokenId id : plain) NUMOE_CHECK(id >= 0 && id < tokenizer.VocabSize()) << id;
    if (text_comes_back) NUMOE_CHECK_EQ(tokenizer.Decode(plain, /*skip_special=*/false), std::string(text));
    for (const TokenId id : tokenizer.Encode(text, text::Specials::kParse))
      NUMOE_CHECK(id >= 0 && id < tokenizer.VocabSize()) << id;
  }
  for (TokenId id = -1; id <= tokenizer.VocabSize(); ++id)
    NUMOE_CHECK(!tokenizer.IsSpecial(id) || !tokenizer.TokenBytes(id).empty()) << id;
}

/// Checks that the error is one line that begins with the source.
inline void CheckTokenizerError(const absl::Status& status, std::string_view source) {
  const std::string message(status.message());
  NUMOE_CHECK_EQ(message.rfind(source, 0), 0u) << message;
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
}

}  // namespace numoe
