// Parses Jinja expressions with the precedence of Jinja2 3.1, from low to high: ternary, or, and, not,
// comparisons, sums, concatenation with ~, products, powers, signs, then postfixes and filters. It only
// builds nodes. TokenStream keeps the first error; after an error every function returns nullptr.
#pragma once

#include <string>

#include "coordinator/text/chat/jinja_token_stream.h"

namespace numoe::text::jinja {

class ExpressionParser : protected TokenStream {
 protected:
  using TokenStream::TokenStream;

  NodePtr ParseTuple(bool with_ternary = true);
  NodePtr ParseExpression();
  NodePtr ParseFilters(NodePtr node, bool bar_given = false);
  void ParseArguments(Node& call);

  MacroUses uses_ = 0;  // the names so far that have a meaning in a macro

 private:
  NodePtr MakeBinary(std::string op, NodePtr left, NodePtr right);
  NodePtr ParseOr();
  NodePtr ParseAnd();
  NodePtr ParseNot();
  NodePtr ParseCompare();
  NodePtr ParseSum();
  NodePtr ParseConcat();
  NodePtr ParseProduct();
  NodePtr ParsePower();
  NodePtr ParseUnary(bool with_filters);
  NodePtr ParsePrimary();
  NodePtr ParseNumber();
  NodePtr ParseNameOrConstant();
  NodePtr ParseParenthesis();
  NodePtr ParseListLiteral();
  NodePtr ParseDictLiteral();
  NodePtr ParsePostfix(NodePtr node);
  NodePtr ParseSubscript(NodePtr base);
  NodePtr ParseTest(NodePtr operand);
  bool StartsBareArgument() const;
};

}  // namespace numoe::text::jinja
