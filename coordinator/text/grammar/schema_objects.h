// ObjectCompiler: an object of a schema as an expression.
//
// Declared members in the order of their declaration, then others: which keys those may have, what their
// values are, how many members there may be. Made for one list of facts and used once; what a member's value
// is it asks whoever compiles schemas. Errors go to the shared compilation. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "coordinator/text/grammar/schema_strings.h"

namespace numoe::text::grammar {

class ObjectCompiler {
 public:
  /// `schema`: a value for which all of the schemas hold. All four outlive it.
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
    ExprId extra = 0;  // a key that is none of the declared, a colon and its value
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
