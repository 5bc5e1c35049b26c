// A tokeniser made of a GGUF file's metadata must encode any text to ids it knows and give the text back, or
// there is one line of error.
#include <string>

#include "common/base/check.h"
#include "common/weights/gguf.h"
#include "coordinator/tokenizer/gguf_tokenizer.h"

namespace numoe {
namespace {

void CheckTokenizer(const Tokenizer& tokenizer) {
  NUMOE_CHECK_GE(tokenizer.VocabSize(), 256);
  for (const char* text : {"abc", "a1 b\n\n世界 \xF0\x9F\x99\x82", "[EOS]<think> x"}) {
    const std::vector<TokenId> plain = tokenizer.Encode(text, Specials::kAsText);
    for (const TokenId id : plain) NUMOE_CHECK(id >= 0 && id < tokenizer.VocabSize()) << id;
    NUMOE_CHECK_EQ(tokenizer.Decode(plain, /*skip_special=*/false), std::string(text));
    for (const TokenId id : tokenizer.Encode(text, Specials::kParse))
      NUMOE_CHECK(id >= 0 && id < tokenizer.VocabSize()) << id;
  }
  for (TokenId id = -1; id <= tokenizer.VocabSize(); ++id)
    NUMOE_CHECK(!tokenizer.IsSpecial(id) || !tokenizer.TokenBytes(id).empty()) << id;
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const absl::StatusOr<numoe::GgufFile> file = numoe::ParseGguf(bytes, "f.gguf");
  if (!file.ok()) return 0;
  const auto tokenizer = numoe::MakeGgufTokenizer(*file, "f.gguf");
  if (tokenizer.ok()) {
    numoe::CheckTokenizer(**tokenizer);
    return 0;
  }
  const std::string message(tokenizer.status().message());
  NUMOE_CHECK_EQ(message.rfind("f.gguf: ", 0), 0u) << message;
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
  return 0;
}
