#include "coordinator/text/chat/jinja_evaluator.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_operators.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {
namespace {

// The scopes that stay: the globals, and the template's own names.
constexpr int64_t kSharedScopes = 2;

}  // namespace

Evaluator::Evaluator(Scope variables) {
  scopes_.push_back(std::make_shared<Scope>(std::move(variables)));
  OpenScope();
  NUMOE_DCHECK_EQ(static_cast<int64_t>(scopes_.size()), kSharedScopes);
}

Evaluator::~Evaluator() {
  for (const std::shared_ptr<Scope>& scope : captured_) {
    const Scope emptied = std::exchange(*scope, {});
  }
}

Scopes Evaluator::EnterClosure(const Scopes& closure) {
  Scopes inside(scopes_.begin(), scopes_.begin() + kSharedScopes);
  inside.insert(inside.end(), closure.begin(), closure.end());
  return std::exchange(scopes_, std::move(inside));
}

std::shared_ptr<const Scopes> Evaluator::Closure() {
  NUMOE_CHECK_GE(static_cast<int64_t>(scopes_.size()), kSharedScopes)
      << "the globals and the template's own names must stay";
  auto closure = std::make_shared<Scopes>(scopes_.begin() + kSharedScopes, scopes_.end());
  rendering_.Charge(static_cast<int64_t>(closure->size()));
  captured_.insert(captured_.end(), closure->begin(), closure->end());
  return closure;
}

bool Evaluator::Enter() {
  if (depth_ >= limits::kTemplateDepthMax)
    Fail(fmt::format("calls nested deeper than {} levels", limits::kTemplateDepthMax));
  if (failed()) return false;
  ++depth_;
  return true;
}

Value Evaluator::Eval(const Node& node) {
  if (!Enter()) return {};
  Value value;
  if (rendering_.Charge(1)) {
    rendering_.At(node.line);
    value = EvalKind(node);
  }
  Leave();
  return failed() ? Value() : value;
}

Value Evaluator::EvalKind(const Node& node) {
  switch (node.kind) {
    case Kind::kLiteral:
      return node.value;
    case Kind::kName:
      return Name(node.text);
    case Kind::kBody:
      return Value(body_);
    case Kind::kList:
      return Value::NewList(EvalItems(node));
    case Kind::kTuple:
      return Value::NewTuple(EvalItems(node));
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
    case Kind::kCall: {
      const Value callee = Eval(*node.args[0]);
      const Arguments args = EvalArguments(node, 1);
      rendering_.At(node.line);
      return failed() ? Value() : Call(callee, args);
    }
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

Value Evaluator::Name(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = (*scope)->find(name);
    if (it != (*scope)->end()) return it->second;
  }
  if (IsFunction(name)) return Callable{name, nullptr};
  return Undefined{name};
}

List Evaluator::EvalItems(const Node& node) {
  List items;
  for (const NodePtr& arg : node.args) items.push_back(Eval(*arg));
  return items;
}

Value Evaluator::EvalDict(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size() % 2, 0u);
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < node.args.size(); i += 2) {
    const Value key = Eval(*node.args[i]);
    if (!Hashable(key)) return Fail(fmt::format("{} cannot be a key", TypeName(key)));
    dict->Set(key, Eval(*node.args[i + 1]));
  }
  return Value(dict);
}

Value Evaluator::EvalSlice(const Node& node) {
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

Value Evaluator::EvalBinary(const Node& node) {
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

Value Evaluator::EvalCompare(const Node& node) {
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

Arguments Evaluator::EvalArguments(const Node& node, size_t first) {
  NUMOE_DCHECK_LE(first, node.args.size());
  NUMOE_DCHECK_EQ(node.names.size(), node.keywords.size());
  Arguments args;
  for (size_t i = first; i < node.args.size(); ++i) args.positional.push_back(Eval(*node.args[i]));
  for (size_t i = 0; i < node.keywords.size(); ++i) {
    Value value = Eval(*node.keywords[i]);
    if (node.names[i] == "*") {
      const List items = Iterate(rendering_, value);
      args.positional.insert(args.positional.end(), items.begin(), items.end());
    } else if (node.names[i] != "**") {
      args.keywords.emplace_back(node.names[i], std::move(value));
    } else if (value.dict() == nullptr) {
      Fail(fmt::format("expected a mapping after **, found {}", TypeName(value)));
    } else {
      for (const auto& [key, item] : value.dict()->items) args.keywords.emplace_back(ToStr(key).text(), item);
    }
  }
  return args;
}

Value Evaluator::Call(const Value& callee, const Arguments& args) {
  if (const auto* macro = callee.If<Macro>()) return CallMacro(*macro, args);
  if (const auto* callable = callee.If<Callable>()) {
    return callable->self == nullptr ? RunFunction(rendering_, callable->name, args)
                                     : RunMethod(rendering_, callable->name, *callable->self, args);
  }
  if (const auto* object = callee.If<std::shared_ptr<Object>>()) {
    if ((*object)->kind == Object::Kind::kLoop) return CallLoop(**object, args);
    if ((*object)->kind == Object::Kind::kBlock) return CallNamedBlock(*(*object)->node);
    if ((*object)->kind == Object::Kind::kJoiner) return Joined(**object);
  }
  if (callee.undefined())
    return Fail(fmt::format("'{}' is undefined: cannot call it", std::get<Undefined>(callee.data).name));
  return Fail(fmt::format("cannot call {}", TypeName(callee)));
}

}  // namespace numoe::text::jinja
