// Runs a parsed template on a set of variables.
//
// One Interpreter renders once. The first error stops it: everything returns undefined from there on and
// Render reports it with its line. Bounded in steps, output bytes and depth (limits::kTemplate*), so that no
// template or request can hang or grow the server. The template and variables are only read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/chat/jinja_ast.h"

namespace numoe::jinja {

/// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  /// The i-th positional, or the keyword; nullptr if neither is given.
  const Value* Get(size_t i, std::string_view name) const;
  /// The same as text; `fallback` if it is not given or none.
  std::string Text(size_t i, std::string_view name, const std::string& fallback) const;
};

class Interpreter {
 public:
  explicit Interpreter(std::map<std::string, Value> variables);

  absl::StatusOr<Str> Render(const Block& block);

  // For filters, tests, functions and methods (jinja_builtins.h).
  Value Fail(const std::string& what);
  bool failed() const { return !status_.ok(); }
  Value ApplyFilter(const std::string& name, const Value& input, const Arguments& args);
  bool ApplyTest(const std::string& name, const Value& input, const Arguments& args);
  /// a.name or a['name'] as filters with attribute= see it; dots descend.
  Value Lookup(const Value& base, const Str& path);
  Value Attribute(const Value& base, const std::string& name);
  Value Item(const Value& base, const Value& key);
  /// What a for loop sees; fails for values that cannot be iterated.
  List Iterate(const Value& value);
  bool Charge(int64_t steps);
  /// A step, and more for much text: what multiplies text calls it for each piece, before it holds all of
  /// them.
  bool ChargeText(size_t bytes) { return Charge(1 + static_cast<int64_t>(bytes / 64)); }
  /// Whether `container` (a list's or dict's address) may take `value` in: fails where a value would hold
  /// itself, which counted references never free and printing never ends, and where lists are nested too
  /// deeply.
  bool MayHold(const void* container, const Value& value, int depth = 0);

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
  Value EvalUnary(const Node& node);
  Value EvalBinary(const Node& node);
  Value EvalCompare(const Node& node);
  bool CompareOne(const std::string& op, const Value& a, const Value& b);
  Value EvalCall(const Node& node);
  Value CallMacro(const Node& macro, const Arguments& args);
  Arguments EvalArguments(const Node& node, size_t first);
  Value Name(const std::string& name) const;

  std::vector<Scope> scopes_;
  Str output_;
  Str body_;  // what a filter block captured
  int line_ = 0;
  int depth_ = 0;
  int64_t steps_ = 0;
  absl::Status status_;
};

}  // namespace numoe::jinja
