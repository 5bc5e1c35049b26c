// Expressions: what every front end (JSON Schema, regex, EBNF, choice) translates its source into.
//
// An arena of nodes, named by ExprId, over characters and bytes, with rules that may refer to each other in
// any order. Nodes are immutable once made; a node may be part of several others. `kBegin` and `kEnd` are a
// regular expression's anchors; they are resolved before the expression becomes part of a grammar. Limits are
// checked when the expression becomes an automaton (automaton.h). One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/grammar/codepoints.h"

namespace numoe::text::grammar {

using ExprId = int32_t;
using RuleId = int32_t;
struct Dfa;

inline constexpr int kUnbounded = -1;

enum class ExprKind : uint8_t {
  kNever,    // matches nothing at all
  kEmpty,    // matches the empty text
  kLiteral,  // `bytes`
  kChars,    // one character of `chars`
  kSequence,
  kChoice,
  kRepeat,   // parts[0], `min` to `max` times
  kRule,     // what `rule` matches
  kMachine,  // what `machine`, an automaton without calls, matches
  kGraph,    // the labels of any path along `edges` from node 0 to node `max`
  kBegin,
  kEnd,
};

struct GraphEdge {
  int from = 0;
  int to = 0;
  ExprId label = 0;
};

struct Expr {
  ExprKind kind = ExprKind::kNever;
  std::string bytes;
  CodepointSet chars;
  std::vector<ExprId> parts;
  std::vector<GraphEdge> edges;  // labels are in `parts`, too
  int min = 0;
  int max = kUnbounded;
  RuleId rule = 0;
  std::shared_ptr<const Dfa> machine;
};

struct Rule {
  std::string name;  // for error messages
  ExprId body = -1;
  bool shared = false;  // stays a call, so that its token masks are computed once for all its places
  /// A JSON string (json_syntax.h) of `min` to `max` characters; `body` has the string without the bounds,
  /// which are counted at run time.
  bool is_string = false;
  int min = 0;
  int max = kUnbounded;
};

class Expressions {
 public:
  ExprId Never() { return Add({.kind = ExprKind::kNever}); }
  ExprId Empty() { return Add({.kind = ExprKind::kEmpty}); }
  ExprId Anchor(ExprKind kind) { return Add({.kind = kind}); }
  ExprId Literal(std::string_view bytes);
  ExprId Chars(CodepointSet chars);
  /// Drops empty parts, is kNever if a part is; one part is itself.
  ExprId Sequence(const std::vector<ExprId>& parts);
  /// Drops parts that are kNever; one part is itself.
  ExprId Choice(const std::vector<ExprId>& parts);
  ExprId Repeat(ExprId part, int min, int max);
  ExprId Optional(ExprId part) { return Repeat(part, 0, 1); }
  ExprId Call(RuleId rule) { return Add({.kind = ExprKind::kRule, .rule = rule}); }
  ExprId Machine(std::shared_ptr<const Dfa> machine);
  /// For what shares parts in a way that choices and repetitions would have to copy. Drops edges that are
  /// kNever. REQUIRES: edges lie between nodes 0 and `nodes` - 1, and so does `accept`.
  ExprId Graph(std::vector<GraphEdge> edges, int nodes, int accept);

  RuleId AddRule(std::string name, bool shared);
  /// Makes `rule` a JSON string of min to max characters.
  void SetString(RuleId rule, ExprId body, int min, int max);
  void SetBody(RuleId rule, ExprId body) { rules_[static_cast<size_t>(rule)].body = body; }

  const Expr& at(ExprId id) const { return nodes_[static_cast<size_t>(id)]; }
  bool IsNever(ExprId id) const { return at(id).kind == ExprKind::kNever; }
  const std::vector<Rule>& rules() const { return rules_; }
  size_t size() const { return nodes_.size(); }

 private:
  ExprId Add(Expr node);

  std::vector<Expr> nodes_;
  std::vector<Rule> rules_;
};

}  // namespace numoe::text::grammar
