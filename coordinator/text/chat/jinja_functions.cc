// The global functions of templates: `name(arguments)`.
#include <fmt/format.h>

#include <ctime>
#include <map>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_repr.h"

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
  std::string label = fmt::format("range({}, {}", bounds[0], bounds[1]);
  label += bounds[2] == 1 ? ")" : fmt::format(", {})", bounds[2]);
  for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
    if (items.size() >= 100'000)
      return in.Fail("range: more than 100000 numbers");  // the limit of Jinja2's sandbox
    items.emplace_back(i);
    if (!in.Charge(1)) return {};
    if (__builtin_add_overflow(i, bounds[2], &i)) break;  // the next number would be beyond any bound
  }
  return Value(Sequence{Sequence::Kind::kRange, std::make_shared<List>(std::move(items)), std::move(label)});
}

Value DictFunction(Rendering& in, const Arguments& args, bool is_namespace) {
  auto dict = std::make_shared<Dict>();
  if (args.positional.size() > 1) return in.Fail("dict and namespace take one mapping or list of pairs");
  if (!args.positional.empty() && args.positional[0].dict() != nullptr) {
    dict->items = args.positional[0].dict()->items;
  } else if (!args.positional.empty()) {
    for (const Value& pair : Iterate(in, args.positional[0])) {
      const List parts = Iterate(in, pair);
      if (in.failed()) return {};
      if (parts.size() != 2 || !Hashable(parts[0]))
        return in.Fail("dict: expected pairs of a key and a value");
      if (!in.Charge(1 + static_cast<int64_t>(dict->items.size()))) return {};
      dict->Set(parts[0], parts[1]);
    }
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

Value CyclerFunction(Rendering& in, const Arguments& args) {
  if (args.positional.empty()) return in.Fail("cycler: expected items to cycle through");
  auto cycler = std::make_shared<Object>();
  cycler->kind = Object::Kind::kCycler;
  cycler->items = List(args.positional.begin(), args.positional.end());
  return Value(cycler);
}

Value JoinerFunction(Rendering&, const Arguments& args) {
  auto joiner = std::make_shared<Object>();
  joiner->kind = Object::Kind::kJoiner;
  const Value* separator = args.Get(0, "sep");
  joiner->separator = separator == nullptr ? Str(", ", true) : ToStr(*separator);
  return Value(joiner);
}

Value RaiseFunction(Rendering& in, const Arguments& args) {
  return in.Fail(fmt::format("the template refuses: {}", args.Text(0, "message", "")));
}

Value LipsumFunction(Rendering& in, const Arguments&) {
  return in.Fail("lipsum() is not supported: a prompt must be the same for the same conversation");
}

struct Function {
  Value (*run)(Rendering&, const Arguments&);
  std::string_view signature;  // see TakesArguments
};

const std::map<std::string, Function>& Functions() {
  static const std::map<std::string, Function> functions = {
      {"range", {RangeFunction, "start;stop,step"}},
      {"namespace", {[](Rendering& in, const Arguments& args) { return DictFunction(in, args, true); }, "*"}},
      {"dict", {[](Rendering& in, const Arguments& args) { return DictFunction(in, args, false); }, "*"}},
      {"cycler", {CyclerFunction, "*"}},
      {"joiner", {JoinerFunction, "sep"}},
      {"strftime_now", {StrftimeNow, "format"}},
      {"raise_exception", {RaiseFunction, "message"}},
      {"lipsum", {LipsumFunction, "*"}},
  };
  return functions;
}

}  // namespace

bool IsFunction(const std::string& name) { return Functions().count(name) > 0; }

Value RunFunction(Rendering& in, const std::string& name, const Arguments& args) {
  const auto function = Functions().find(name);
  NUMOE_CHECK(function != Functions().end()) << name;
  if (!TakesArguments(in, name, function->second.signature, args)) return {};
  return function->second.run(in, args);
}

}  // namespace numoe::text::jinja
