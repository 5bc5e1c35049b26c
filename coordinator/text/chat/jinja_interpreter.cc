#include "coordinator/text/chat/jinja_interpreter.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_operators.h"

namespace numoe::text::jinja {

Interpreter::Interpreter(std::map<std::string, Value> variables) {
  scopes_.push_back(std::move(variables));
  scopes_.emplace_back();  // the template's own names
  NUMOE_DCHECK_EQ(scopes_.size(), 2u);
}

absl::StatusOr<Str> Interpreter::Render(const Block& block) {
  RunBlock(block);
  if (failed()) return rendering_.status();
  return std::move(output_);
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
  rendering_.At(node.line);
  if (!rendering_.Charge(1)) return Flow::kNext;
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
  List items = Iterate(rendering_, Eval(*node.args[0]));
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
    if (failed() || !rendering_.Charge(1)) break;
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
  if (MayHold(rendering_, dict->get(), value)) (*dict)->Set(Value::Text(target.text), std::move(value));
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
  if (rendering_.Charge(1)) {
    rendering_.At(node.line);
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
      return Attribute(rendering_, Eval(*node.args[0]), node.text);
    case Kind::kItem: {
      const Value base = Eval(*node.args[0]);
      return Item(rendering_, base, Eval(*node.args[1]));
    }
    case Kind::kSlice:
      return EvalSlice(node);
    case Kind::kCall:
      return EvalCall(node);
    case Kind::kFilter: {
      const Value input = Eval(*node.args[0]);
      const Arguments args = EvalArguments(node, 1);
      return failed() ? Value() : RunFilter(rendering_, node.text, input, args);
    }
    case Kind::kTest: {
      const Value input = Eval(*node.args[0]);
      const Arguments args = EvalArguments(node, 1);
      return failed() ? Value() : Value(RunTest(rendering_, node.text, input, args));
    }
    case Kind::kUnary: {
      const Value value = Eval(*node.args[0]);
      return failed() ? Value() : UnaryOperator(rendering_, node.text, value);
    }
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

Value Interpreter::EvalSlice(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size(), 4u);
  const Value base = Eval(*node.args[0]);
  if (failed() || !CanSlice(rendering_, base)) return {};
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3 && !failed(); ++i) {
    if (node.args[i + 1] != nullptr) bounds[i] = SliceBound(rendering_, Eval(*node.args[i + 1]));
  }
  if (failed()) return {};
  return Slice(rendering_, base, {.begin = bounds[0], .end = bounds[1], .step = bounds[2]});
}

Value Interpreter::EvalBinary(const Node& node) {
  const std::string& op = node.text;
  NUMOE_DCHECK_EQ(node.args.size(), 2u);
  const Value a = Eval(*node.args[0]);
  if (op == "and") return Truthy(a) ? Eval(*node.args[1]) : a;
  if (op == "or") return Truthy(a) ? a : Eval(*node.args[1]);
  const Value b = Eval(*node.args[1]);
  if (failed()) return {};
  rendering_.At(node.line);
  return BinaryOperator(rendering_, op, a, b);
}

Value Interpreter::EvalCompare(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size(), node.names.size() + 1);
  Value left = Eval(*node.args[0]);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = Eval(*node.args[i + 1]);
    if (failed()) return {};
    if (!ComparisonHolds(rendering_, node.names[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
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
  rendering_.At(node.line);
  if (const auto* macro = callee.If<Macro>()) return CallMacro(*macro->node, args);
  if (const auto* callable = callee.If<Callable>()) {
    return callable->self == nullptr ? RunFunction(rendering_, callable->name, args)
                                     : RunMethod(rendering_, callable->name, *callable->self, args);
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

}  // namespace numoe::text::jinja
