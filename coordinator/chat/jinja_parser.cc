#include "coordinator/chat/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "coordinator/chat/jinja_lexer.h"

namespace numoe::jinja {
namespace {

// The first error is kept and everything returns from there on: a parse function may return nullptr only
// then.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    Block block = ParseBlock({});
    if (status_.ok() && Peek().kind != TokenKind::kEnd) Fail("the end of the template");
    if (!status_.ok()) return status_;
    return block;
  }

 private:
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token Next() {
    Token token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool Failed() const { return !status_.ok(); }
  NodePtr Fail(const std::string& expected) {
    if (status_.ok()) {
      const Token& t = Peek();
      status_ = absl::InvalidArgumentError(
          fmt::format("line {}: found {}, expected {}", t.line,
                      t.kind == TokenKind::kEnd ? "the end" : "'" + t.text + "'", expected));
    }
    return nullptr;
  }
  NodePtr Make(Kind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = Peek().line;
    return node;
  }
  bool IsOp(std::string_view op, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == op;
  }
  bool IsName(std::string_view name, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == name;
  }
  bool TakeOp(std::string_view op) { return IsOp(op) && (Next(), true); }
  bool TakeName(std::string_view name) { return IsName(name) && (Next(), true); }
  void ExpectOp(std::string_view op) {
    if (!TakeOp(op)) Fail(fmt::format("'{}'", op));
  }
  void ExpectBlockEnd() {
    if (Peek().kind != TokenKind::kBlockEnd) {
      Fail("%}");
      return;
    }
    Next();
  }
  std::string ExpectName() {
    if (Peek().kind != TokenKind::kName) Fail("a name");
    return Next().text;
  }

  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > limits::kTemplateDepthMax)
        parser.Fail(fmt::format("nesting of at most {}", limits::kTemplateDepthMax));
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  // --- statements ---
  // Statements up to a block tag whose name is in `ends`; that name is consumed, the rest of its tag is not.
  Block ParseBlock(std::initializer_list<std::string_view> ends) {
    const Depth depth(*this);
    Block block;
    while (!Failed()) {
      const Token& token = Peek();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) Fail(fmt::format("{}", *ends.begin()));
        break;
      }
      if (token.kind == TokenKind::kText) {
        NodePtr node = Make(Kind::kText);
        node->text = Next().text;
        block.push_back(std::move(node));
      } else if (token.kind == TokenKind::kPrintBegin) {
        Next();
        NodePtr node = Make(Kind::kPrint);
        node->args.push_back(ParseTuple());
        if (Peek().kind != TokenKind::kPrintEnd) Fail("}}");
        Next();
        block.push_back(std::move(node));
      } else if (token.kind == TokenKind::kBlockBegin) {
        Next();
        if (std::find(ends.begin(), ends.end(), Peek().text) != ends.end() && Peek().kind == TokenKind::kName)
          break;
        if (NodePtr node = ParseStatement(); node != nullptr) block.push_back(std::move(node));
      } else {
        Fail("text or a tag");
      }
    }
    return block;
  }

  NodePtr ParseStatement() {
    const std::string name = ExpectName();
    if (Failed()) return nullptr;
    if (name == "if") return ParseIf();
    if (name == "for") return ParseFor();
    if (name == "set") return ParseSet();
    if (name == "macro") return ParseMacro();
    if (name == "filter") return ParseFilterBlock();
    if (name == "generation") return ParseGeneration();
    if (name == "break" || name == "continue") {
      NodePtr node = Make(name == "break" ? Kind::kBreak : Kind::kContinue);
      ExpectBlockEnd();
      return node;
    }
    --at_;
    return Fail("if, for, set, macro, filter, generation, break or continue");
  }

  NodePtr ParseIf() {
    NodePtr node = Make(Kind::kIf);
    while (!Failed()) {
      node->args.push_back(ParseTuple());
      ExpectBlockEnd();
      node->blocks.push_back(ParseBlock({"endif", "elif", "else"}));
      const std::string end = Next().text;
      if (end == "elif") continue;
      ExpectBlockEnd();
      if (end == "else") {
        node->blocks.push_back(ParseBlock({"endif"}));
        Next();
        ExpectBlockEnd();
      }
      break;
    }
    return node;
  }

  NodePtr ParseFor() {
    NodePtr node = Make(Kind::kFor);
    const bool parenthesis = TakeOp("(");
    do {
      if (parenthesis && IsOp(")")) break;
      node->names.push_back(ExpectName());
    } while (TakeOp(","));
    if (parenthesis) ExpectOp(")");
    if (!TakeName("in")) Fail("in");
    node->args.push_back(ParseTuple(/*with_ternary=*/false));
    if (TakeName("if")) node->args.push_back(ParseExpression());
    TakeName("recursive");
    ExpectBlockEnd();
    node->blocks.push_back(ParseBlock({"endfor", "else"}));
    node->blocks.emplace_back();
    if (Next().text == "else") {
      ExpectBlockEnd();
      node->blocks[1] = ParseBlock({"endfor"});
      Next();
    }
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseTarget() {
    NodePtr target = Make(Kind::kName);
    target->text = ExpectName();
    while (TakeOp(".")) {
      NodePtr attribute = Make(Kind::kAttribute);
      attribute->text = ExpectName();
      attribute->args.push_back(std::move(target));
      target = std::move(attribute);
    }
    return target;
  }

  NodePtr ParseSet() {
    NodePtr node = Make(Kind::kSet);
    const bool parenthesis = TakeOp("(");
    do {
      node->args.push_back(ParseTarget());
    } while (TakeOp(","));
    if (parenthesis) ExpectOp(")");
    if (TakeOp("=")) {
      node->args.push_back(ParseTuple());
      ExpectBlockEnd();
      return node;
    }
    node->kind = Kind::kSetBlock;
    if (IsOp("|")) node->args.push_back(ParseFilters(Make(Kind::kBody)));
    ExpectBlockEnd();
    node->blocks.push_back(ParseBlock({"endset"}));
    Next();
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseMacro() {
    NodePtr node = Make(Kind::kMacro);
    node->text = ExpectName();
    ExpectOp("(");
    while (!Failed() && !IsOp(")")) {
      node->names.push_back(ExpectName());
      node->args.push_back(TakeOp("=") ? ParseExpression() : nullptr);
      if (!TakeOp(",")) break;
    }
    ExpectOp(")");
    ExpectBlockEnd();
    node->blocks.push_back(ParseBlock({"endmacro"}));
    Next();
    if (Peek().kind == TokenKind::kName) Next();  // {% endmacro name %}
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseFilterBlock() {
    NodePtr node = Make(Kind::kFilterBlock);
    node->args.push_back(ParseFilters(Make(Kind::kBody), /*bar_given=*/true));
    ExpectBlockEnd();
    node->blocks.push_back(ParseBlock({"endfilter"}));
    Next();
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseGeneration() {
    NodePtr node = Make(Kind::kGeneration);
    ExpectBlockEnd();
    node->blocks.push_back(ParseBlock({"endgeneration"}));
    Next();
    ExpectBlockEnd();
    return node;
  }

  // --- expressions, loosest binding first ---
  NodePtr ParseTuple(bool with_ternary = true) {
    NodePtr first = with_ternary ? ParseExpression() : ParseOr();
    if (Failed() || !IsOp(",")) return first;
    NodePtr list = Make(Kind::kList);
    list->args.push_back(std::move(first));
    while (TakeOp(",")) {
      if (Peek().kind == TokenKind::kBlockEnd || Peek().kind == TokenKind::kPrintEnd || IsOp(")")) break;
      list->args.push_back(with_ternary ? ParseExpression() : ParseOr());
    }
    return list;
  }

  NodePtr ParseExpression() {
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

  NodePtr MakeBinary(std::string op, NodePtr left, NodePtr right) {
    NodePtr node = Make(Kind::kBinary);
    node->text = std::move(op);
    node->args.push_back(std::move(left));
    node->args.push_back(std::move(right));
    return node;
  }
  NodePtr ParseOr() {
    NodePtr left = ParseAnd();
    while (!Failed() && TakeName("or")) left = MakeBinary("or", std::move(left), ParseAnd());
    return left;
  }
  NodePtr ParseAnd() {
    NodePtr left = ParseNot();
    while (!Failed() && TakeName("and")) left = MakeBinary("and", std::move(left), ParseNot());
    return left;
  }
  NodePtr ParseNot() {
    const Depth depth(*this);
    if (Failed()) return nullptr;
    if (!IsName("not")) return ParseCompare();
    NodePtr node = Make(Kind::kUnary);
    node->text = Next().text;
    node->args.push_back(ParseNot());
    return node;
  }

  NodePtr ParseCompare() {
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

  NodePtr ParseSum() {
    NodePtr left = ParseConcat();
    while (!Failed() && (IsOp("+") || IsOp("-"))) {
      std::string op = Next().text;
      left = MakeBinary(std::move(op), std::move(left), ParseConcat());
    }
    return left;
  }
  NodePtr ParseConcat() {
    NodePtr left = ParseProduct();
    while (!Failed() && TakeOp("~")) left = MakeBinary("~", std::move(left), ParseProduct());
    return left;
  }
  NodePtr ParseProduct() {
    NodePtr left = ParsePower();
    while (!Failed() && (IsOp("*") || IsOp("/") || IsOp("//") || IsOp("%"))) {
      std::string op = Next().text;
      left = MakeBinary(std::move(op), std::move(left), ParsePower());
    }
    return left;
  }
  NodePtr ParsePower() {
    NodePtr left = ParseUnary(/*with_filters=*/true);
    while (!Failed() && TakeOp("**")) left = MakeBinary("**", std::move(left), ParseUnary(true));
    return left;
  }

  NodePtr ParseUnary(bool with_filters) {
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

  NodePtr ParsePrimary() {
    const Token& token = Peek();
    if (token.kind == TokenKind::kString) {
      NodePtr node = Make(Kind::kLiteral);
      std::string text;
      while (Peek().kind == TokenKind::kString) text += Next().text;  // adjacent literals join
      node->value = Value::Text(std::move(text));
      return node;
    }
    if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) {
      NodePtr node = Make(Kind::kLiteral);
      const std::string text = Next().text;
      node->value = token.kind == TokenKind::kInteger ? Value(static_cast<int64_t>(std::stoll(text)))
                                                      : Value(std::stod(text));
      if (text.find_first_of(".eE") != std::string::npos) node->value = Value(std::stod(text));
      return node;
    }
    if (token.kind == TokenKind::kName) return ParseNameOrConstant();
    if (IsOp("(")) return ParseParenthesis();
    if (IsOp("[")) return ParseListLiteral();
    if (IsOp("{")) return ParseDictLiteral();
    return Fail("an expression");
  }

  NodePtr ParseNameOrConstant() {
    NodePtr node = Make(Kind::kLiteral);
    const std::string name = Next().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      node->value = Value(name == "true" || name == "True");
    } else if (name == "none" || name == "None") {
      node->value = Value(None{});
    } else {
      node->kind = Kind::kName;
      node->text = name;
    }
    return node;
  }
  NodePtr ParseParenthesis() {
    Next();
    if (TakeOp(")")) return Make(Kind::kList);
    NodePtr node = ParseTuple();
    ExpectOp(")");
    return node;
  }
  NodePtr ParseListLiteral() {
    NodePtr node = Make(Kind::kList);
    Next();
    while (!Failed() && !IsOp("]")) {
      node->args.push_back(ParseExpression());
      if (!TakeOp(",")) break;
    }
    ExpectOp("]");
    return node;
  }
  NodePtr ParseDictLiteral() {
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

  NodePtr ParsePostfix(NodePtr node) {
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

  NodePtr ParseSubscript(NodePtr base) {
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

  void ParseArguments(Node& call) {
    ExpectOp("(");
    while (!Failed() && !IsOp(")")) {
      if (Peek().kind == TokenKind::kName && IsOp("=", 1)) {
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

  // x | filter(args) is test: filters and tests apply left to right.
  NodePtr ParseFilters(NodePtr node, bool bar_given = false) {
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
      } else {
        break;
      }
    }
    return node;
  }

  NodePtr ParseTest(NodePtr operand) {
    Next();
    const bool negated = TakeName("not");
    NodePtr test = Make(Kind::kTest);
    test->text = ExpectName();
    test->args.push_back(std::move(operand));
    if (IsOp("(")) {
      ParseArguments(*test);
    } else if (StartsBareArgument()) {
      test->args.push_back(ParsePostfix(ParsePrimary()));
    }
    if (!negated) return test;
    NodePtr node = Make(Kind::kUnary);
    node->text = "not";
    node->args.push_back(std::move(test));
    return node;
  }
  bool StartsBareArgument() const {  // x is divisibleby 3
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace numoe::jinja
