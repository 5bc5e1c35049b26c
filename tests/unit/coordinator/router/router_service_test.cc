// The router's routes over real sockets: which backend gets a conversation, keys, draining.
#include "coordinator/router/router_service.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "tests/unit/coordinator/router/router_house.h"

namespace numoe::router {
namespace {

using ::testing::HasSubstr;

class RouterServiceTest : public RouterHouse {};

TEST_F(RouterServiceTest, AConversationGoesToOneBackend) {
  const auto answer = [](const CannedRequest&) { return JsonReply(200, "{}"); };
  const auto a = Backend(answer), b = Backend(answer);
  Start({a->url(), b->url()}, 2);
  const std::string path = "/v1/chat/completions";
  for (int talk = 0; talk < 6; ++talk) {
    json body = {{"messages", json::array()}};
    const size_t before = Asked(*a, path);
    for (int turn = 0; turn < 4; ++turn) {
      body["messages"].push_back(
          {{"role", "user"}, {"content", fmt::format("{} is the talk and {} the turn of it", talk, turn)}});
      EXPECT_EQ(Ask(path, body.dump()).status, 200);
    }
    const size_t at_a = Asked(*a, path) - before;
    EXPECT_TRUE(at_a == 0 || at_a == 4) << at_a;
  }
  EXPECT_EQ(Asked(*a, path), 12u);
  EXPECT_EQ(Asked(*b, path), 12u);
  const std::string metrics = Ask("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr(fmt::format("numoe_router_requests_total{{backend=\"{}\",by=\"prefix\"}} 9",
                                             a->url())));
  EXPECT_THAT(metrics, HasSubstr(fmt::format("numoe_router_backend_up{{backend=\"{}\"}} 1", b->url())));
}

TEST_F(RouterServiceTest, HealthReportsMissingBackendsAndDraining) {
  const auto starting = Backend([](const CannedRequest&) { return JsonReply(503, "{}"); },
                                R"({"status": "starting", "detail": "reading"})");
  Start({starting->url()}, 0);
  Await([&] { return Asked(*starting, "/health") > 0; });
  Await([&] {
    return json::parse(Ask("/health").body)["detail"].get<std::string>().find("starting") !=
           std::string::npos;
  });
  EXPECT_EQ(Ask("/health").status, 503);
  const auto reply = Ask("/v1/chat/completions", kQuestion);
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("starting"));
  EXPECT_EQ(Ask("/v1/models").status, 503);
  EXPECT_EQ(json::parse(Ask("/version").body).size(), 1u);
  service_->Drain();
  EXPECT_EQ(json::parse(Ask("/health").body)["status"], "draining");
  EXPECT_THAT(Ask("/generate", "{}").body, HasSubstr("draining"));
}

TEST_F(RouterServiceTest, KeysAreCheckedAndPassedOn) {
  const auto backend = Backend(
      [](const CannedRequest& request) { return JsonReply(200, "key: " + request.Header("x-api-key")); });
  Start({backend->url()}, 1, {.keys = {"secret"}});
  EXPECT_EQ(Ask("/generate", "{}").status, 401);
  EXPECT_EQ(Ask("/anything").status, 401);
  EXPECT_EQ(Ask("/generate", "{}", {{"X-Api-Key", "secret"}}).body, "key: secret");
  EXPECT_EQ(Ask("/").status, 200) << "the page needs no key";
  EXPECT_EQ(Ask("/health").status, 200);
}

}  // namespace
}  // namespace numoe::router
