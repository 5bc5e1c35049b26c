#include "coordinator/chat/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/chat/chat_limits.h"
#include "coordinator/chat/jinja_builtins.h"

namespace numoe::jinja {

const Value* Arguments::Get(size_t i, std::string_view name) const {
  if (i < positional.size()) return &positional[i];
  for (const auto& [key, value] : keywords) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Arguments::Text(size_t i, std::string_view name, const std::string& fallback) const {
  const Value* value = Get(i, name);
  return value == nullptr || value->none() ? fallback : ToStr(*value).text();
}

Interpreter::Interpreter(std::map<std::string, Value> variables) {
  scopes_.push_back(std::move(variables));
  scopes_.emplace_back();  // the template's own names
  NUMOE_DCHECK_EQ(scopes_.size(), 2u);
}

absl::StatusOr<Str> Interpreter::Render(const Block& block) {
  RunBlock(block);
  if (failed()) return status_;
  return std::move(output_);
}

Value Interpreter::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("line {}: {}", line_, what));
  return Undefined{};
}

bool Interpreter::Charge(int64_t steps) {
  NUMOE_DCHECK_GE(steps, 0);
  steps_ += steps;
  if (steps_ > limits::kTemplateStepsMax) Fail(fmt::format("more than {} steps", limits::kTemplateStepsMax));
  return !failed();
}

bool Interpreter::MayHold(const void* container, const Value& value, int depth) {
  if (const auto* bound = value.If<Callable>())
    return bound->self == nullptr || MayHold(container, *bound->self, depth);
  const List* list = value.list();
  const Dict* dict = value.dict();
  if (list == nullptr && dict == nullptr) return true;
  if (list == container || dict == container) {
    Fail(fmt::format("a {} would hold itself", TypeName(value)));
  } else if (depth >= limits::kTemplateDepthMax) {
    Fail(fmt::format("lists and dicts nested more than {} deep", limits::kTemplateDepthMax));
  } else if (list != nullptr && Charge(1)) {
    for (const Value& item : *list) {
      if (!MayHold(container, item, depth + 1)) break;
    }
  } else if (dict != nullptr && Charge(1)) {
    for (const auto& [key, item] : dict->items) {
      if (!MayHold(container, item, depth + 1)) break;
    }
  }
  return !failed();
}

void Interpreter::Print(const Str& text) {
  output_.Append(text);
  if (output_.size() > limits::kTemplateOutputBytesMax)
    Fail(fmt::format("more than {} bytes of output", limits::kTemplateOutputBytesMax));
}

// --- statements ---

