// A client waits for a server that loads its model, reports what the server does, and waits for no other
// server.
#include "coordinator/clients/terminal/start_wait.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/canned_server.h"

namespace numoe::clients {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kBetweenQuestions{1};

std::vector<std::string> SaidWhileWaiting(const CannedServer::Answer& answer) {
  const CannedServer server(answer);
  const auto client = net::HttpClient::Create(net::ParseUrl(server.url()).value(), "");
  std::vector<std::string> said;
  AwaitStart(
      **client, [&](std::string_view doing) { said.emplace_back(doing); }, kBetweenQuestions);
  return said;
}

TEST(StartWaitTest, ReportsWhatAStartingServerDoesUntilItIsReady) {
  std::atomic<int> asked = 0;
  EXPECT_THAT(SaidWhileWaiting([&](const CannedRequest& request) -> CannedReply {
                EXPECT_EQ(request.target, "/health");
                switch (asked++) {
                  case 0:
                  case 1:
                    return JsonReply(503,
                                     R"({"status": "starting", "detail": "waiting for worker a\u001b[2J"})");
                  case 2:
                    return JsonReply(503, R"({"status": "starting", "detail": "loading"})");
                  default:
                    return JsonReply(200, R"({"status": "ready", "detail": ""})");
                }
              }),
              ElementsAre("waiting for worker a[2J", "loading", ""));
  EXPECT_EQ(asked, 4);
}

TEST(StartWaitTest, WaitsForNoOtherServer) {
  for (const char* body :
       {R"({"status": "degraded", "detail": "a worker is down"})", R"(["starting"])", "", R"({"status": 1})"})
    EXPECT_THAT(SaidWhileWaiting([&](const CannedRequest&) -> CannedReply { return JsonReply(503, body); }),
                IsEmpty());
  EXPECT_THAT(SaidWhileWaiting([&](const CannedRequest&) -> CannedReply { return JsonReply(404, "{}"); }),
              IsEmpty());
}

TEST(StartWaitTest, DoesNotWaitForAServerThatIsNotThere) {
  const auto client = net::HttpClient::Create(net::ParseUrl("http://127.0.0.1:9").value(), "");
  AwaitStart(**client, [](std::string_view) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace numoe::clients
