#include "coordinator/router/backend_health.h"

#include "gtest/gtest.h"

namespace numoe::router {
namespace {

TEST(BackendHealth, ReadsTheStatusThatCoordinatorsReport) {
  EXPECT_EQ(ReadHealth(200, R"({"status": "ready", "detail": ""})").health, BackendHealth::kReady);
  EXPECT_EQ(ReadHealth(200, "").health, BackendHealth::kReady) << "other servers answer without a body";
  for (const auto& [status, health] :
       std::initializer_list<std::pair<const char*, BackendHealth>>{{"degraded", BackendHealth::kDegraded},
                                                                    {"stuck", BackendHealth::kDegraded},
                                                                    {"starting", BackendHealth::kOut},
                                                                    {"draining", BackendHealth::kOut}}) {
    const HealthAnswer answer =
        ReadHealth(503, std::string(R"({"status": ")") + status + R"(", "detail": "why"})");
    EXPECT_EQ(answer.health, health) << status;
    EXPECT_EQ(answer.detail, std::string("503 ") + status + ", why");
  }
}

TEST(BackendHealth, AnUnknownAnswerIsOut) {
  for (const char* body : {"", "<html>", "[]", "{}", R"({"status": 7})"}) {
    EXPECT_EQ(ReadHealth(503, body).health, BackendHealth::kOut) << body;
    EXPECT_NE(ReadHealth(404, body).detail.find("404"), std::string::npos);
  }
}

}  // namespace
}  // namespace numoe::router
