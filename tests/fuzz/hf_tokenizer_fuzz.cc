// A tokenizer.json, followed by a NUL and a tokenizer_config.json: any text is encoded to ids of the
// vocabulary that decode to the text, unless the file normalises it; otherwise the error is one line.
#include "coordinator/text/tokenizer/hf_tokenizer.h"
#include "tests/fuzz/check_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view tokens = text.substr(0, text.find('\0'));
  numoe::text::TokenizerConfig config;
  if (tokens.size() < text.size()) {
    const auto read = numoe::text::ParseTokenizerConfig(text.substr(tokens.size() + 1), "c.json");
    if (!read.ok()) {
      numoe::CheckTokenizerError(read.status(), "c.json: ");
      return 0;
    }
    config = *read;
  }
  const auto tokenizer = numoe::text::MakeHfTokenizer(tokens, config, "t.json");
  if (tokenizer.ok()) {
    numoe::CheckTokenizer(**tokenizer, /*text_comes_back=*/true);  // the texts are already in NFC
  } else {
    numoe::CheckTokenizerError(tokenizer.status(), "t.json: ");
  }
  return 0;
}
