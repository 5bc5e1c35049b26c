#include "coordinator/net/http/url_text.h"

#include <charconv>

namespace numoe::net {

std::string PercentDecode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::string PathOf(std::string_view target) {
  return PercentDecode(target.substr(0, target.find('?')), false);
}

std::vector<std::pair<std::string, std::string>> QueryOf(std::string_view target) {
  std::vector<std::pair<std::string, std::string>> fields;
  const size_t begin = target.find('?');
  std::string_view rest = begin == std::string_view::npos ? "" : target.substr(begin + 1);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    if (field.empty()) continue;
    const size_t equals = field.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : field.substr(equals + 1);
    fields.emplace_back(PercentDecode(field.substr(0, equals), true), PercentDecode(value, true));
  }
  return fields;
}

}  // namespace numoe::net
