// ObjectCompiler: translates a schema's constraints on objects into an expression.
//
// The declared members come first, in the order of their declaration, then other members. The facts say which
// keys and values these may have, and how many members are allowed. An object of this class is made for one
// set of facts and used once; it translates the schemas of values with the function `schema`. Errors go to
// the shared compilation. Belongs to one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "coordinator/text/grammar/schema_strings.h"

namespace numoe::text::grammar {

class ObjectCompiler {
 public:
  /// `schema` returns an expression for the values for which all given schemas hold. All arguments must
  /// outlive this object.
  ObjectCompiler(const SchemaFacts& facts, SharedCompilation& shared, StringCompiler& strings,
                 absl::FunctionRef<ExprId(Schemas)> schema)
      : facts_(facts),
        shared_(shared),
        e_(shared.expressions()),
        json_(shared.json()),
        strings_(strings),
        schema_(schema) {}

  ExprId Expression();

 private:
  struct Member {
    std::string name;
    ExprId value = 0;
    bool required = false;
  };
  struct Members {
    std::vector<Member> declared;
    ExprId extra = 0;  // an undeclared key, a colon and the value
  };

  Members CollectMembers();
  Schemas MemberSchemas(const std::string& name);
  bool AllowsExtra() const;
  ExprId ExtraMembers(const std::vector<std::string>& declared);
  ExprId ExtraRegion(const std::vector<std::string>& declared, const std::vector<StringMachine>& patterns,
                     size_t inside);
  ExprId ObjectGraph(const Members& members, int64_t min, int64_t max);

  const SchemaFacts& facts_;
  SharedCompilation& shared_;
  Expressions& e_;
  JsonSyntax& json_;
  StringCompiler& strings_;
  absl::FunctionRef<ExprId(Schemas)> schema_;
};

}  // namespace numoe::text::grammar
