// What a program says to a wrong command line: the wrong word before what it led to, and what was expected.
#include "common/base/command_line.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    app_.add_option("--model", model_)->required();
    app_.add_option("--port", port_)->check(CLI::Range(0, 65535));
    app_.add_option("--deadline-ms", count_)->check(CLI::NonNegativeNumber);
    app_.add_option("--count", count_);
    app_.add_option("--path", path_)->check(CLI::IsMember({"auto", "shm"}));
    app_.add_flag("--quick", quick_);
  }

  static std::string Explain(CLI::App& app, std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::Error& error) {
      return ExplainCommandLine(app, error);
    }
    return "fine";
  }
  std::string Explain(const std::vector<std::string>& words) { return Explain(app_, words); }

  CLI::App app_{"A test's.", "program"};
  std::string model_, path_;
  int port_ = 0, count_ = 0;
  bool quick_ = false;
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
  EXPECT_EQ(Explain({"--model"}), "--model is given without a value; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "y"}),
            "\"y\" belongs to no flag: expected --NAME VALUE; see program --help");
}

TEST_F(CommandLineTest, WrongValuesSayWhatWasExpected) {
  const auto explain = [this](const std::string& flag) { return Explain({"--model", "x", flag}); };
  EXPECT_EQ(explain("--port=70000"), "--port=70000: expected 0 to 65535; see program --help");
  EXPECT_EQ(explain("--port=abc"), "--port=abc: expected 0 to 65535; see program --help");
  EXPECT_EQ(explain("--deadline-ms=-1"), "--deadline-ms=-1: expected 0 or more; see program --help");
  EXPECT_EQ(explain("--count=many"), "--count=many: expected a whole number; see program --help");
  EXPECT_EQ(explain("--path=tcp"), "--path=tcp: expected one of auto, shm; see program --help");
  EXPECT_EQ(explain("--quick=perhaps"), "--quick=perhaps: expected true or false; see program --help");
  EXPECT_EQ(Explain({"--model", "x", "--model", "y"}),
            "--model is given 2 times: expected once; see program --help");
}

TEST_F(CommandLineTest, CommandsAreNamedAndSuggested) {
  CLI::App app("A test's.", "program");
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "");
  serve->add_option("--rate", count_);
  app.add_subcommand("device", "");
  EXPECT_EQ(Explain(app, {}), "a command is missing: expected one of serve, device; see program --help");
  EXPECT_EQ(
      Explain(app, {"sevre"}),
      "unknown command \"sevre\"; did you mean serve? expected one of serve, device; see program --help");
  EXPECT_EQ(Explain(app, {"zzzzzzz"}),
            "unknown command \"zzzzzzz\": expected one of serve, device; see program --help");
  EXPECT_EQ(Explain(app, {"serve", "--rat=3"}),
            "unknown flag --rat; did you mean --rate?; see program serve --help");
}

// Flags names flags of the file as well, and takes no word for a list that stands behind its value.
TEST(FlagsTest, OneLineAndCodeTwo) {
  std::vector<std::string> workers;
  Flags flags("program", "A test's.");
  flags.Add("workers", workers, "")->delimiter(',');
  const auto parse = [&flags](std::vector<std::string> words) {
    std::vector<char*> argv = {const_cast<char*>("program")};
    for (std::string& word : words) argv.push_back(word.data());
    ::testing::internal::CaptureStderr();
    const int code = flags.Parse(static_cast<int>(argv.size()), argv.data());
    return std::pair(code, ::testing::internal::GetCapturedStderr());
  };
  EXPECT_EQ(parse({"--workers", "a,b"}), std::pair(-1, std::string()));
  EXPECT_EQ(workers, (std::vector<std::string>{"a", "b"}));
  const auto [code, text] = parse({"--workers", "a", "b"});
  EXPECT_EQ(code, 2);
  EXPECT_EQ(text, "program: \"b\" belongs to no flag: expected --NAME VALUE; see program --help\n");
  const auto [no_file, line] = parse({"--config", "/nowhere/at-all.toml"});
  EXPECT_EQ(no_file, 2);
  EXPECT_THAT(line, HasSubstr("--config=/nowhere/at-all.toml: cannot be read"));
  EXPECT_THAT(line.substr(0, line.size() - 1), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace numoe
