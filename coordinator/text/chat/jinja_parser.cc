#include "coordinator/text/chat/jinja_parser.h"

#include <initializer_list>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/chat/jinja_expressions.h"

namespace numoe::text::jinja {
namespace {
// Statements; expressions are the base class's.
class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  absl::StatusOr<Block> Run() {
    Block block = ParseBlock({});
    if (status().ok() && Peek().kind != TokenKind::kEnd) Fail("the end of the template");
    if (!status().ok()) return status();
    return block;
  }

 private:
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
    Back();  // the error names the tag
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
    NUMOE_DCHECK_EQ(node->names.size(), node->args.size()) << "the interpreter takes them in pairs";
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
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace numoe::text::jinja
