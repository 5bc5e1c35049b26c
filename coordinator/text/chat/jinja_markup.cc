#include "coordinator/text/chat/jinja_markup.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

struct Entity {
  char plain;
  std::string_view escaped;
};
constexpr Entity kEntities[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};

// Replaces entities by their characters: &lt; &#60; &#x3c; and a few other names that Python knows and that
// occur in practice.
std::string Unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00a0"}};
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t end = text[at] == '&' ? text.substr(at, 12).find(';') : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text[at];
      continue;
    }
    std::string_view name = text.substr(at + 1, end - 1);
    const auto* named = std::find_if(std::begin(kNamed), std::end(kNamed),
                                     [&](const auto& entity) { return entity.first == name; });
    if (named != std::end(kNamed)) {
      out += named->second;
    } else {
      const bool hex = name.size() > 2 && (name[1] == 'x' || name[1] == 'X');
      const std::string digits(name.empty() || name[0] != '#' ? "" : name.substr(hex ? 2 : 1));
      const bool number =
          !digits.empty() && digits.size() < 8 &&
          digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "0123456789") == std::string::npos;
      if (!number) {
        out += text[at];
        continue;
      }
      out += CodePointText(static_cast<int32_t>(std::stol(digits, nullptr, hex ? 16 : 10)));
    }
    at += end;
  }
  return out;
}

}  // namespace

Str EscapedAgain(const Str& text) {
  Str out;
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto* entity = std::find_if(std::begin(kEntities), std::end(kEntities),
                                      [&](const Entity& e) { return e.plain == text.text()[at]; });
    if (entity == std::end(kEntities)) continue;
    out.Append(text.Substr(begin, at - begin));
    out.Append(Str(std::string(entity->escaped), text.Substr(at, 1).AllTrusted()));
    begin = at + 1;
  }
  out.Append(text.Substr(begin, std::string::npos));
  NUMOE_DCHECK_GE(out.size(), text.size());
  return out.AsMarkup();
}

Str Escaped(const Str& text) { return text.markup() ? text : EscapedAgain(text); }

std::string StripTags(std::string_view text) {
  std::string kept;
  size_t at = 0;
  for (size_t tag; (tag = text.find('<', at)) != std::string_view::npos;) {
    const bool comment = text.substr(tag, 4) == "<!--";
    const size_t end = comment ? text.find("-->", tag + 4) : text.find('>', tag);
    if (end == std::string_view::npos) break;
    kept += text.substr(at, tag - at);
    at = end + (comment ? 3 : 1);
  }
  kept += text.substr(at);
  std::string words;
  for (std::string_view rest = StripSpace(kept, true, true); !rest.empty();
       rest = StripSpace(rest, true, true)) {
    size_t end = 0;
    while (end < rest.size() && SpaceLength(rest.substr(end)) == 0) ++end;
    if (!words.empty()) words += ' ';
    words += rest.substr(0, end);
    rest.remove_prefix(end);
  }
  return Unescaped(words);
}

}  // namespace numoe::text::jinja
