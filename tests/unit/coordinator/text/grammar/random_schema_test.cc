// Random schemas: walks over the masks produce valid documents, valid documents are accepted, and accepted
// documents are valid. The references are schema_validator.h and, if it is installed, Python's jsonschema.
#include "tests/unit/coordinator/text/grammar/random_schema.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"
#include "tests/unit/coordinator/text/grammar/schema_validator.h"

namespace numoe::text {
namespace {

using nlohmann::json;

constexpr uint64_t kSchemas = 300;

bool Judge(const std::string& schema, const std::string& text) {
  const json root = json::parse(schema), value = json::parse(text, nullptr, false);
  return !value.is_discarded() && IsValid(root, root, value);
}

TEST(RandomSchemaTest, WalksAreValid) {
  for (uint64_t seed = 0; seed < kSchemas; ++seed) {
    const std::string schema = RandomSchema(seed).schema().dump();
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, schema);
    ASSERT_NE(grammar, nullptr);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 4; ++i) {
      const std::string text = RandomText(grammar, random);
      ASSERT_TRUE(Judge(schema, text)) << "seed " << seed << "\n" << schema << "\n" << text;
    }
  }
}

TEST(RandomSchemaTest, ValidDocumentsAreAcceptedInAnyDivisionIntoTokens) {
  for (uint64_t seed = 0; seed < kSchemas; ++seed) {
    RandomSchema generator(seed);
    const std::string schema = generator.schema().dump();
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, schema);
    ASSERT_NE(grammar, nullptr);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 10; ++i) {
      const std::string text = generator.Document();
      ASSERT_TRUE(Judge(schema, text)) << "seed " << seed << "\n" << schema << "\n" << text;
      ASSERT_TRUE(AcceptsSplit(grammar, text, random)) << "seed " << seed << "\n" << schema << "\n" << text;
    }
  }
}

// Returns `text` with one to three small changes of bytes or pieces of JSON.
std::string Damaged(std::string text, std::mt19937_64& random) {
  static const char* const kPieces[] = {"\"", ",", ":", "{}", "[]", "null", "0",    "-",
                                        "1",  "a", " ", "\\", "}",  "]",    "true", ".5"};
  for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
    const size_t at = random() % (text.size() + 1);
    switch (random() % 3) {
      case 0:
        text.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 1:
        text.erase(at, 1 + random() % 4);
        break;
      default:
        if (at < text.size()) text[at] = kPieces[random() % std::size(kPieces)][0];
    }
  }
  return text;
}

TEST(RandomSchemaTest, AcceptedDocumentsAreValid) {
  int accepted = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSchemas; ++seed) {
    RandomSchema generator(seed);
    const std::string schema = generator.schema().dump();
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, schema);
    ASSERT_NE(grammar, nullptr);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 60; ++i) {
      const std::string text = Damaged(generator.Document(), random);
      const bool is_accepted = Accepts(grammar, text);
      ++(is_accepted ? accepted : refused);
      if (is_accepted) {
        ASSERT_TRUE(Judge(schema, text)) << "seed " << seed << "\n" << schema << "\n" << text;
      }
    }
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 5000);
}

TEST(RandomSchemaTest, WalksAreValidForPythonsJsonschema) {
  const std::string path = testing::TempDir() + "numoe_schema_walks_" + std::to_string(getpid()) + ".jsonl";
  std::ofstream file(path);
  for (uint64_t seed = 1000; seed < 1000 + kSchemas; ++seed) {
    const json schema = json::parse(RandomSchema(seed).schema().dump());
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, RandomSchema(seed).schema().dump());
    ASSERT_NE(grammar, nullptr);
    std::mt19937_64 random(seed);
    json texts = json::array();
    for (int i = 0; i < 4; ++i) texts.push_back(RandomText(grammar, random));
    file << json{{"schema", schema}, {"texts", texts}}.dump() << "\n";
  }
  file.close();
  const char* python = std::getenv("NUMOE_ORACLE_PYTHON");
  const std::string command = std::string(python == nullptr ? "python3" : python) +
                              " tests/golden/schema_oracle.py " + path + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = pclose(pipe);
  unlink(path.c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
    GTEST_SKIP() << "not installed: jsonschema for python3 or $NUMOE_ORACLE_PYTHON (tests/requirements.txt)";
  EXPECT_EQ(status, 0) << output;
}

}  // namespace
}  // namespace numoe::text
