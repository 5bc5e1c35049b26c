// The form in which the tests of the JSON Schema front end list schemas, with documents that must be accepted
// and documents that must be refused.
//
// CheckSchema also divides each valid document into random tokens, and checks that texts sampled from the
// masks are accepted. Failures are reported through GoogleTest. Use from one thread.
#pragma once

#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {

struct SchemaCase {
  const char* schema;
  std::vector<const char*> valid;
  std::vector<const char*> invalid;
};

inline void CheckSchema(const std::vector<SchemaCase>& cases) {
  std::mt19937_64 random(1);
  for (const SchemaCase& c : cases) {
    SCOPED_TRACE(c.schema);
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, c.schema);
    ASSERT_NE(grammar, nullptr);
    for (const char* text : c.valid) EXPECT_TRUE(Accepts(grammar, text)) << text;
    for (const char* text : c.valid) EXPECT_TRUE(AcceptsSplit(grammar, text, random)) << text;
    for (const char* text : c.invalid) EXPECT_FALSE(Accepts(grammar, text)) << text;
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(Accepts(grammar, RandomText(grammar, random)));
  }
}

}  // namespace numoe::text
