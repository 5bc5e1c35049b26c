// Flags that change nothing: refused on the command line, noted from the environment and the file.
#include "common/base/unused_flags.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/scoped_variable.h"
#include "tests/unit/common/base/parsed_flags.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kWhy[] = "does nothing without --host; add --host, or leave the flag out";

class UnusedFlagsTest : public ::testing::Test {
 protected:
  UnusedFlagsTest() {
    flags_.Add("port", port_, "Port of the server");
    flags_.Alias("port", {"p", "listen-port"});
  }
  ~UnusedFlagsTest() override { std::remove(path_.c_str()); }

  UnusedFlags UnusedAfter(const std::vector<std::string>& words) {
    const ParsedFlags parsed = ParseWords(flags_, words);
    EXPECT_EQ(parsed.code, -1) << parsed.error;
    UnusedFlags unused(flags_);
    unused.Add("port", kWhy);
    return unused;
  }

  const std::string path_ = ::testing::TempDir() + "unused_flags_test." + std::to_string(getpid()) + ".toml";
  int port_ = 1;
  Flags flags_{"program", "For a test."};
};

TEST_F(UnusedFlagsTest, AFlagThatIsNotGivenIsNotMentioned) {
  const UnusedFlags unused = UnusedAfter({});
  EXPECT_TRUE(unused.refusal().ok());
  EXPECT_THAT(unused.notes(), IsEmpty());
}

TEST_F(UnusedFlagsTest, AFlagOnTheCommandLineIsRefusedUnderItsOwnName) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--port=7"}, {"--port", "7"}, {"-p", "7"}, {"--listen_port=7"}}) {
    const UnusedFlags unused = UnusedAfter(words);
    EXPECT_TRUE(absl::IsInvalidArgument(unused.refusal()));
    EXPECT_EQ(unused.refusal().message(), std::string("--port ") + kWhy) << words[0];
    EXPECT_THAT(unused.notes(), IsEmpty());
  }
}

TEST_F(UnusedFlagsTest, AMisspelledVariableIsANote) {
  for (const char* const name : {"NUMOE_PROT", "NUMOE_POR", "NUMOE_PORTS", "NUMOE_PART"}) {
    const ScopedVariable variable(name, "3");
    EXPECT_THAT(UnusedAfter({}).notes(),
                ElementsAre(std::string("the environment has ") + name +
                            ", which is not a variable of this program (NUMOE_PORT is)"));
  }
  const ScopedVariable other("NUMOE_WORKER_COUNT", "3"), own("NUMOE_PORT", "3");
  EXPECT_EQ(UnusedAfter({}).notes().size(), 1u) << "variables of other programs are not mentioned";
}

TEST_F(UnusedFlagsTest, TheEnvironmentAndTheFileAreNotRefused) {
  const std::string note = std::string("--port, which the environment or the file of --config sets, ") + kWhy;
  std::ofstream(path_) << "port = 2\n";
  EXPECT_THAT(UnusedAfter({"--config", path_}).notes(), ElementsAre(note));
  const ScopedVariable variable("NUMOE_PORT", "3");
  const UnusedFlags unused = UnusedAfter({});
  EXPECT_TRUE(unused.refusal().ok());
  EXPECT_THAT(unused.notes(), ElementsAre(note));
  EXPECT_FALSE(UnusedAfter({"--port=4"}).refusal().ok()) << "the command line takes precedence";
}

TEST_F(UnusedFlagsTest, TheFirstOfSeveralIsRefused) {
  int count = 0;
  flags_.Add("count", count, "");
  UnusedFlags unused = UnusedAfter({"--count=1", "--port=2"});
  unused.Add("count", "is unused, too");
  EXPECT_EQ(unused.refusal().message(), std::string("--port ") + kWhy);
}

TEST_F(UnusedFlagsTest, FlagsOfACommandAreAlwaysTyped) {
  int rate = 0;
  Flags tool("tool", "For a test.", FlagSources::kCommandLine);
  Flags& serve = tool.Command("serve", "Serves");
  serve.Add("rate", rate, "");
  EXPECT_EQ(ParseWords(tool, {"serve", "--rate=3"}).code, -1);
  UnusedFlags unused(serve);
  unused.Add("rate", "is unused");
  EXPECT_EQ(unused.refusal().message(), "--rate is unused");
}

}  // namespace
}  // namespace numoe
