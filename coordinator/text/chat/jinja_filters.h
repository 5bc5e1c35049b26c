// The tables of filters, by what they work on. RunFilter (jinja_builtins.h) looks into all of them.
//
// A filter takes the value before the bar and its arguments, which have been checked against its signature.
// Filters that Python computes lazily give generators. Constant after their first use; thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {

struct Filter {
  Value (*run)(Rendering&, const Value&, const Arguments&);
  std::string_view signature;  // TakesArguments
};
using FilterTable = std::map<std::string, Filter>;

const FilterTable& ListFilters();
const FilterTable& NumberFilters();
const FilterTable& TextFilters();
const FilterTable& MarkupFilters();

}  // namespace numoe::text::jinja
