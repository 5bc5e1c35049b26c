#include "coordinator/text/chat/jinja_parser.h"

#include <initializer_list>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/chat/jinja_expressions.h"

namespace numoe::text::jinja {
namespace {
// Parses statements; the base class parses expressions.
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
  // Parses statements up to a block tag whose name is in `ends`. Consumes that name, but not the rest of the
  // tag.
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
    using Rule = NodePtr (Parser::*)();
    static constexpr std::pair<std::string_view, Rule> kRules[] = {{"if", &Parser::ParseIf},
                                                                   {"for", &Parser::ParseFor},
                                                                   {"set", &Parser::ParseSet},
                                                                   {"macro", &Parser::ParseMacro},
                                                                   {"call", &Parser::ParseCallBlock},
                                                                   {"filter", &Parser::ParseFilterBlock},
                                                                   {"with", &Parser::ParseWith},
                                                                   {"block", &Parser::ParseNamedBlock},
                                                                   {"print", &Parser::ParsePrint},
                                                                   {"autoescape", &Parser::ParseAutoescape},
                                                                   {"break", &Parser::ParseBreak},
                                                                   {"generation", &Parser::ParseGeneration},
                                                                   {"continue", &Parser::ParseContinue}};
    const std::string name = ExpectName();
    if (Failed()) return nullptr;
    for (const auto& [word, rule] : kRules) {
      if (name == word) return (this->*rule)();
    }
    Back();  // the error names the tag
    return Fail(
        "if, for, set, macro, call, filter, with, block, print, autoescape, generation, break or continue");
  }

  NodePtr ParseBreak() { return ParseBare(Kind::kBreak); }
  NodePtr ParseContinue() { return ParseBare(Kind::kContinue); }
  NodePtr ParseBare(Kind kind) {
    NodePtr node = Make(kind);
    ExpectBlockEnd();
    return node;
  }

  // Parses the rest of a tag, statements, and the tag `end`.
  void ParseBody(Node& node, std::string_view end) {
    ExpectBlockEnd();
    node.blocks.push_back(ParseBlock({end}));
    Next();
  }

  NodePtr ParsePrint() {
    NodePtr node = Make(Kind::kPrint);
    do {
      node->args.push_back(ParseExpression());
    } while (TakeOp(","));
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseWith() {
    NodePtr node = Make(Kind::kWith);
    while (!Failed() && Peek().kind != TokenKind::kBlockEnd) {
      node->args.push_back(ParseTargets(/*attributes=*/false));
      ExpectOp("=");
      node->args.push_back(ParseExpression());
      if (!TakeOp(",")) break;
    }
    ParseBody(*node, "endwith");
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseNamedBlock() {
    NodePtr node = Make(Kind::kBlock);
    node->text = ExpectName();
    if (TakeName("scoped")) node->names.emplace_back("scoped");
    ParseBody(*node, "endblock");
    if (IsName(node->text)) Next();  // {% endblock name %}
    ExpectBlockEnd();
    NUMOE_DCHECK(Failed() || node->blocks.size() == 1);
    const bool again = !blocks_.insert(node->text).second;
    return again ? Fail("a block with another name, because '" + node->text + "' is already defined")
                 : std::move(node);
  }

  NodePtr ParseAutoescape() {
    NodePtr node = Make(Kind::kAutoescape);
    node->args.push_back(ParseExpression());
    ParseBody(*node, "endautoescape");
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseIf() {
    NodePtr node = Make(Kind::kIf);
    while (!Failed()) {
      node->args.push_back(ParseTuple(/*with_ternary=*/false));
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
    node->args.push_back(ParseTargets(/*attributes=*/false));
    if (!TakeName("in")) Fail("in");
    node->args.push_back(ParseTuple(/*with_ternary=*/false));
    node->args.push_back(TakeName("if") ? ParseExpression() : nullptr);
    if (TakeName("recursive")) node->text = "recursive";
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

  // Parses a name, several names in parentheses, or, with `attributes`, an attribute of a namespace.
  NodePtr ParseTarget(bool attributes) {
    const Depth depth(*this);
    if (Failed()) return nullptr;
    if (TakeOp("(")) {
      NodePtr inside = ParseTargets(attributes);
      ExpectOp(")");
      return inside;
    }
    NodePtr target = Make(Kind::kName);
    target->text = ExpectName();
    while (attributes && TakeOp(".")) {
      NodePtr attribute = Make(Kind::kAttribute);
      attribute->text = ExpectName();
      attribute->args.push_back(std::move(target));
      target = std::move(attribute);
    }
    return target;
  }

  // Parses one target, or several with commas between them.
  NodePtr ParseTargets(bool attributes) {
    NodePtr first = ParseTarget(attributes);
    if (Failed() || !IsOp(",")) return first;
    NodePtr tuple = Make(Kind::kTuple);
    tuple->args.push_back(std::move(first));
    while (TakeOp(",")) {
      if (IsOp(")")) break;
      tuple->args.push_back(ParseTarget(attributes));
    }
    return tuple;
  }

  NodePtr ParseSet() {
    NodePtr node = Make(Kind::kSet);
    node->args.push_back(ParseTargets(/*attributes=*/true));
    if (TakeOp("=")) {
      node->args.push_back(ParseTuple());
      ExpectBlockEnd();
      return node;
    }
    node->kind = Kind::kSetBlock;
    if (IsOp("|")) node->args.push_back(ParseFilters(Make(Kind::kBody)));
    ParseBody(*node, "endset");
    ExpectBlockEnd();
    return node;
  }

  void ParseParameters(Node& macro) {
    ExpectOp("(");
    while (!Failed() && !IsOp(")")) {
      macro.names.push_back(ExpectName());
      const bool has_default = TakeOp("=");
      if (!has_default && !macro.args.empty() && macro.args.back() != nullptr)
        Fail("a default value, because the parameter before has one");
      macro.args.push_back(has_default ? ParseExpression() : nullptr);
      if (!TakeOp(",")) break;
    }
    ExpectOp(")");
  }

  // Parses the body of a macro up to the tag `end`.
  void ParseMacroBody(Node& macro, std::string_view end) {
    const MacroUses outside = std::exchange(uses_, 0);
    ParseBody(macro, end);
    macro.uses = std::exchange(uses_, uses_ | outside);
    NUMOE_DCHECK_EQ(macro.names.size(), macro.args.size()) << "the interpreter uses them in pairs";
  }

  NodePtr ParseMacro() {
    NodePtr node = Make(Kind::kMacro);
    node->text = ExpectName();
    ParseParameters(*node);
    ParseMacroBody(*node, "endmacro");
    if (Peek().kind == TokenKind::kName) Next();  // {% endmacro name %}
    ExpectBlockEnd();
    return node;
  }

  NodePtr ParseCallBlock() {
    NodePtr node = Make(Kind::kCallBlock);
    NodePtr caller = Make(Kind::kMacro);
    if (IsOp("(")) ParseParameters(*caller);
    node->args.push_back(ParseExpression());
    if (!Failed() && node->args[0]->kind != Kind::kCall) return Fail("a call after 'call'");
    ParseMacroBody(*caller, "endcall");
    ExpectBlockEnd();
    node->args.push_back(std::move(caller));
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
    ParseBody(*node, "endgeneration");
    ExpectBlockEnd();
    return node;
  }

  std::set<std::string> blocks_;  // the names of blocks
};

}  // namespace

absl::StatusOr<Block> Parse(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace numoe::text::jinja
