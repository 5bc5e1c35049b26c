#include "coordinator/text/tokenizer/byte_names.h"

#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text {

ByteNames::ByteNames() {
  int next = 0;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int point = printable ? b : 256 + next++;
    std::string name;
    if (point >= 0x80) name += static_cast<char>(0xC0 | (point >> 6));
    name += static_cast<char>(point < 0x80 ? point : 0x80 | (point & 0x3F));
    byte_of_[name] = static_cast<char>(b);
  }
}

std::string ByteNames::Bytes(std::string_view spelling) const {
  std::string bytes;
  for (size_t at = 0; at < spelling.size();) {
    const int step = Utf8Step(spelling.substr(at));
    const size_t length = static_cast<size_t>(step > 0 ? step : 1);
    const auto it = byte_of_.find(std::string(spelling.substr(at, length)));
    if (it != byte_of_.end()) {
      bytes += it->second;
    } else {
      bytes += spelling.substr(at, length);
    }
    at += length;
  }
  return bytes;
}

}  // namespace numoe::text
