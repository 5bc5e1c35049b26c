// Flags from the command line, the environment and a file: which one wins, what a list takes, what --help and
// --version print, and commands.
#include "common/base/flags.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/scoped_variable.h"
#include "tests/unit/common/base/parsed_flags.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagsTest : public ::testing::Test {
 protected:
  void WriteFile(const std::string& text) { std::ofstream(path_) << text; }
  ~FlagsTest() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "flags_test." + std::to_string(getpid()) + ".toml";
  int port_ = 1;
  std::vector<std::string> workers_;
};

// The file can set the same flags, and a list takes only the word that follows its name.
TEST_F(FlagsTest, OneLineAndCodeTwo) {
  Flags flags("program", "A test's.");
  flags.Add("workers", workers_, "").CommaSeparated();
  const ParsedFlags good = ParseWords(flags, {"--workers", "a,b"});
  EXPECT_EQ(good.code, -1);
  EXPECT_EQ(good.error, "");
  EXPECT_THAT(workers_, ElementsAre("a", "b"));
  const ParsedFlags stray = ParseWords(flags, {"--workers", "a", "b"});
  EXPECT_EQ(stray.code, 2);
  EXPECT_EQ(stray.error, "program: \"b\" belongs to no flag: expected --NAME VALUE; see program --help\n");
  const ParsedFlags no_file = ParseWords(flags, {"--config", "/nowhere/at-all.toml"});
  EXPECT_EQ(no_file.code, 2);
  EXPECT_THAT(no_file.error, HasSubstr("--config=/nowhere/at-all.toml: cannot be read"));
  EXPECT_THAT(no_file.error.substr(0, no_file.error.size() - 1), Not(HasSubstr("\n")));
}

TEST_F(FlagsTest, NamesOfOtherProgramsAreReadOrAnswered) {
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "Port of the server");
  flags.Alias("port", {"listen-port"});
  flags.Instead({"socket", "s"}, "--port takes the number of a port");
  EXPECT_EQ(ParseWords(flags, {"--listen-port", "7"}).code, -1);
  EXPECT_EQ(port_, 7);
  EXPECT_EQ(ParseWords(flags, {"--listen_port=8"}).code, -1);
  EXPECT_EQ(port_, 8);
  for (const char* name : {"--socket", "-s", "--socket=x"}) {
    const ParsedFlags refused = ParseWords(flags, {name});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.error, HasSubstr(": --port takes the number of a port; see program --help"));
  }
  EXPECT_EQ(ParseWords(flags, {"--listen-port", "7", "--port", "9"}).code, 2) << "given twice";
}

// The parser would take the next flag as the value, and a key could end up in a log or in a file's name.
TEST_F(FlagsTest, AFlagWithoutAValueTakesNoOtherFlag) {
  std::string name, secret;
  Flags flags("program", "For a test.");
  flags.Add("name", name, "");
  flags.Add("api-key", secret, "");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--name=", "--api-key=s3cret"},
                                                {"--name", "--api-key=s3cret"},
                                                {"--name", "--api_key", "s3cret"},
                                                {"--api-key=s3cret", "--name="},
                                                {"--api-key=s3cret", "--name"},
                                                {"--name", "--"}}) {
    const ParsedFlags refused = ParseWords(flags, words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.error, HasSubstr("--name: found no value, expected one"));
    EXPECT_THAT(refused.error, Not(HasSubstr("s3cret")));
  }
  EXPECT_EQ(ParseWords(flags, {"--name", ""}).code, -1) << "an empty word is a value";
  EXPECT_EQ(ParseWords(flags, {"--name", ","}).code, -1);
  flags.Add("workers", workers_, "").CommaSeparated();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--workers=,", "x"}, {"--workers", ",", "x"}})
    EXPECT_THAT(ParseWords(flags, words).error, HasSubstr("--workers: found no value"));
  EXPECT_EQ(ParseWords(flags, {"--name", "--not-a-flag"}).code, -1);
  EXPECT_EQ(name, "--not-a-flag");
  const ScopedVariable empty("NUMOE_NAME", ""), key("NUMOE_API_KEY", "s3cret");
  const ParsedFlags refused = ParseWords(flags, {});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("the variable NUMOE_NAME is empty, so unset it"));
  EXPECT_EQ(ParseWords(flags, {"--name=x"}).code, -1) << "the command line takes precedence";
}

