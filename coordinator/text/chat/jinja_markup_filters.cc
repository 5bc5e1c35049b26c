// Filters of markup, which escape text, mark it as escaped, or remove tags.
#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_filters.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"
#include "coordinator/text/chat/jinja_text.h"

namespace numoe::text::jinja {
namespace {

constexpr std::string_view kUnreserved = "-._~";

std::string Quoted(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kUnreserved.find(c) != std::string_view::npos || (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value UrlEncodeFilter(Rendering& in, const Value& v, const Arguments&) {
  const bool pairs = (v.dict() != nullptr && !v.dict()->is_namespace) || v.list() != nullptr || v.undefined();
  if (!pairs) {
    const Str text = ToStr(v);
    return in.ChargeText(text.size()) ? Value(Str(Quoted(text.text(), false), text.AllTrusted())) : Value();
  }
  List items;
  if (v.dict() != nullptr) {
    for (const auto& [key, value] : v.dict()->items) items.push_back(Value::NewTuple({key, value}));
  } else {
    items = Iterate(in, v);
  }
  std::string out;
  for (const Value& item : items) {
    const List pair = Iterate(in, item);
    if (pair.size() != 2) return in.Fail("urlencode: expected pairs of a name and a value");
    if (!out.empty()) out += '&';
    out += Quoted(ToStr(pair[0]).text(), true) + "=" + Quoted(ToStr(pair[1]).text(), true);
    if (!in.Room(out.size())) return {};
  }
  return Value::Text(std::move(out), /*trusted=*/false);
}

Value XmlAttributesFilter(Rendering& in, const Value& v, const Arguments& args) {
  if (v.dict() == nullptr || v.dict()->is_namespace)
    return in.Fail(fmt::format("xmlattr: expected a mapping, found {}", TypeName(v)));
  Str out;
  for (const auto& [key, value] : v.dict()->items) {
    if (value.none() || value.undefined()) continue;
    if (key.str() == nullptr || key.str()->text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      return in.Fail(fmt::format("xmlattr: {} is not a valid name of an attribute", Repr(key)));
    if (!out.empty() || args.Flag(0, "autospace", true)) out.Append(Str(" ", true));
    out.Append(Escaped(*key.str()));
    NUMOE_DCHECK(!out.empty() || key.str()->empty());
    out.Append(Str("=\"", true));
    out.Append(Escaped(ToStr(value)));
    out.Append(Str("\"", true));
    if (!in.Room(out.size())) return {};
  }
  return out.AsMarkup(in.autoescape());
}

}  // namespace

const FilterTable& MarkupFilters() {
  using R = Rendering;
  using V = Value;
  using A = Arguments;
  static const FilterTable filters = {
      {"safe", {[](R&, const V& v, const A&) { return V(ToStr(v).AsMarkup()); }, ""}},
      {"escape", {[](R&, const V& v, const A&) { return V(Escaped(ToStr(v))); }, ""}},
      {"e", {[](R&, const V& v, const A&) { return V(Escaped(ToStr(v))); }, ""}},
      {"forceescape", {[](R&, const V& v, const A&) { return V(EscapedAgain(ToStr(v))); }, ""}},
      {"striptags",
       {[](R&, const V& v, const A&) { return V(Str(StripTags(ToStr(v).text()), ToStr(v).AllTrusted())); },
        ""}},
      {"urlencode", {UrlEncodeFilter, ""}},
      {"xmlattr", {XmlAttributesFilter, "autospace"}},
  };
  return filters;
}

}  // namespace numoe::text::jinja
