// What --preflight reports about a machine, with and without a model.
#include "expert_worker/startup/preflight_report.h"

#include "gmock/gmock.h"
#include "tests/support/safetensors_writer.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ReportOf(std::vector<std::string> words) {
  words.insert(words.begin(), "--preflight");
  const auto report = ReportPreflight(OptionsOf(std::move(words)));
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return "";
  EXPECT_EQ(report->good, report->text.find("check ") == std::string::npos) << report->text;
  return report->text;
}

TEST(PreflightReportTest, MemoryIsCheckedOnlyForAModel) {
  const TemporaryFolder folder;
  const std::string reservations = (folder.path() / "reservations").string();
  EXPECT_THAT(ReportOf({}), Not(HasSubstr("available")));
  EXPECT_THAT(ReportOf({"--model", "tests/golden/data/tiny-chat", "--memory-reservations", reservations}),
              HasSubstr("available"));
}

TEST(PreflightReportTest, AMissingModelIsAnError) {
  WorkerOptions options = OptionsOf({"--preflight", "--model", "."});
  options.model = "/nonexistent";  // as if it was deleted after the flags were read
  const auto report = ReportPreflight(options);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace numoe::worker
