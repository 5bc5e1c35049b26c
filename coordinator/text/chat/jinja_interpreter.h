// Runs a parsed template with a set of variables.
//
// An Interpreter renders once. It runs the statements; its base class evaluates expressions
// (jinja_evaluator.h). The first error stops it, and Render returns that error with its line
// (jinja_rendering.h). Steps, output bytes and depth are bounded (limits::kTemplate*), so that no template or
// request can hang the server or exhaust its memory. A block is rendered in its place, because there are no
// other templates to inherit from. The template and variables are only read.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_evaluator.h"

namespace numoe::text::jinja {

class Interpreter final : private Evaluator {
 public:
  explicit Interpreter(Scope variables) : Evaluator(std::move(variables)) {}

  absl::StatusOr<Str> Render(const Block& block);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Flow RunBlock(const Block& block);
  Flow RunScoped(const Block& block);
  Flow RunNode(const Node& node);
  Flow RunIf(const Node& node);
  Flow RunFor(const Node& node, const Value& iterable, int64_t depth);
  List ForItems(const Node& node, const Value& iterable);
  Flow RunWith(const Node& node);
  Flow RunAutoescape(const Node& node);
  void RunSetBlock(const Node& node);
  void RunCallBlock(const Node& node);
  void FindNamedBlocks(const Block& block, Dict& found);
  void Assign(const Node& target, Value value);
  void AssignAttribute(const Node& target, Value value);
  Str Capture(const Block& block);
  void Print(const Str& text);
  void PrintValue(const Value& value);
  Macro MakeMacro(const Node& node);
  void BindParameters(const Macro& macro, const Arguments& args);
  void BindSpecialParameters(const Node& macro, const Arguments& args);

  Value CallMacro(const Macro& macro, const Arguments& args) override;
  Value CallLoop(const Object& loop, const Arguments& args) override;
  Value CallNamedBlock(const Node& block) override;

  Str output_;
};

}  // namespace numoe::text::jinja
