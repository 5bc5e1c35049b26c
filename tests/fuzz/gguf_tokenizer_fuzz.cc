// A tokeniser that is made from a GGUF file's metadata must encode any text to ids of the vocabulary that
// decode to the text; otherwise the error is one line.
#include "common/weights/gguf.h"
#include "coordinator/text/tokenizer/gguf_tokenizer.h"
#include "tests/fuzz/check_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const absl::StatusOr<numoe::GgufFile> file = numoe::ParseGguf(bytes, "f.gguf");
  if (!file.ok()) return 0;
  const auto tokenizer = numoe::text::MakeGgufTokenizer(*file, "f.gguf");
  if (tokenizer.ok()) {
    numoe::CheckTokenizer(**tokenizer, /*text_comes_back=*/true);
  } else {
    numoe::CheckTokenizerError(tokenizer.status(), "f.gguf: ");
  }
  return 0;
}
