// TokenStream: the position of a Jinja parser in its tokens, and its first error.
//
// The first error is kept, and after it all parse functions return; only then may they return nullptr. Errors
// are INVALID_ARGUMENT with the template's line, what was found and what was expected.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_lexer.h"

namespace numoe::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    NUMOE_CHECK(!tokens_.empty() && tokens_.back().kind == TokenKind::kEnd);
  }

 protected:
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token Next() {
    Token token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  void Back() {
    NUMOE_CHECK_GT(at_, 0u);
    --at_;
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
    if (Peek().kind == TokenKind::kBlockEnd) {
      Next();
    } else {
      Fail("%}");
    }
  }
  std::string ExpectName() {
    if (Peek().kind != TokenKind::kName) Fail("a name");
    return Next().text;
  }

  struct Depth {
    explicit Depth(TokenStream& p) : parser(p) {
      if (++parser.depth_ > limits::kTemplateDepthMax)
        parser.Fail(fmt::format("nesting of at most {}", limits::kTemplateDepthMax));
    }
    ~Depth() {
      --parser.depth_;
      NUMOE_DCHECK_GE(parser.depth_, 0);
    }
    TokenStream& parser;
  };

  const absl::Status& status() const { return status_; }

 private:
  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace numoe::text::jinja
