// A tokenizer_config.json, a NUL and the ranks that follow those of the 256 bytes in a tiktoken.model: any
// text is encoded to ids of the vocabulary that decode to the text; otherwise the error is one line.
#include <array>

#include "absl/strings/escaping.h"
#include "coordinator/text/tokenizer/tiktoken_tokenizer.h"
#include "tests/fuzz/check_tokenizer.h"

namespace {

// Every vocabulary needs these ranks, and no mutation would find them.
std::string RanksOfBytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    text += absl::Base64Escape(absl::string_view(&c, 1)) + " " + std::to_string(byte) + "\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string bytes = RanksOfBytes();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), size);
  const std::string_view more = text.substr(std::min(end + 1, size));
  const auto config = numoe::text::ParseTokenizerConfig(text.substr(0, end), "c.json");
  if (!config.ok()) numoe::CheckTokenizerError(config.status(), "c.json: ");
  for (const std::string& ranks : {std::string(more), bytes + std::string(more)}) {
    const auto read = numoe::text::ParseRanks(ranks, "t.model");
    if (!read.ok()) {
      numoe::CheckTokenizerError(read.status(), "t.model line ");
      continue;
    }
    if (!config.ok()) continue;
    const auto tokenizer = numoe::text::MakeTiktoken(*read, *config, "t.model");
    if (tokenizer.ok()) {
      numoe::CheckTokenizer(**tokenizer, /*text_comes_back=*/true);
    } else {
      numoe::CheckTokenizerError(tokenizer.status(), "t.model: ");
    }
  }
  return 0;
}
