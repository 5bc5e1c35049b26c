#include "coordinator/text/chat/jinja_expressions.h"

#include <cstdlib>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_number_text.h"

namespace numoe::text::jinja {

NodePtr ExpressionParser::ParseTuple(bool with_ternary) {
  NodePtr first = with_ternary ? ParseExpression() : ParseOr();
  if (Failed() || !IsOp(",")) return first;
  NodePtr tuple = Make(Kind::kTuple);
  tuple->args.push_back(std::move(first));
  while (TakeOp(",")) {
    if (Peek().kind == TokenKind::kBlockEnd || Peek().kind == TokenKind::kPrintEnd || IsOp(")") ||
        IsOp("]") || (!with_ternary && (IsName("if") || IsName("recursive"))))
      break;
    tuple->args.push_back(with_ternary ? ParseExpression() : ParseOr());
  }
  return tuple;
}

NodePtr ExpressionParser::ParseExpression() {
  const Depth depth(*this);
  if (Failed()) return nullptr;
  NodePtr value = ParseOr();
  while (!Failed() && IsName("if")) {
    NodePtr node = Make(Kind::kTernary);
    Next();
    node->args.push_back(ParseOr());
    node->args.push_back(std::move(value));
    node->args.push_back(TakeName("else") ? ParseExpression() : nullptr);
    value = std::move(node);
  }
  return value;
}

NodePtr ExpressionParser::MakeBinary(std::string op, NodePtr left, NodePtr right) {
  NUMOE_DCHECK(Failed() || (left != nullptr && right != nullptr)) << op;
  NodePtr node = Make(Kind::kBinary);
  node->text = std::move(op);
  node->args.push_back(std::move(left));
  node->args.push_back(std::move(right));
  return node;
}

NodePtr ExpressionParser::ParseOr() {
  NodePtr left = ParseAnd();
  while (!Failed() && TakeName("or")) left = MakeBinary("or", std::move(left), ParseAnd());
  return left;
}

NodePtr ExpressionParser::ParseAnd() {
  NodePtr left = ParseNot();
  while (!Failed() && TakeName("and")) left = MakeBinary("and", std::move(left), ParseNot());
  return left;
}

NodePtr ExpressionParser::ParseNot() {
  const Depth depth(*this);
  if (Failed()) return nullptr;
  if (!IsName("not")) return ParseCompare();
  NodePtr node = Make(Kind::kUnary);
  node->text = Next().text;
  node->args.push_back(ParseNot());
  return node;
}

NodePtr ExpressionParser::ParseCompare() {
  NodePtr first = ParseSum();
  NodePtr node;
  while (!Failed()) {
    std::string op;
    if (Peek().kind == TokenKind::kOperator) {
      for (const std::string_view candidate : {"==", "!=", "<=", ">=", "<", ">"}) {
        if (op.empty() && TakeOp(candidate)) op = candidate;
      }
    } else if (TakeName("in")) {
      op = "in";
    } else if (IsName("not") && IsName("in", 1)) {
      Next();
      Next();
      op = "not in";
    }
    if (op.empty()) break;
    if (node == nullptr) {
      node = Make(Kind::kCompare);
      node->args.push_back(std::move(first));
    }
    node->names.push_back(op);
    node->args.push_back(ParseSum());
  }
  return node == nullptr ? std::move(first) : std::move(node);
}

NodePtr ExpressionParser::ParseSum() {
  NodePtr left = ParseConcat();
  while (!Failed() && (IsOp("+") || IsOp("-"))) {
    std::string op = Next().text;
    left = MakeBinary(std::move(op), std::move(left), ParseConcat());
  }
  return left;
}

NodePtr ExpressionParser::ParseConcat() {
  NodePtr left = ParseProduct();
  while (!Failed() && TakeOp("~")) left = MakeBinary("~", std::move(left), ParseProduct());
  return left;
}

NodePtr ExpressionParser::ParseProduct() {
  NodePtr left = ParsePower();
  while (!Failed() && (IsOp("*") || IsOp("/") || IsOp("//") || IsOp("%"))) {
    std::string op = Next().text;
    left = MakeBinary(std::move(op), std::move(left), ParsePower());
  }
  return left;
}

NodePtr ExpressionParser::ParsePower() {
  NodePtr left = ParseUnary(/*with_filters=*/true);
  while (!Failed() && TakeOp("**")) left = MakeBinary("**", std::move(left), ParseUnary(true));
  return left;
}

NodePtr ExpressionParser::ParseUnary(bool with_filters) {
  const Depth depth(*this);
  if (Failed()) return nullptr;
  NodePtr node;
  if (IsOp("-") || IsOp("+")) {
    node = Make(Kind::kUnary);
    node->text = Next().text;
    node->args.push_back(ParseUnary(/*with_filters=*/false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filters ? ParseFilters(std::move(node)) : std::move(node);
}

NodePtr ExpressionParser::ParsePrimary() {
  const Token& token = Peek();
  if (token.kind == TokenKind::kString) {
    NodePtr node = Make(Kind::kLiteral);
    std::string text;
    while (Peek().kind == TokenKind::kString) text += Next().text;  // adjacent literals are joined
    node->value = Value::Text(std::move(text));
    return node;
  }
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
    return ParseNumber();
  }
  if (token.kind == TokenKind::kName) return ParseNameOrConstant();
  if (IsOp("(")) return ParseParenthesis();
  if (IsOp("[")) return ParseListLiteral();
  if (IsOp("{")) return ParseDictLiteral();
  return Fail("an expression");
}

NodePtr ExpressionParser::ParseNumber() {
  NodePtr node = Make(Kind::kLiteral);
  const std::string text = Peek().text;
  if (Peek().kind == TokenKind::kFloat) {
    node->value =
        Value(std::strtod(text.c_str(), nullptr));  // numbers beyond the range are infinity, as in Python
  } else {
    const std::optional<int64_t> number = ReadInteger(text, 0).integer;
    if (!number) return Fail("an integer of 64 bits");
    node->value = Value(*number);
  }
  Next();
  return node;
}

NodePtr ExpressionParser::ParseNameOrConstant() {
  NodePtr node = Make(Kind::kLiteral);
  Token token = Next();
  const std::string_view name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->value = Value(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    node->value = Value(None{});
  } else {
    for (const auto& [special, use] : {std::pair<std::string_view, MacroUses>("varargs", kUsesVarargs),
                                       {"kwargs", kUsesKwargs},
                                       {"caller", kUsesCaller}}) {
      if (name == special) uses_ |= use;
    }
    node->kind = Kind::kName;
    node->text = std::move(token.text);
  }
  return node;
}

NodePtr ExpressionParser::ParseParenthesis() {
  Next();
  if (TakeOp(")")) return Make(Kind::kTuple);
  NodePtr node = ParseTuple();
  ExpectOp(")");
  return node;
}

NodePtr ExpressionParser::ParseListLiteral() {
  NodePtr node = Make(Kind::kList);
  Next();
  while (!Failed() && !IsOp("]")) {
    node->args.push_back(ParseExpression());
    if (!TakeOp(",")) break;
  }
  ExpectOp("]");
  return node;
}

NodePtr ExpressionParser::ParseDictLiteral() {
  NodePtr node = Make(Kind::kDict);
  Next();
  while (!Failed() && !IsOp("}")) {
    node->args.push_back(ParseExpression());
    ExpectOp(":");
    node->args.push_back(ParseExpression());
    if (!TakeOp(",")) break;
  }
  ExpectOp("}");
  return node;
}

NodePtr ExpressionParser::ParsePostfix(NodePtr node) {
  NUMOE_DCHECK(Failed() || node != nullptr);
  while (!Failed()) {
    if (IsOp(".")) {
      Next();
      NodePtr outer = Make(Kind::kAttribute);
      if (Peek().kind == TokenKind::kInteger) {
        outer->kind = Kind::kItem;
        outer->args.push_back(std::move(node));
        outer->args.push_back(ParsePrimary());
      } else {
        outer->text = ExpectName();
        outer->args.push_back(std::move(node));
      }
      node = std::move(outer);
    } else if (IsOp("[")) {
      node = ParseSubscript(std::move(node));
    } else if (IsOp("(")) {
      NodePtr call = Make(Kind::kCall);
      call->args.push_back(std::move(node));
      ParseArguments(*call);
      node = std::move(call);
    } else {
      break;
    }
  }
  return node;
}

NodePtr ExpressionParser::ParseSubscript(NodePtr base) {
  NUMOE_DCHECK(IsOp("[") && base != nullptr);
  NodePtr node = Make(Kind::kItem);
  Next();
  node->args.push_back(std::move(base));
  if (!IsOp(":")) node->args.push_back(ParseTuple());
  if (IsOp(":")) {
    node->kind = Kind::kSlice;
    if (node->args.size() == 1) node->args.push_back(nullptr);
    while (!Failed() && TakeOp(":")) {
      node->args.push_back(IsOp(":") || IsOp("]") ? nullptr : ParseExpression());
    }
    node->args.resize(4);
  }
  ExpectOp("]");
  return node;
}

void ExpressionParser::ParseArguments(Node& call) {
  ExpectOp("(");
  while (!Failed() && !IsOp(")")) {
    if (IsOp("*") || IsOp("**")) {
      call.names.push_back(Next().text);
      call.keywords.push_back(ParseExpression());
    } else if (Peek().kind == TokenKind::kName && IsOp("=", 1)) {
      call.names.push_back(Next().text);
      Next();
      call.keywords.push_back(ParseExpression());
    } else {
      call.args.push_back(ParseExpression());
    }
    if (!TakeOp(",")) break;
  }
  ExpectOp(")");
}

// Parses x | filter(args) is test. Filters and tests are applied from left to right.
NodePtr ExpressionParser::ParseFilters(NodePtr node, bool bar_given) {
  NUMOE_DCHECK(Failed() || node != nullptr);
  while (!Failed()) {
    if (bar_given || TakeOp("|")) {
      bar_given = false;
      NodePtr filter = Make(Kind::kFilter);
      filter->text = ExpectName();
      filter->args.push_back(std::move(node));
      if (IsOp("(")) ParseArguments(*filter);
      node = std::move(filter);
    } else if (IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (IsOp("(")) {  // a call of the filter's result
      NodePtr call = Make(Kind::kCall);
      call->args.push_back(std::move(node));
      ParseArguments(*call);
      node = std::move(call);
    } else {
      break;
    }
  }
  return node;
}

NodePtr ExpressionParser::ParseTest(NodePtr operand) {
  NUMOE_DCHECK(Failed() || operand != nullptr);
  Next();
  const bool negated = TakeName("not");
  NodePtr test = Make(Kind::kTest);
  test->text = ExpectName();
  test->args.push_back(std::move(operand));
  if (IsOp("(")) {
    ParseArguments(*test);
  } else if (IsName("is")) {
    return Fail("the end of the expression, because tests cannot be chained");
  } else if (StartsBareArgument()) {
    test->args.push_back(ParsePostfix(ParsePrimary()));
  }
  if (!negated) return test;
  NodePtr node = Make(Kind::kUnary);
  node->text = "not";
  node->args.push_back(std::move(test));
  return node;
}

bool ExpressionParser::StartsBareArgument() const {  // x is divisibleby 3
  const Token& t = Peek();
  if (t.kind == TokenKind::kName) {
    for (const std::string_view word : {"and", "or", "else", "if", "is", "in", "not"}) {
      if (t.text == word) return false;
    }
    return true;
  }
  return t.kind == TokenKind::kString || t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat ||
         IsOp("[") || IsOp("{");
}

}  // namespace numoe::text::jinja
