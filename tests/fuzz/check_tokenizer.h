// What the engine relies on in a tokeniser, whatever file it was read from.
//
// CHECKs, for the fuzz targets of the readers.
#pragma once

#include <string>

#include "common/base/check.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe {

/// Any text becomes ids of the vocabulary, and, where every piece of it is kept as it is, comes back.
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

/// One line that begins with the source.
inline void CheckTokenizerError(const absl::Status& status, std::string_view source) {
  const std::string message(status.message());
  NUMOE_CHECK_EQ(message.rfind(source, 0), 0u) << message;
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
}

}  // namespace numoe
