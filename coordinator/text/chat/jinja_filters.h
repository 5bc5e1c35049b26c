// The tables of filters, one for each kind of value. RunFilter (jinja_builtins.h) searches all of them.
//
// A filter takes the value before the bar and its arguments, which have been checked against its signature.
// Filters that are lazy in Python return generators. The tables are constant after their first use;
// thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {

struct Filter {
  Value (*run)(Rendering&, const Value&, const Arguments&);
  std::string_view signature;  // see TakesArguments
};
using FilterTable = std::map<std::string, Filter>;

const FilterTable& ListFilters();
const FilterTable& NumberFilters();
const FilterTable& TextFilters();
const FilterTable& MarkupFilters();

}  // namespace numoe::text::jinja
