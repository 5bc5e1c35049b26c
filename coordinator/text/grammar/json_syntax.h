// JsonSyntax: JSON's own grammar as expressions, the pieces that schemas are put together from.
//
// White space: none, but for one optional space after each comma and colon, the two ways in which models and
// serialisers write JSON on one line. Characters of free strings may be raw or escaped in any way JSON has (a
// surrogate escape needs its partner). Where a string is constrained - patterns, formats, keys that must
// differ from others - each character has one canonical form: raw, or the short escape, or \u00XX for the
// control characters without one. Rules are made on first use. One thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/text/grammar/expression.h"
#include "nlohmann/json.hpp"

namespace numoe::text::grammar {

class JsonSyntax {
 public:
  explicit JsonSyntax(Expressions& expressions) : expressions_(expressions) {}

  ExprId Value();
  ExprId Object();  // any members
  ExprId Array();   // any items
  ExprId String();
  /// Counts characters (code points), not bytes.
  ExprId String(int min, int max);
  /// The quotes around what a machine over canonical characters matches.
  ExprId String(std::shared_ptr<const Dfa> machine, const std::string& name);
  ExprId Integer();
  ExprId Number();
  /// Exactly this value, objects with their keys in this order.
  ExprId Exactly(const nlohmann::ordered_json& value);

  ExprId Comma() { return Separator(","); }
  ExprId Colon() { return Separator(":"); }

 private:
  ExprId Separator(std::string_view sign);
  ExprId Character();
  ExprId Whole(int digits_max);
  RuleId SharedRule(const std::string& name);

  Expressions& expressions_;
  std::map<std::string, RuleId> rules_;
};

/// One character of `set` in its canonical form within a JSON string: the EncodeChars of patterns in schemas.
ExprId EncodeForJson(Expressions& expressions, const CodepointSet& set);

/// One character of `set` in UTF-8: the EncodeChars of plain text.
ExprId EncodePlain(Expressions& expressions, const CodepointSet& set);

/// The canonical form of a whole string, without quotes. REQUIRES: valid UTF-8.
std::string JsonCharacters(std::string_view text);

}  // namespace numoe::text::grammar