Interpreter::Flow Interpreter::RunBlock(const Block& block) {
  for (const NodePtr& node : block) {
    if (failed()) return Flow::kNext;
    const Flow flow = RunNode(*node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunNode(const Node& node) {
  line_ = node.line;
  if (!Charge(1)) return Flow::kNext;
  switch (node.kind) {
    case Kind::kText:
      Print(Str(node.text, /*trusted=*/true));
      break;
    case Kind::kPrint:
      Print(ToStr(Eval(*node.args[0])));
      break;
    case Kind::kIf:
      return RunIf(node);
    case Kind::kFor:
      return RunFor(node);
    case Kind::kSet:
      RunSet(node);
      break;
    case Kind::kSetBlock: {
      Str text = Capture(node.blocks[0]);
      if (node.args.size() > 1) {
        body_ = std::move(text);
        Assign(*node.args[0], Eval(*node.args[1]));
      } else {
        Assign(*node.args[0], Value(std::move(text)));
      }
      break;
    }
    case Kind::kMacro:
      scopes_.back()[node.text] = Value(Macro{&node});
      break;
    case Kind::kFilterBlock:
      body_ = Capture(node.blocks[0]);
      Print(ToStr(Eval(*node.args[0])));
      break;
    case Kind::kGeneration:
      return RunBlock(node.blocks[0]);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      return Flow::kContinue;
    default:
      Fail("not a statement");
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunIf(const Node& node) {
  NUMOE_DCHECK(node.blocks.size() == node.args.size() || node.blocks.size() == node.args.size() + 1);
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (Truthy(Eval(*node.args[i]))) return RunBlock(node.blocks[i]);
    if (failed()) return Flow::kNext;
  }
  if (node.blocks.size() > node.args.size()) return RunBlock(node.blocks.back());
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunFor(const Node& node) {
  NUMOE_DCHECK(node.blocks.size() == 2 && !node.names.empty() && !node.args.empty() && node.args.size() <= 2);
  List items = Iterate(Eval(*node.args[0]));
  scopes_.emplace_back();
  const auto bind = [&](const Value& item) {
    if (node.names.size() == 1) {
      scopes_.back()[node.names[0]] = item;
      return;
    }
    const List* parts = item.list();
    if (parts == nullptr || parts->size() != node.names.size()) {
      Fail(fmt::format("cannot unpack {} into {} names", TypeName(item), node.names.size()));
      return;
    }
    for (size_t i = 0; i < parts->size(); ++i) scopes_.back()[node.names[i]] = (*parts)[i];
  };
  if (node.args.size() > 1) {
    List kept;
    for (const Value& item : items) {
      bind(item);
      if (failed()) break;
      if (Truthy(Eval(*node.args[1]))) kept.push_back(item);
    }
    items = std::move(kept);
  }
  const auto count = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < count && !failed(); ++i) {
    scopes_.back().clear();
    auto loop = std::make_shared<Dict>();
    const auto set = [&](const char* name, Value value) {
      loop->items.emplace_back(Value::Text(name), std::move(value));
    };
    set("index", i + 1);
    set("index0", i);
    set("revindex", count - i);
    set("revindex0", count - i - 1);
    set("first", i == 0);
    set("last", i == count - 1);
    set("length", count);
    set("depth", int64_t{1});
    set("depth0", int64_t{0});
    set("previtem", i > 0 ? items[i - 1] : Value(Undefined{"loop.previtem"}));
    set("nextitem", i + 1 < count ? items[i + 1] : Value(Undefined{"loop.nextitem"}));
    scopes_.back()["loop"] = Value(loop);
    bind(items[i]);
    if (failed() || !Charge(1)) break;
    const Flow flow = RunBlock(node.blocks[0]);
    if (flow == Flow::kBreak) break;
  }
  scopes_.pop_back();
  if (count == 0 && !failed()) return RunBlock(node.blocks[1]);
  return Flow::kNext;
}

void Interpreter::RunSet(const Node& node) {
  NUMOE_DCHECK_GE(node.args.size(), 2u);
  Value value = Eval(*node.args.back());
  if (failed()) return;
  const size_t targets = node.args.size() - 1;
  if (targets == 1) return Assign(*node.args[0], std::move(value));
  const List* parts = value.list();
  if (parts == nullptr || parts->size() != targets) {
    Fail(fmt::format("cannot unpack {} into {} names", TypeName(value), targets));
    return;
  }
  for (size_t i = 0; i < targets; ++i) Assign(*node.args[i], (*parts)[i]);
}

void Interpreter::Assign(const Node& target, Value value) {
  if (target.kind == Kind::kName) {
    scopes_.back()[target.text] = std::move(value);
    return;
  }
  NUMOE_DCHECK(target.kind == Kind::kAttribute && target.args.size() == 1);
  const Value base = Eval(*target.args[0]);
  const auto* dict = base.If<std::shared_ptr<Dict>>();
  if (dict == nullptr || !(*dict)->is_namespace) {
    Fail(fmt::format("cannot set attribute '{}' of {}: only namespace() objects can be changed", target.text,
                     TypeName(base)));
    return;
  }
  if (MayHold(dict->get(), value)) (*dict)->Set(Value::Text(target.text), std::move(value));
}

Str Interpreter::Capture(const Block& block) {
  Str saved = std::move(output_);
  output_ = Str();
  scopes_.emplace_back();
  RunBlock(block);
  scopes_.pop_back();
  Str text = std::move(output_);
  output_ = std::move(saved);
  return text;
}

// --- expressions ---

Value Interpreter::Eval(const Node& node) {
  if (failed()) return {};
  if (++depth_ > limits::kTemplateDepthMax)
    Fail(fmt::format("nested deeper than {}", limits::kTemplateDepthMax));
  Value value;
  if (Charge(1)) {
    line_ = node.line;
    value = EvalKind(node);
  }
  --depth_;
  return failed() ? Value() : value;
}

Value Interpreter::EvalKind(const Node& node) {
  switch (node.kind) {
    case Kind::kLiteral:
      return node.value;
    case Kind::kName:
      return Name(node.text);
    case Kind::kBody:
      return Value(body_);
    case Kind::kList: {
      List items;
      for (const NodePtr& arg : node.args) items.push_back(Eval(*arg));
      return Value::NewList(std::move(items));
    }
    case Kind::kDict:
      return EvalDict(node);
    case Kind::kAttribute:
      return Attribute(Eval(*node.args[0]), node.text);
    case Kind::kItem: {
      const Value base = Eval(*node.args[0]);
      return Item(base, Eval(*node.args[1]));
    }
    case Kind::kSlice:
      return EvalSlice(node);
    case Kind::kCall:
      return EvalCall(node);
    case Kind::kFilter: {
      const Value input = Eval(*node.args[0]);
      const Arguments args = EvalArguments(node, 1);
      return failed() ? Value() : RunFilter(*this, node.text, input, args);
    }
    case Kind::kTest: {
      const Value input = Eval(*node.args[0]);
      const Arguments args = EvalArguments(node, 1);
      return failed() ? Value() : Value(RunTest(*this, node.text, input, args));
    }
    case Kind::kUnary:
      return EvalUnary(node);
    case Kind::kBinary:
      return EvalBinary(node);
    case Kind::kCompare:
      return EvalCompare(node);
    case Kind::kTernary:
      if (Truthy(Eval(*node.args[0]))) return Eval(*node.args[1]);
      return node.args[2] == nullptr ? Value() : Eval(*node.args[2]);
    default:
      return Fail("not an expression");
  }
}

Value Interpreter::Name(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(name);
    if (it != scope->end()) return it->second;
  }
  if (IsFunction(name)) return Callable{name, nullptr};
  return Undefined{name};
}

Value Interpreter::EvalDict(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size() % 2, 0u);
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < node.args.size(); i += 2) {
    const Value key = Eval(*node.args[i]);
    dict->Set(key, Eval(*node.args[i + 1]));
  }
  return Value(dict);
}

Value Interpreter::Attribute(const Value& base, const std::string& name) {
  if (base.undefined())
    return Fail(fmt::format("'{}' is undefined: cannot read its attribute '{}'",
                            std::get<Undefined>(base.data).name, name));
  const Dict* dict = base.dict();
  if (dict != nullptr && dict->is_namespace) {
    const Value* value = dict->FindName(name);
    return value != nullptr ? *value : Value(Undefined{name});
  }
  if (IsMethod(base, name)) return Callable{name, std::make_shared<Value>(base)};
  if (dict != nullptr) {
    if (const Value* value = dict->FindName(name)) return *value;
  }
  return Undefined{name};
}

Value Interpreter::Item(const Value& base, const Value& key) {
  if (base.undefined())
    return Fail(fmt::format("'{}' is undefined: cannot read its item {}", std::get<Undefined>(base.data).name,
                            Repr(key)));
  if (const Dict* dict = base.dict()) {
    if (const Value* value = dict->Find(key)) return *value;
  } else if (const auto index = AsInt(key)) {
    const List* list = base.list();
    const Str* str = base.str();
    std::vector<size_t> offsets;
    if (str != nullptr) offsets = CodePointOffsets(str->text());
    const auto size = static_cast<int64_t>(list != nullptr  ? list->size()
                                           : str != nullptr ? offsets.size() - 1
                                                            : 0);
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at >= 0 && at < size) {
      if (list != nullptr) return (*list)[at];
      return Value(str->Substr(offsets[at], offsets[at + 1] - offsets[at]));
    }
  }
  if (key.str() != nullptr) {
    if (base.dict() == nullptr || !base.dict()->is_namespace) {
      if (IsMethod(base, key.str()->text()))
        return Callable{key.str()->text(), std::make_shared<Value>(base)};
    }
    return Undefined{key.str()->text()};
  }
  return Undefined{Repr(key)};
}

