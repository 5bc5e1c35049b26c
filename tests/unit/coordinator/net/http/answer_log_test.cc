// The line of the log for each answer, and that successful probes write none.
#include "coordinator/net/http/answer_log.h"

#include "common/observe/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AnswerLogTest : public ::testing::Test {
 protected:
  std::string Say(const Route* route, int status, const std::string& failure = "") {
    ::testing::internal::CaptureStdout();
    log_.Add({request_, route, status, 1.5, 7, failure});
    return ::testing::internal::GetCapturedStdout();
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  AnswerLog log_{metrics_};
  const HttpRequest request_{.path = "/asked", .id = "id-1"};
  const Route probe_{.method = "GET", .pattern = "/health", .open = true};
  const Route chat_{.method = "POST", .pattern = "/chat"};
};

TEST_F(AnswerLogTest, AnswersAreLoggedAndCounted) {
  EXPECT_THAT(Say(&chat_, 200), HasSubstr("path=/asked status=200 ms=1.5 tokens=7"));
  EXPECT_THAT(Say(&chat_, 200), Not(HasSubstr("failure")));
  EXPECT_THAT(Say(&chat_, 200, "it broke off"), HasSubstr("failure=it broke off"));
  EXPECT_THAT(Say(nullptr, 404), HasSubstr("status=404"));
  EXPECT_THAT(metrics_.Serialise(), HasSubstr("{path=\"/chat\",status=\"200\"} 3"));
  EXPECT_THAT(metrics_.Serialise(), HasSubstr("{path=\"none\",status=\"404\"} 1"));
}

TEST_F(AnswerLogTest, ProbesAreLoggedWhenTheirStatusChanges) {
  EXPECT_EQ(Say(&probe_, 200), "");
  EXPECT_THAT(Say(&probe_, 503), HasSubstr("status=503"));
  EXPECT_EQ(Say(&probe_, 503), "");
  EXPECT_THAT(Say(&probe_, 200), HasSubstr("status=200"));
  EXPECT_EQ(Say(&probe_, 304), "") << "304 counts as the usual status";
}

}  // namespace
}  // namespace numoe::net
