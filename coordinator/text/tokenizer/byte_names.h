// GPT-2's spelling of bytes as printable characters, which byte-level vocabularies are written in.
//
// A byte is itself where it is printable, else U+0100 + n for the n-th of the rest. Immutable; thread-safe.
// Source: https://github.com/openai/gpt-2, encoder.py.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace numoe::text {

class ByteNames {
 public:
  ByteNames();
  /// Vocabulary spelling to bytes; characters that spell no byte stay as they are.
  std::string Bytes(std::string_view spelling) const;

 private:
  std::unordered_map<std::string, char> byte_of_;
};

}  // namespace numoe::text
