// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written.
//
// A printable byte is the character with its number; the n-th of the other bytes is U+0100 + n. Immutable;
// thread-safe. Source: https://github.com/openai/gpt-2, encoder.py.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace numoe::text {

class ByteNames {
 public:
  ByteNames();
  /// Translates a spelling of the vocabulary into bytes. Characters that do not stand for a byte are
  /// unchanged.
  std::string Bytes(std::string_view spelling) const;

 private:
  std::unordered_map<std::string, char> byte_of_;
};

}  // namespace numoe::text
