// Evaluates the expressions of a template, and has the scopes with their variables.
//
// The operations on values are functions (jinja_operators.h, jinja_access.h, jinja_builtins.h). Calls that
// run statements (macros, blocks, recursive loops) are in the Interpreter. After the first error everything
// returns undefined. Scopes are shared with the closures of macros. Scopes in a closure are emptied at the
// end, because a macro may be a variable of a scope in its own closure (a cycle of references). Belongs to
// one thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_rendering.h"

namespace numoe::text::jinja {

class Evaluator {
 public:
  Evaluator(const Evaluator&) = delete;

 protected:
  explicit Evaluator(Scope variables);
  virtual ~Evaluator();

  Value Eval(const Node& node);
  virtual Value CallMacro(const Macro& macro, const Arguments& args) = 0;
  virtual Value CallLoop(const Object& loop, const Arguments& args) = 0;
  virtual Value CallNamedBlock(const Node& block) = 0;

  Value Call(const Value& callee, const Arguments& args);
  Arguments EvalArguments(const Node& node, size_t first);
  void Bind(const std::string& name, Value value) { (*scopes_.back())[name] = std::move(value); }
  void OpenScope() { scopes_.push_back(std::make_shared<Scope>()); }
  void CloseScope() {
    NUMOE_DCHECK_GT(scopes_.size(), 2u);
    scopes_.pop_back();
  }
  /// Replaces the scopes by the globals, the template's own names and the scopes of `closure`. Returns the
  /// previous scopes for LeaveClosure.
  Scopes EnterClosure(const Scopes& closure);
  void LeaveClosure(Scopes saved) { scopes_ = std::move(saved); }
  /// Returns the other scopes (except the globals and the template's own names) for a macro or loop.
  std::shared_ptr<const Scopes> Closure();

  Value Fail(const std::string& what) { return rendering_.Fail(what); }
  bool failed() const { return rendering_.failed(); }
  /// Begins a call. Returns false if calls are nested too deeply; otherwise Leave must follow.
  bool Enter();
  void Leave() {
    --depth_;
    NUMOE_DCHECK_GE(depth_, 0);
  }

  Str body_;  // the text that a filter block captured
  Rendering rendering_;

 private:
  Value EvalKind(const Node& node);
  List EvalItems(const Node& node);
  Value EvalDict(const Node& node);
  Value EvalSlice(const Node& node);
  Value EvalBinary(const Node& node);
  Value EvalCompare(const Node& node);
  Value Name(const std::string& name) const;

  Scopes scopes_;    // the globals, the template's own names, and the scopes of the running statements
  Scopes captured_;  // the scopes in closures
  int depth_ = 0;
};

}  // namespace numoe::text::jinja
