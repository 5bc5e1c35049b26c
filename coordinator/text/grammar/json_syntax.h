// JsonSyntax: JSON's own grammar as expressions, from which the expressions of schemas are composed.
//
// The only white space is one optional space after each comma and colon; these are the two ways in which
// models and serialisers write JSON on one line. Characters of free strings may be raw or escaped in any way
// that JSON allows (a surrogate escape needs its partner). In constrained strings (patterns, formats, keys
// that must differ from others) each character has one canonical form: raw, or the short escape, or \u00XX
// for control characters that have no short escape. Rules are made on first use. Belongs to one thread.
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
  ExprId Object();  // an object with any members
  ExprId Array();   // an array of any items
  ExprId String();
  /// A string of `min` to `max` characters (code points).
  ExprId String(int min, int max);
  /// A string whose text between the quotes, in canonical characters, matches `machine`.
  ExprId String(std::shared_ptr<const Dfa> machine, const std::string& name);
  ExprId Integer();
  ExprId Number();
  /// Exactly this value, with the keys of objects in this order.
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

/// A character of `set` in its canonical form within a JSON string. This is the EncodeChars of schemas'
/// patterns.
ExprId EncodeForJson(Expressions& expressions, const CodepointSet& set);

/// A character of `set` in UTF-8. This is the EncodeChars of plain text.
ExprId EncodePlain(Expressions& expressions, const CodepointSet& set);

/// Returns the canonical form of a whole string, without quotes. REQUIRES: `text` is valid UTF-8.
std::string JsonCharacters(std::string_view text);

}  // namespace numoe::text::grammar