TEST_F(FlagsTest, WordsAfterTwoDashesAreNeitherReadNorRewritten) {
  std::vector<std::string> words;
  std::string key;
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "");
  flags.Add("api-key", key, "");
  flags.Alias("port", {"listen-port", "p"});
  flags.AddPositional("words", words, "");
  const ScopedVariable variable("NUMOE_API_KEY", "s3cret");
  EXPECT_EQ(ParseWords(flags, {"--port", "3", "--", "explain", "--listen_port", "and", "-p"}).code, -1);
  EXPECT_THAT(words, ElementsAre("explain", "--listen_port", "and", "-p"));
  EXPECT_EQ(key, "s3cret");
  words.clear();
  EXPECT_EQ(ParseWords(flags, {"--api-key", "-p", "x"}).code, -1);
  EXPECT_EQ(key, "-p") << "a value is not rewritten";
}

TEST_F(FlagsTest, AWrongVariableIsNamed) {
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "").Range(0, 9);
  const ScopedVariable variable("NUMOE_PORT", "tcp://10.0.0.1:80");
  EXPECT_THAT(ParseWords(flags, {}).error, HasSubstr("; the variable NUMOE_PORT sets it"));
  EXPECT_THAT(ParseWords(flags, {"--port=12"}).error, Not(HasSubstr("NUMOE_PORT")));
}

TEST_F(FlagsTest, AnAliasOfOneLetterFollowsASingleDash) {
  std::string name;
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "Port of the server");
  flags.Add("name", name, "");
  flags.Alias("port", {"p"});
  EXPECT_EQ(ParseWords(flags, {"-p", "7"}).code, -1);
  EXPECT_EQ(port_, 7);
  EXPECT_EQ(ParseWords(flags, {"-p=8", "--name", "p"}).code, -1);
  EXPECT_EQ(port_, 8);
  EXPECT_EQ(name, "p") << "a value is not a flag";
  EXPECT_THAT(ParseWords(flags, {"--p", "7"}).error,
              HasSubstr("unknown flag --p: its name in this program is port;"));
  EXPECT_THAT(ParseWords(flags, {"--help"}).out, HasSubstr("\n  -p (--port)"));
}

TEST_F(FlagsTest, FlagsKnowWhetherTheyWereTyped) {
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "");
  flags.Add("workers", workers_, "");
  flags.Alias("port", {"listen-port"});
  EXPECT_EQ(ParseWords(flags, {"--listen_port=7"}).code, -1);
  EXPECT_TRUE(flags.Given("port"));
  EXPECT_TRUE(flags.Typed("port"));
  EXPECT_TRUE(flags.Typed("listen-port"));
  EXPECT_FALSE(flags.Given("workers"));
  EXPECT_FALSE(flags.Typed("workers"));
  EXPECT_THAT(flags.typed(), ElementsAre("port"));
  EXPECT_EQ(ParseWords(flags, {"--workers", "-port"}).code, -1);
  EXPECT_THAT(workers_, ElementsAre("-port"));
  EXPECT_FALSE(flags.Typed("port")) << "the word is a value";
  const ScopedVariable variable("NUMOE_PORT", "3");
  EXPECT_EQ(ParseWords(flags, {}).code, -1);
  EXPECT_EQ(port_, 3);
  EXPECT_TRUE(flags.Given("port"));
  EXPECT_FALSE(flags.Typed("port")) << "the environment sets it";
  EXPECT_FALSE(flags.Typed("listen-port"));
}

TEST_F(FlagsTest, TheCommandLineWinsThenTheEnvironmentThenTheFile) {
  WriteFile("port = 2\n");
  Flags flags("program", "A test's.");
  const Flag port = flags.Add("port", port_, "");
  EXPECT_EQ(ParseWords(flags, {}).code, -1);
  EXPECT_EQ(port_, 1);
  EXPECT_FALSE(port.Given());
  EXPECT_EQ(ParseWords(flags, {"--config", path_}).code, -1);
  EXPECT_EQ(port_, 2);
  EXPECT_TRUE(port.Given());
  const ScopedVariable variable("NUMOE_PORT", "3");
  EXPECT_EQ(ParseWords(flags, {"--config", path_}).code, -1);
  EXPECT_EQ(port_, 3);
  EXPECT_EQ(ParseWords(flags, {"--config", path_, "--port=4"}).code, -1);
  EXPECT_EQ(port_, 4);
}

TEST_F(FlagsTest, AVariableCanBeAnotherOneOrNone) {
  std::string key = "none", model = "none";
  Flags flags("program", "A test's.");
  flags.Add("key", key, "").Variable("PROGRAM_KEY");
  flags.Add("model", model, "").Variable("");
  const ScopedVariable named("PROGRAM_KEY", "given"), by_rule("NUMOE_KEY", "x"), other("NUMOE_MODEL", "x");
  EXPECT_EQ(ParseWords(flags, {}).code, -1);
  EXPECT_EQ(key, "given");
  EXPECT_EQ(model, "none");
}

