// Log lines: levels, both formats, request ids, and that nothing inside a message can forge a line.
#include "common/observe/logging.h"

#include <string>
#include <thread>

#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

template <typename F>
std::string LinesOf(F write) {
  ::testing::internal::CaptureStderr();
  write();
  return ::testing::internal::GetCapturedStderr();
}

TEST(LoggingTest, TextLineHasTimeLevelProgramAndMessage) {
  ASSERT_TRUE(SetupLogging({.program = "numoe-test"}).ok());
  EXPECT_THAT(LinesOf([] { LogWarning("disk {} is full", 3); }),
              MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9:]*\\.[0-9][0-9][0-9]Z warning numoe-test "
                           "disk 3 is full\n"));
}

TEST(LoggingTest, LevelCutsWhatIsBelow) {
  ASSERT_TRUE(SetupLogging({.level = "warning", .program = "p"}).ok());
  EXPECT_EQ(LinesOf([] { LogInfo("unwanted"); }), "");
  ASSERT_TRUE(SetupLogging({.level = "debug", .program = "p"}).ok());
  EXPECT_THAT(LinesOf([] { LogDebug("wanted"); }), HasSubstr("wanted"));
}

TEST(LoggingTest, LevelsAreReadInCapitalsAndAsPythonNamesThem) {
  for (const std::string level : {"warning", "WARNING", "Warning", "warn", "WARN"}) {
    ASSERT_TRUE(SetupLogging({.level = level, .program = "p"}).ok()) << level;
    EXPECT_EQ(LinesOf([] { LogInfo("unwanted"); }), "") << level;
    EXPECT_THAT(LinesOf([] { LogWarning("wanted"); }), HasSubstr("wanted")) << level;
  }
  for (const std::string level : {"DEBUG", "INFO", "Error"})
    EXPECT_TRUE(SetupLogging({.level = level, .program = "p"}).ok()) << level;
}

TEST(LoggingTest, ScopesNestAndBelongToTheirThread) {
  ASSERT_TRUE(SetupLogging({.program = "p"}).ok());
  const std::string lines = LinesOf([] {
    const LogScope outer("outer-id");
    {
      const LogScope inner("inner-id");
      LogInfo("first");
    }
    LogInfo("second");
    std::thread([] { LogInfo("third"); }).join();
  });
  EXPECT_THAT(lines, HasSubstr("[request inner-id] first\n"));
  EXPECT_THAT(lines, HasSubstr("[request outer-id] second\n"));
  EXPECT_THAT(lines, HasSubstr("p third\n"));
}

TEST(LoggingTest, JsonLineParsesWhateverTheMessage) {
  ASSERT_TRUE(SetupLogging({.format = "json", .program = "numoe-test"}).ok());
  const std::string message = "a \"quote\", a \\, a\nnewline, \x01 and \xC3\xA4";
  const std::string line = LinesOf([&] {
    const LogScope scope("id\"}\n{");
    LogError("{}", message);
  });
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(parsed.is_discarded()) << line;
  EXPECT_EQ(parsed["message"], message);
  EXPECT_EQ(parsed["request_id"], "id\"}\n{");
  EXPECT_EQ(parsed["level"], "error");
  EXPECT_EQ(parsed["program"], "numoe-test");
}

TEST(LoggingTest, JsonLinesAreUtf8WhateverAClientSends) {
  ASSERT_TRUE(SetupLogging({.format = "json", .program = "p"}).ok());
  const std::string line = LinesOf([] {
    const LogScope scope("\xff");
    LogInfo("{}", "a\xc3(\xed\xa0\x80\xf5 b");
  });
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(parsed.is_discarded()) << line;
  EXPECT_THAT(parsed["message"].get<std::string>(), MatchesRegex("a(\xef\xbf\xbd)+\\((\xef\xbf\xbd)+ b"));
  EXPECT_EQ(parsed["request_id"], "\xef\xbf\xbd");
}

TEST(LoggingTest, TextMessageCannotForgeALine) {
  ASSERT_TRUE(SetupLogging({.program = "p"}).ok());
  const std::string line = LinesOf([] { LogInfo("{}", "x\n2026-01-01 error p forged\x1b[31m"); });
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, HasSubstr("x\\n2026"));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
}

TEST(LoggingTest, UnknownOptionsAreNamed) {
  EXPECT_THAT(SetupLogging({.level = "loud"}).ToString(),
              HasSubstr("--log-level=loud: expected debug, info, warning or error"));
  EXPECT_THAT(SetupLogging({.format = "xml"}).ToString(),
              HasSubstr("--log-format=xml: expected text or json"));
}

}  // namespace
}  // namespace numoe
