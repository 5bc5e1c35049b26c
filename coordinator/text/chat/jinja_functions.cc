// The global functions of templates: `name(arguments)`.
#include <fmt/format.h>

#include <ctime>
#include <set>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {
namespace {

Value RangeFunction(Rendering& in, const Arguments& args) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = args.positional.size();
  if (count < 1 || count > 3) return in.Fail("range takes 1 to 3 integers");
  for (size_t i = 0; i < count; ++i) {
    const auto value = AsInt(args.positional[i]);
    if (!value)
      return in.Fail(fmt::format("range: expected an integer, found {}", TypeName(args.positional[i])));
    bounds[count == 1 ? 1 : i] = *value;
  }
  if (bounds[2] == 0) return in.Fail("range: step is 0");
  List items;
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (items.size() >= 100'000)
      return in.Fail("range: more than 100000 numbers");  // the sandbox's own limit
    items.emplace_back(i);
    if (!in.Charge(1)) return {};
    if (__builtin_add_overflow(i, bounds[2], &i)) break;  // it would be beyond any bound
  }
  return Value::NewList(std::move(items));
}

Value DictFunction(Rendering& in, const Arguments& args, bool is_namespace) {
  auto dict = std::make_shared<Dict>();
  if (!args.positional.empty()) {
    if (args.positional[0].dict() == nullptr) return in.Fail("expected a mapping");
    dict->items = args.positional[0].dict()->items;
  }
  for (const auto& [key, value] : args.keywords) dict->Set(Value::Text(key), value);
  dict->is_namespace = is_namespace;
  return Value(dict);
}

Value StrftimeNow(Rendering&, const Arguments& args) {
  const std::string format = args.Text(0, "format", "%Y-%m-%d");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char buffer[512];
  const size_t size = std::strftime(buffer, sizeof buffer, format.c_str(), &local);
  NUMOE_CHECK_LT(size, sizeof buffer);
  return Value::Text(std::string(buffer, size));
}

}  // namespace

bool IsFunction(const std::string& name) {
  static const std::set<std::string> names = {"range", "namespace", "dict", "raise_exception",
                                              "strftime_now"};
  return names.count(name) > 0;
}

Value RunFunction(Rendering& in, const std::string& name, const Arguments& args) {
  NUMOE_CHECK(IsFunction(name)) << name;
  if (name == "range") return RangeFunction(in, args);
  if (name == "namespace") return DictFunction(in, args, /*is_namespace=*/true);
  if (name == "dict") return DictFunction(in, args, /*is_namespace=*/false);
  if (name == "strftime_now") return StrftimeNow(in, args);
  return in.Fail(fmt::format("the template refuses: {}", args.Text(0, "message", "")));
}

}  // namespace numoe::text::jinja
