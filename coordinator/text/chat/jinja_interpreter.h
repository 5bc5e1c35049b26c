// Runs a parsed template on a set of variables.
//
// One Interpreter renders once. It runs the statements, and evaluates expressions down to operands; what is
// then done with values are functions (jinja_operators.h, jinja_access.h, jinja_builtins.h). The first error
// stops it: everything returns undefined from there on and Render reports it with its line
// (jinja_rendering.h). Bounded in steps, output bytes and depth (limits::kTemplate*), so that no template or
// request can hang or grow the server. The template and variables are only read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_rendering.h"

namespace numoe::text::jinja {

class Interpreter {
 public:
  explicit Interpreter(std::map<std::string, Value> variables);

  absl::StatusOr<Str> Render(const Block& block);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  using Scope = std::map<std::string, Value>;

  Flow RunBlock(const Block& block);
  Flow RunNode(const Node& node);
  Flow RunIf(const Node& node);
  Flow RunFor(const Node& node);
  void RunSet(const Node& node);
  void Assign(const Node& target, Value value);
  Str Capture(const Block& block);
  void Print(const Str& text);

  Value Eval(const Node& node);
  Value EvalKind(const Node& node);
  Value EvalDict(const Node& node);
  Value EvalSlice(const Node& node);
  Value EvalBinary(const Node& node);
  Value EvalCompare(const Node& node);
  Value EvalCall(const Node& node);
  Value CallMacro(const Node& macro, const Arguments& args);
  Arguments EvalArguments(const Node& node, size_t first);
  Value Name(const std::string& name) const;

  Value Fail(const std::string& what) { return rendering_.Fail(what); }
  bool failed() const { return rendering_.failed(); }

  std::vector<Scope> scopes_;
  Str output_;
  Str body_;  // what a filter block captured
  Rendering rendering_;
  int depth_ = 0;
};

}  // namespace numoe::text::jinja
