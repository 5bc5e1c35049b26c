// What a program says to a wrong command line: the wrong word before what it led to, and what was expected.
#include "common/base/command_line.h"

#include <string>
#include <vector>

#include "common/base/flags.h"
#include "gtest/gtest.h"
#include "tests/unit/common/base/parsed_flags.h"

namespace numoe {
namespace {

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    flags_.Add("model", model_, "").Required();
    flags_.Add("port", port_, "").Range(0, 65535);
    flags_.Add("deadline-ms", count_, "").NonNegative();
    flags_.Add("patience-ms", count_, "").Positive();
    flags_.Add("count", count_, "");
    flags_.Add("path", path_, "").OneOf({"auto", "shm"});
    flags_.AddSwitch("quick", quick_, "");
  }

  // The program's line, without its own name and the line's end.
  static std::string Explain(Flags& flags, const std::vector<std::string>& words) {
    const ParsedFlags parsed = ParseWords(flags, words);
    if (parsed.code == -1) return "fine";
    EXPECT_EQ(parsed.code, 2);
    EXPECT_EQ(parsed.out, "");
    const std::string name = "program: ";
    EXPECT_EQ(parsed.error.substr(0, name.size()), name);
    EXPECT_EQ(parsed.error.find('\n'), parsed.error.size() - 1);
    return parsed.error.substr(name.size(), parsed.error.size() - name.size() - 1);
  }
  std::string Explain(const std::vector<std::string>& words) { return Explain(flags_, words); }

  std::string model_, path_;
  int port_ = 0, count_ = 0;
  bool quick_ = false;
  Flags flags_{"program", "A test's.", FlagSources::kCommandLine};
};

TEST_F(CommandLineTest, AnUnknownFlagIsNamedBeforeTheOneThatIsMissingForIt) {
  EXPECT_EQ(Explain({"--modle", "x"}), "unknown flag --modle; did you mean --model?; see program --help");
  EXPECT_EQ(Explain({"--modle=x"}), "unknown flag --modle; did you mean --model?; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--prot", "1"}),
            "unknown flag --prot; did you mean --port?; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--dead", "1"}),
            "unknown flag --dead; did you mean --deadline-ms?; see program --help");
}

TEST_F(CommandLineTest, NothingIsSuggestedThatIsFarAway) {
  EXPECT_EQ(Explain({"--model", "x", "--tensor-parallel-size", "4"}),
            "unknown flag --tensor-parallel-size; see program --help");
}

TEST_F(CommandLineTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(Explain({}), "--model is required; see program --help");
  EXPECT_EQ(Explain({"--model"}),
            "--model: found no value, expected one (is a variable of the shell unset?); see program --help");
  EXPECT_EQ(Explain({"--model", "x", "y"}),
            "\"y\" belongs to no flag: expected --NAME VALUE; see program --help");
}

TEST_F(CommandLineTest, WrongValuesSayWhatWasExpected) {
  const auto explain = [this](const std::string& flag) { return Explain({"--model", "x", flag}); };
  EXPECT_EQ(explain("--port=70000"), "--port=70000: expected 0 to 65535; see program --help");
  EXPECT_EQ(explain("--port=abc"), "--port=abc: expected 0 to 65535; see program --help");
  EXPECT_EQ(explain("--deadline-ms=-1"), "--deadline-ms=-1: expected 0 or more; see program --help");
  EXPECT_EQ(explain("--patience-ms=1"), "fine");
  for (const std::string value : {"0", "-1", "soon"})
    EXPECT_EQ(explain("--patience-ms=" + value),
              "--patience-ms=" + value + ": expected more than 0; see program --help");
  EXPECT_EQ(explain("--count=many"), "--count=many: expected a whole number; see program --help");
  EXPECT_EQ(explain("--path=tcp"), "--path=tcp: expected one of auto, shm; see program --help");
  EXPECT_EQ(explain("--quick=perhaps"), "--quick=perhaps: expected true or false; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--model", "y"}),
            "--model is given 2 times: expected once; see program --help");
}

TEST_F(CommandLineTest, CommandsAreNamedAndSuggested) {
  Flags app("program", "A test's.", FlagSources::kCommandLine);
  app.Command("serve", "").Add("rate", count_, "");
  app.Command("device", "");
  EXPECT_EQ(Explain(app, {}), "a command is missing: expected one of serve, device; see program --help");
  EXPECT_EQ(
      Explain(app, {"sevre"}),
      "unknown command \"sevre\"; did you mean serve? expected one of serve, device; see program --help");
  EXPECT_EQ(Explain(app, {"zzzzzzz"}),
            "unknown command \"zzzzzzz\": expected one of serve, device; see program --help");
  EXPECT_EQ(Explain(app, {"serve", "--rat=3"}),
            "unknown flag --rat; did you mean --rate?; see program serve --help");
}

TEST_F(CommandLineTest, WordsOfTheParserWithinAValueDoNotMislead) {
  EXPECT_EQ(Explain({"--model", "x", "--path=Value 3 not in range 1 to 2"}),
            "--path=Value 3 not in range 1 to 2: expected one of auto, shm; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--port=1 not in {a,b}"}),
            "--port=1 not in {a,b}: expected 0 to 65535; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--count=a = b: c"}),
            "--count=a = b: c: expected a whole number; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--path=two\nlines"}),
            "--path=two lines: expected one of auto, shm; see program --help");
}

TEST(ExplainCommandLineTest, AMessageThatIsNotKnownIsPassedOnInOneLine) {
  EXPECT_EQ(ExplainCommandLine({.message = "nobody knows\nwhy", .chain = {"program", "serve"}}),
            "nobody knows why; see program serve --help");
}

TEST(ExplainCommandLineTest, AFlagThatIsNotKnownHasNoExpectedKind) {
  WrongCommandLine wrong{.message = "Could not convert: --count = many", .chain = {"program"}};
  EXPECT_EQ(ExplainCommandLine(wrong), "Could not convert: --count = many; see program --help");
  wrong.flags = {{.name = "--count", .expected = "a whole number"}};
  EXPECT_EQ(ExplainCommandLine(wrong), "--count=many: expected a whole number; see program --help");
}

TEST(DiffersByOneLetterTest, AddedMissingReplacedAndSwapped) {
  for (const char* const found : {"MODE", "MODELS", "MODAL", "MODLE", "OMDEL"})
    EXPECT_TRUE(DiffersByOneLetter(found, "MODEL")) << found;
  for (const char* const found : {"MODEL", "", "MOLDE", "DOMEL", "MDOLE"})
    EXPECT_FALSE(DiffersByOneLetter(found, "MODEL")) << found;
}

}  // namespace
}  // namespace numoe