TEST_F(FlagsTest, NamesInTheFileThatAreNoFlagsAreRefused) {
  Flags flags("program", "A test's.");
  flags.Add("port", port_, "");
  WriteFile("prot = 2\n");
  EXPECT_EQ(ParseWords(flags, {"--config", path_}).error,
            "program: --config: the file sets prot, which is not a flag; did you mean --port?; see program "
            "--help\n");
  WriteFile("version = true\n");
  EXPECT_EQ(
      ParseWords(flags, {"--config", path_}).error,
      "program: --config: the file sets version, which only the command line may; see program --help\n");
}

TEST_F(FlagsTest, TheFileKnowsNoNamesOfOtherPrograms) {
  Flags flags("program", "For a test.");
  flags.Add("port", port_, "");
  flags.Alias("port", {"listen-port"});
  flags.Instead({"socket"}, "--port takes the number of a port");
  WriteFile("listen_port = 2\n");
  EXPECT_EQ(
      ParseWords(flags, {"--config", path_}).error,
      "program: --config: the file sets listen_port, which is not a flag: its name in this program is port; "
      "see program --help\n");
  WriteFile("socket = 2\n");
  EXPECT_THAT(ParseWords(flags, {"--config", path_}).error,
              HasSubstr("sets socket, which is not a flag: --port takes the number of a port;"));
}

TEST_F(FlagsTest, AToolReadsTheCommandLineAlone) {
  Flags flags("program", "A test's.", FlagSources::kCommandLine);
  flags.Add("port", port_, "");
  const ScopedVariable variable("NUMOE_PORT", "3");
  EXPECT_EQ(ParseWords(flags, {}).code, -1);
  EXPECT_EQ(port_, 1);
  EXPECT_THAT(ParseWords(flags, {"--config", path_}).error, HasSubstr("unknown flag --config"));
}

TEST_F(FlagsTest, VersionIsPrintedWhateverElseIsMissing) {
  for (const FlagSources sources : {FlagSources::kEverywhere, FlagSources::kCommandLine}) {
    Flags flags("program", "A test's.", sources);
    flags.Add("port", port_, "").Required();
    flags.Command("serve", "");
    const ParsedFlags parsed = ParseWords(flags, {"--version"});
    EXPECT_EQ(parsed.code, 0);
    EXPECT_EQ(parsed.out, "program " + std::string(Version()) + "\n");
    EXPECT_EQ(parsed.error, "");
  }
}

TEST_F(FlagsTest, HelpHasDefaultsUnlessTheyAreHidden) {
  int length = 77;
  Flags flags("program", "A test's.");
  flags.Add("port", port_, "Port of the server").Range(0, 9);
  flags.Add("length", length, "Length of a text").HideDefault();
  const ParsedFlags parsed = ParseWords(flags, {"--help"});
  EXPECT_EQ(parsed.code, 0);
  EXPECT_EQ(parsed.error, "");
  EXPECT_THAT(parsed.out, HasSubstr("--version"));
  EXPECT_THAT(parsed.out, HasSubstr("--port INT:INT in [0 - 9]=1 (Env:NUMOE_PORT)"));
  EXPECT_THAT(parsed.out, HasSubstr("--length INT (Env:NUMOE_LENGTH)"));
}

TEST_F(FlagsTest, ACommandHasFlagsOfItsOwn) {
  std::string model;
  double rate = 0;
  const auto wrong = [](const std::string& text) {
    return text == "fast" ? text + " is wrong" : std::string();
  };
  Flags flags("program", "A test's.", FlagSources::kCommandLine);
  Flags& serve = flags.Command("serve", "Serves");
  serve.Add("rate", rate, "").Check(wrong, "RATE");
  Flags& pack = flags.Command("pack", "Packs");
  pack.AddPositional("model", model, "").Required();
  EXPECT_EQ(ParseWords(flags, {"pack", "here"}).code, -1);
  EXPECT_TRUE(pack.Given());
  EXPECT_FALSE(serve.Given());
  EXPECT_EQ(model, "here");
  EXPECT_EQ(ParseWords(flags, {"serve", "--rate=0.5"}).code, -1);
  EXPECT_TRUE(serve.Given());
  EXPECT_EQ(rate, 0.5);
  EXPECT_THAT(ParseWords(flags, {"serve", "--rate=fast"}).error, HasSubstr("--rate: fast is wrong"));
  EXPECT_THAT(ParseWords(flags, {"serve", "--help"}).out, HasSubstr("--rate FLOAT:RATE=0"));
  EXPECT_THAT(ParseWords(flags, {"pack"}).error, HasSubstr("model is required; see program pack --help"));
}

}  // namespace
}  // namespace numoe