Value Interpreter::Lookup(const Value& base, const Str& path) {
  Value value = base;
  const std::string& text = path.text();
  for (size_t begin = 0; begin <= text.size() && !failed();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = Item(value, digits ? Value(static_cast<int64_t>(std::stoll(part))) : Value::Text(part));
    begin = end + 1;
  }
  return value;
}

List Interpreter::Iterate(const Value& value) {
  if (const List* list = value.list()) return *list;
  if (value.undefined()) return {};
  List items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) items.push_back(key);
  } else if (const Str* str = value.str()) {
    const std::vector<size_t> offsets = CodePointOffsets(str->text());
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      items.emplace_back(str->Substr(offsets[i], offsets[i + 1] - offsets[i]));
  } else {
    Fail(fmt::format("cannot iterate over {}", TypeName(value)));
  }
  Charge(static_cast<int64_t>(items.size()));
  return items;
}

Arguments Interpreter::EvalArguments(const Node& node, size_t first) {
  NUMOE_DCHECK_EQ(node.names.size(), node.keywords.size());
  Arguments args;
  for (size_t i = first; i < node.args.size(); ++i) args.positional.push_back(Eval(*node.args[i]));
  for (size_t i = 0; i < node.keywords.size(); ++i)
    args.keywords.emplace_back(node.names[i], Eval(*node.keywords[i]));
  return args;
}

