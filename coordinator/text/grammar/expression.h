// Expressions: the common form into which every front end (JSON Schema, regex, EBNF, choice) translates its
// source.
//
// An arena of nodes over characters and bytes, with rules that may refer to each other in any order. An
// ExprId stands for a node. Nodes never change; a node may be part of several others. `kBegin` and `kEnd` are
// the anchors of regular expressions; they are resolved before the expression becomes part of a grammar.
// Limits are checked when the expression is translated into an automaton (automaton.h). Belongs to one
// thread.
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
  kRule,     // the texts of `rule`
  kMachine,  // the texts of `machine`, an automaton without calls
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
  std::vector<GraphEdge> edges;  // their labels are also in `parts`
  int min = 0;
  int max = kUnbounded;
  RuleId rule = 0;
  std::shared_ptr<const Dfa> machine;
};

struct Rule {
  std::string name;  // for error messages
  ExprId body = -1;
  bool shared = false;  // is always called, so that its token masks are computed once for all its uses
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
  /// Drops empty parts. The result is kNever if a part is; if only one part remains, it is that part.
  ExprId Sequence(const std::vector<ExprId>& parts);
  /// Drops parts that are kNever. If only one part remains, the result is that part.
  ExprId Choice(const std::vector<ExprId>& parts);
  ExprId Repeat(ExprId part, int min, int max);
  ExprId Optional(ExprId part) { return Repeat(part, 0, 1); }
  ExprId Call(RuleId rule) { return Add({.kind = ExprKind::kRule, .rule = rule}); }
  ExprId Machine(std::shared_ptr<const Dfa> machine);
  /// A graph whose paths share parts, where choices and repetitions would have to copy these. Drops edges
  /// whose label is kNever. REQUIRES: `accept` and the ends of all edges are from 0 to `nodes` - 1.
  ExprId Graph(std::vector<GraphEdge> edges, int nodes, int accept);

  RuleId AddRule(std::string name, bool shared);
  /// Makes `rule` a JSON string of `min` to `max` characters.
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
