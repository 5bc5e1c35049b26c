// Log lines: arguments, levels, silence; as a process of its own writes them.
#include "common/base/log.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

// Lines go to stdout before logging has been set up; a death test reads stderr.
[[noreturn]] void Logged(void (*write)()) {
  dup2(STDERR_FILENO, STDOUT_FILENO);
  write();
  exit(0);
}

void Expect(void (*write)(), const std::string& regex) {
  EXPECT_EXIT(Logged(write), ::testing::ExitedWithCode(0), regex);
}

TEST(LogTest, LinesHaveTheirLevelAndArguments) {
  Expect([] { LogInfo("loaded {} of {:.1f}: {}", 3, 4.25, "x"); }, "info.*loaded 3 of 4.2: x");
  Expect([] { LogWarning("{}", "low"); }, "warning.*low");
  Expect([] { LogError("no {}", std::string("place")); }, "error.*no place");
  Expect([] { Log(LogLevel::kError, "{{braces}} {}", 1); }, "error.*\\{braces\\} 1");
}

TEST(LogTest, DebugLinesAreNotWrittenUnlessAskedFor) {
  EXPECT_EXIT(
      Logged([] {
        LogDebug("hidden {}", 1);
        LogInfo("shown");
      }),
      ::testing::ExitedWithCode(0),
      ::testing::AllOf(::testing::HasSubstr("shown"), ::testing::Not(::testing::HasSubstr("hidden"))));
}

TEST(LogTest, SilenceHoldsForEveryLevel) {
  EXPECT_EXIT(
      Logged([] {
        SilenceLog();
        LogError("hidden");
        fputs("the end", stderr);
      }),
      ::testing::ExitedWithCode(0),
      ::testing::AllOf(::testing::HasSubstr("the end"), ::testing::Not(::testing::HasSubstr("hidden"))));
}

}  // namespace
}  // namespace numoe
