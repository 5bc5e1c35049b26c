#include "coordinator/text/chat/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_markup.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {

absl::StatusOr<Str> Interpreter::Render(const Block& block) {
  NUMOE_DCHECK(output_.empty()) << "an Interpreter renders only once";
  auto blocks = std::make_shared<Dict>();
  blocks->is_namespace = true;
  FindNamedBlocks(block, *blocks);
  if (!blocks->items.empty()) Bind("self", Value(std::move(blocks)));
  RunBlock(block);
  if (failed()) return rendering_.status();
  return std::move(output_);
}

void Interpreter::FindNamedBlocks(const Block& block, Dict& found) {
  for (const NodePtr& node : block) {
    for (const Block& inner : node->blocks) FindNamedBlocks(inner, found);
    if (node->kind != Kind::kBlock) continue;
    auto object = std::make_shared<Object>();
    object->kind = Object::Kind::kBlock;
    object->node = node.get();
    found.Set(Value::Text(node->text), Value(std::move(object)));
  }
}

void Interpreter::Print(const Str& text) {
  output_.Append(text);
  if (output_.size() > limits::kTemplateOutputBytesMax)
    Fail(fmt::format("more than {} bytes of output", limits::kTemplateOutputBytesMax));
}

void Interpreter::PrintValue(const Value& value) {
  const Str text = ToStr(value);
  Print(rendering_.autoescape() ? Escaped(text) : text);
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

Interpreter::Flow Interpreter::RunScoped(const Block& block) {
  OpenScope();
  const Flow flow = RunBlock(block);
  CloseScope();
  return flow;
}

Interpreter::Flow Interpreter::RunNode(const Node& node) {
  rendering_.At(node.line);
  if (!rendering_.Charge(1)) return Flow::kNext;
  switch (node.kind) {
    case Kind::kText:
      Print(Str(node.text, /*trusted=*/true));
      break;
    case Kind::kPrint:
      for (const NodePtr& arg : node.args) PrintValue(Eval(*arg));
      break;
    case Kind::kIf:
      return RunIf(node);
    case Kind::kFor:
      return RunFor(node, Eval(*node.args[1]), /*depth=*/0);
    case Kind::kSet:
      Assign(*node.args[0], Eval(*node.args[1]));
      break;
    case Kind::kSetBlock:
      RunSetBlock(node);
      break;
    case Kind::kMacro:
      Bind(node.text, Value(MakeMacro(node)));
      break;
    case Kind::kCallBlock:
      RunCallBlock(node);
      break;
    case Kind::kFilterBlock:
      body_ = Capture(node.blocks[0]);
      PrintValue(Eval(*node.args[0]));
      break;
    case Kind::kWith:
      return RunWith(node);
    case Kind::kAutoescape:
      return RunAutoescape(node);
    case Kind::kBlock:
      Print(ToStr(CallNamedBlock(node)));
      break;
    case Kind::kGeneration:
      return RunScoped(node.blocks[0]);
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

// Returns the loop's items for which its condition is true.
List Interpreter::ForItems(const Node& node, const Value& iterable) {
  List items = Iterate(rendering_, iterable);
  if (node.args[2] == nullptr) return items;
  List kept;
  for (const Value& item : items) {
    OpenScope();
    Assign(*node.args[0], item);
    const bool holds = !failed() && Truthy(Eval(*node.args[2]));
    CloseScope();
    if (failed()) break;
    if (holds) kept.push_back(item);
  }
  return kept;
}

Interpreter::Flow Interpreter::RunFor(const Node& node, const Value& iterable, int64_t depth) {
  NUMOE_DCHECK(node.blocks.size() == 2 && node.args.size() == 3);
  auto loop = std::make_shared<Object>();
  loop->items = ForItems(node, iterable);
  loop->depth = depth;
  NUMOE_DCHECK_GE(depth, 0);
  if (node.text == "recursive") {
    loop->node = &node;
    loop->closure = Closure();
  }
  const auto count = static_cast<int64_t>(loop->items.size());
  for (; loop->position < count && !failed(); ++loop->position) {
    OpenScope();
    Bind("loop", Value(loop));
    Assign(*node.args[0], loop->items[static_cast<size_t>(loop->position)]);
    const Flow flow = rendering_.Charge(1) ? RunBlock(node.blocks[0]) : Flow::kBreak;
    CloseScope();
    if (flow == Flow::kBreak) break;
  }
  if (count == 0 && !failed()) return RunScoped(node.blocks[1]);
  return Flow::kNext;
}

// The values are evaluated in the outer scope, so they do not see each other's names.
Interpreter::Flow Interpreter::RunWith(const Node& node) {
  NUMOE_DCHECK_EQ(node.args.size() % 2, 0u);
  List values;
  for (size_t i = 1; i < node.args.size(); i += 2) values.push_back(Eval(*node.args[i]));
  OpenScope();
  for (size_t i = 0; i < values.size() && !failed(); ++i) Assign(*node.args[2 * i], values[i]);
  const Flow flow = RunBlock(node.blocks[0]);
  CloseScope();
  return flow;
}

Interpreter::Flow Interpreter::RunAutoescape(const Node& node) {
  const bool outside = rendering_.autoescape();
  rendering_.set_autoescape(Truthy(Eval(*node.args[0])));
  const Flow flow = RunScoped(node.blocks[0]);
  rendering_.set_autoescape(outside);
  return flow;
}

void Interpreter::RunSetBlock(const Node& node) {
  Str text = Capture(node.blocks[0]);
  if (node.args.size() == 1) return Assign(*node.args[0], Value(std::move(text)));
  body_ = std::move(text);
  Assign(*node.args[0], Eval(*node.args[1]));
}

void Interpreter::RunCallBlock(const Node& node) {
  NUMOE_DCHECK(node.args.size() == 2 && node.args[0]->kind == Kind::kCall);
  const Value callee = Eval(*node.args[0]->args[0]);
  Arguments args = EvalArguments(*node.args[0], 1);
  args.keywords.emplace_back("caller", Value(MakeMacro(*node.args[1])));
  if (!failed()) PrintValue(Call(callee, args));
}

void Interpreter::Assign(const Node& target, Value value) {
  if (failed()) return;
  if (target.kind == Kind::kName) return Bind(target.text, std::move(value));
  if (target.kind == Kind::kAttribute) return AssignAttribute(target, std::move(value));
  NUMOE_DCHECK(target.kind == Kind::kTuple);
  const List parts = Iterate(rendering_, value);
  if (parts.size() != target.args.size()) {
    Fail(fmt::format("cannot unpack {} of {} items into {} names", TypeName(value), parts.size(),
                     target.args.size()));
  }
  for (size_t i = 0; i < target.args.size() && !failed(); ++i) Assign(*target.args[i], parts[i]);
}

void Interpreter::AssignAttribute(const Node& target, Value value) {
  NUMOE_DCHECK_EQ(target.args.size(), 1u);
  const Value base = Eval(*target.args[0]);
  const auto* dict = base.If<std::shared_ptr<Dict>>();
  if (dict == nullptr || !(*dict)->is_namespace) {
    Fail(fmt::format("cannot set attribute '{}' of {}: only namespace() objects can be changed", target.text,
                     TypeName(base)));
    return;
  }
  if (MayHold(rendering_, dict->get(), value)) (*dict)->Set(Value::Text(target.text), std::move(value));
}

// Returns the text that the block prints; it is markup if output is escaped.
Str Interpreter::Capture(const Block& block) {
  Str saved = std::exchange(output_, {});
  RunScoped(block);
  return std::exchange(output_, std::move(saved)).AsMarkup(rendering_.autoescape());
}

// --- calls ---

Macro Interpreter::MakeMacro(const Node& node) {
  NUMOE_DCHECK(node.kind == Kind::kMacro && node.names.size() == node.args.size());
  return {.node = &node, .closure = Closure(), .autoescape = rendering_.autoescape()};
}

void Interpreter::BindParameters(const Macro& macro, const Arguments& args) {
  const Node& node = *macro.node;
  NUMOE_DCHECK(node.kind == Kind::kMacro && !node.blocks.empty());
  for (size_t i = 0; i < node.names.size(); ++i) {
    const Value* given = args.Get(i, node.names[i]);
    const bool twice = i < args.positional.size() &&
                       std::any_of(args.keywords.begin(), args.keywords.end(),
                                   [&](const auto& keyword) { return keyword.first == node.names[i]; });
    if (twice && (node.uses & kUsesKwargs) == 0)
      Fail(fmt::format("macro {}: the argument '{}' is given twice", node.text, node.names[i]));
    Value value = given != nullptr          ? *given
                  : node.args[i] != nullptr ? Eval(*node.args[i])
                                            : Value(Undefined{node.names[i]});
    Bind(node.names[i], std::move(value));
  }
}

// Binds varargs, kwargs and caller if the macro's body uses them; otherwise such arguments are an error.
void Interpreter::BindSpecialParameters(const Node& macro, const Arguments& args) {
  const auto has = [&](const std::string& name) {
    return std::find(macro.names.begin(), macro.names.end(), name) != macro.names.end();
  };
  List more;
  for (size_t i = macro.names.size(); i < args.positional.size(); ++i) more.push_back(args.positional[i]);
  if (!more.empty() && (macro.uses & kUsesVarargs) == 0) {
    Fail(fmt::format("macro {} takes {} arguments, found {}", macro.text, macro.names.size(),
                     args.positional.size()));
  }
  Value caller = Undefined{"caller"};
  auto named = std::make_shared<Dict>();
  const bool takes_caller = (macro.uses & kUsesCaller) != 0 && !has("caller");
  for (const auto& [name, value] : args.keywords) {
    if (takes_caller && name == "caller") {
      caller = value;
    } else if (!has(name)) {
      if ((macro.uses & kUsesKwargs) == 0)
        Fail(fmt::format("macro {} takes no argument '{}'", macro.text, name));
      named->Set(Value::Text(name), value);
    }
  }
  if ((macro.uses & kUsesVarargs) != 0 && !has("varargs")) Bind("varargs", Value::NewTuple(std::move(more)));
  if ((macro.uses & kUsesKwargs) != 0 && !has("kwargs")) Bind("kwargs", Value(std::move(named)));
  if (takes_caller) Bind("caller", std::move(caller));
}

Value Interpreter::CallMacro(const Macro& macro, const Arguments& args) {
  if (!Enter()) return {};
  Scopes saved = EnterClosure(*macro.closure);
  OpenScope();
  const bool outside = rendering_.autoescape();
  rendering_.set_autoescape(macro.autoescape);
  BindParameters(macro, args);
  if (!failed()) BindSpecialParameters(*macro.node, args);
  const Str text = failed() ? Str() : Capture(macro.node->blocks[0]);
  rendering_.set_autoescape(outside);
  LeaveClosure(std::move(saved));
  Leave();
  return Value(text.AsMarkup(outside));
}

Value Interpreter::CallLoop(const Object& loop, const Arguments& args) {
  if (loop.node == nullptr) return Fail("only a recursive loop can be called ({% for ... recursive %})");
  if (args.positional.size() != 1)
    return Fail("loop: expected one argument, the items for the recursive loop");
  if (!Enter()) return {};
  Scopes saved = EnterClosure(*loop.closure);
  Str output = std::exchange(output_, {});
  RunFor(*loop.node, args.positional[0], loop.depth + 1);
  const Str text = std::exchange(output_, std::move(output)).AsMarkup(rendering_.autoescape());
  LeaveClosure(std::move(saved));
  Leave();
  return Value(text);
}

// Renders a block. It sees the template's own names; it sees those of the statements around it only if it is
// scoped.
Value Interpreter::CallNamedBlock(const Node& block) {
  NUMOE_DCHECK(block.kind == Kind::kBlock);
  if (!Enter()) return {};
  Scopes saved = EnterClosure(block.names.empty() ? Scopes() : *Closure());
  const bool outside = rendering_.autoescape();
  rendering_.set_autoescape(false);  // a block does not inherit the setting around it
  const Str text = Capture(block.blocks[0]);
  rendering_.set_autoescape(outside);
  LeaveClosure(std::move(saved));
  Leave();
  return Value(text.AsMarkup(outside));
}

}  // namespace numoe::text::jinja
