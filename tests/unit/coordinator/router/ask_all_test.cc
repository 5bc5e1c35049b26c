// Requests that are sent to every backend.
#include "coordinator/router/ask_all.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "tests/unit/coordinator/router/router_house.h"

namespace numoe::router {
namespace {

using ::testing::HasSubstr;

class AskAllTest : public RouterHouse {};

TEST_F(AskAllTest, CommandsReachAllBackendsAndListsAreMerged) {
  const auto answers = [](const std::string& model) {
    return [model](const CannedRequest& request) {
      if (request.target == "/abort_request") return JsonReply(200, R"({"aborted": 2})");
      if (request.target == "/v1/models") return JsonReply(200, R"({"data": [{"id": ")" + model + R"("}]})");
      return JsonReply(200, "{}");
    };
  };
  const auto a = Backend(answers("m")), b = Backend(answers("n"));
  const auto drains = Backend(answers("o"), R"({"status": "draining", "detail": ""})");
  Start({a->url(), b->url(), drains->url()}, 2);
  EXPECT_EQ(Ask("/abort_request", R"({"rid": "x"})").body, R"({"aborted":6})")
      << "a draining backend may still run it";
  EXPECT_EQ(Ask("/v1/models").body, R"({"data":[{"id":"m"},{"id":"n"}]})");
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).status, 200);
  EXPECT_GT(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Ask("/flush_cache").status, 200);
  EXPECT_EQ(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Asked(*a, "/flush_cache"), 1u);
  EXPECT_EQ(Asked(*b, "/flush_cache"), 1u);
}

TEST_F(AskAllTest, OnlyAResetForAllTenantsForgetsPrefixes) {
  std::atomic<int> status{401};
  const auto answers = [&status](const CannedRequest& request) {
    return JsonReply(request.target == "/flush_cache" ? status.load() : 200, "{}");
  };
  const auto a = Backend(answers), b = Backend([](const CannedRequest&) { return JsonReply(200, "{}"); });
  Start({a->url(), b->url()}, 2);
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).status, 200);
  ASSERT_GT(backends_->balancer().prefixes(), 0u);
  EXPECT_EQ(Ask("/flush_cache").status, 401);
  EXPECT_GT(backends_->balancer().prefixes(), 0u) << "refused";
  status = 200;
  EXPECT_EQ(Ask("/flush_cache", "", {{"X-Api-Key", "a"}}).status, 200);
  EXPECT_GT(backends_->balancer().prefixes(), 0u) << "the key's own prefixes only";
  EXPECT_EQ(Ask("/flush_cache").status, 200);
  EXPECT_EQ(backends_->balancer().prefixes(), 0u);
}

TEST_F(AskAllTest, StoredAnswersAreFoundAtTheirBackend) {
  const auto keeps = [](const std::string& id, const std::string& name) {
    return [id, name](const CannedRequest& request) {
      const bool here =
          request.target.find("/" + id) != std::string::npos || request.body.find(id) != std::string::npos;
      return here ? JsonReply(200, name) : JsonReply(404, "not at " + name);
    };
  };
  const auto a = Backend(keeps("resp_a", "a")), b = Backend(keeps("resp_b", "b"));
  Start({a->url(), b->url()}, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Ask("/v1/responses/resp_a").body, "a");
    EXPECT_EQ(Ask("/v1/responses/resp_b").body, "b");
  }
  EXPECT_EQ(Asked(*a, "/v1/responses/resp_b/input_items?limit=1"), 1u)
      << "the router asks once and then remembers";
  EXPECT_EQ(Ask("/v1/responses", R"({"input": "x", "previous_response_id": "resp_b"})").body, "b");
  EXPECT_EQ(Ask("/v1/responses/input_tokens", R"({"input": "x", "previous_response_id": "resp_b"})").body,
            "b");
  EXPECT_EQ(Ask("/v1/responses/resp_c").status, 404);
  EXPECT_EQ(Ask("/v1/responses/resp_c%2f..%2fx").status, 404);
  for (const CannedRequest& request : a->requests())
    EXPECT_EQ(request.target.find("x/input_items"), std::string::npos) << request.target;
}

}  // namespace
}  // namespace numoe::router