Value Interpreter::EvalCall(const Node& node) {
  NUMOE_DCHECK(!node.args.empty());
  const Value callee = Eval(*node.args[0]);
  const Arguments args = EvalArguments(node, 1);
  if (failed()) return {};
  line_ = node.line;
  if (const auto* macro = callee.If<Macro>()) return CallMacro(*macro->node, args);
  if (const auto* callable = callee.If<Callable>()) {
    return callable->self == nullptr ? RunFunction(*this, callable->name, args)
                                     : RunMethod(*this, callable->name, *callable->self, args);
  }
  if (callee.undefined())
    return Fail(fmt::format("'{}' is undefined: cannot call it", std::get<Undefined>(callee.data).name));
  return Fail(fmt::format("cannot call {}", TypeName(callee)));
}

Value Interpreter::CallMacro(const Node& macro, const Arguments& args) {
  NUMOE_DCHECK(macro.kind == Kind::kMacro && macro.names.size() == macro.args.size());
  NUMOE_CHECK_GE(scopes_.size(), 2u) << "the globals and the template's own names stay";
  if (args.positional.size() > macro.names.size()) {
    return Fail(fmt::format("macro {} takes {} arguments, found {}", macro.text, macro.names.size(),
                            args.positional.size()));
  }
  // A macro sees the globals and the template's own names, not its caller's.
  std::vector<Scope> saved(std::make_move_iterator(scopes_.begin() + 2),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(2);
  scopes_.emplace_back();
  for (size_t i = 0; i < macro.names.size(); ++i) {
    const Value* given = args.Get(i, macro.names[i]);
    Value value = given != nullptr           ? *given
                  : macro.args[i] != nullptr ? Eval(*macro.args[i])
                                             : Value(Undefined{macro.names[i]});
    scopes_.back()[macro.names[i]] = std::move(value);
  }
  if (++depth_ > limits::kTemplateDepthMax)
    Fail(fmt::format("macro {} calls itself deeper than {}", macro.text, limits::kTemplateDepthMax));
  Str text = failed() ? Str() : Capture(macro.blocks[0]);
  --depth_;
  scopes_.resize(2);
  scopes_.insert(scopes_.end(), std::make_move_iterator(saved.begin()), std::make_move_iterator(saved.end()));
  return Value(std::move(text));
}

Value Interpreter::ApplyFilter(const std::string& name, const Value& input, const Arguments& args) {
  return RunFilter(*this, name, input, args);
}
bool Interpreter::ApplyTest(const std::string& name, const Value& input, const Arguments& args) {
  return RunTest(*this, name, input, args);
}

}  // namespace numoe::jinja
