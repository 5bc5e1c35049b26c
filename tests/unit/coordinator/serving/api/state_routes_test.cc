// Routes about the server's state, and commands for operators.
#include "coordinator/serving/api/state_routes.h"

#include <latch>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/serving/api/asked_routes.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StateRoutesTest : public AskedRoutes {
 protected:
  StateRoutesTest() { routes_.Register(urls_); }

  StateRoutes routes_{deps_, running_};
};

TEST_F(StateRoutesTest, TheModelIsListedByItsName) {
  EXPECT_EQ(AskJson("GET", "/v1/models")["data"][0], AskJson("GET", "/v1/models/nano"));
  EXPECT_EQ(AskJson("GET", "/v1/models")["data"][1], AskJson("GET", "/v1/models/nano-2"));
  EXPECT_EQ(AskJson("GET", "/v1/models/nano-2")["id"], "nano-2");
  deps_.model_names = {"organisation/model"};
  EXPECT_EQ(AskJson("GET", "/v1/models/organisation/model")["id"], "organisation/model");
  deps_.model_names = {"nano", "nano-2"};
  const net::HttpReply other = Ask("GET", "/v1/models/kimi");
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.body, HasSubstr("no such model: kimi; this server has nano, nano-2"));
  for (const char* path : {"/model_info", "/get_model_info"})
    EXPECT_EQ(AskJson("GET", path)["model_path"], "/models/nano");
}

TEST_F(StateRoutesTest, LoadAndStateComeFromTheEngine) {
  engine_.stats.running = 3;
  engine_.stats.waiting = 4;
  for (const char* path : {"/load", "/get_load"}) {
    EXPECT_EQ(AskJson("GET", path),
              (ordered_json{{"server_load", 0}, {"num_running_reqs", 3}, {"num_waiting_reqs", 4}}));
  }
  const ordered_json info = AskJson("GET", "/server_info");
  EXPECT_EQ(info["port"], 8080);
  EXPECT_EQ(info["internal_states"][0]["waiting"], 4);
}

TEST_F(StateRoutesTest, ExpertStatsAreFetchedOnAnotherThread) {
  std::latch asked(1);
  const auto here = std::this_thread::get_id();
  deps_.expert_stats = [&]() -> absl::StatusOr<std::string> {
    EXPECT_NE(std::this_thread::get_id(), here);
    asked.wait();
    return absl::UnavailableError("no worker tells its statistics");
  };
  std::thread others([&] { asked.count_down(); });
  const net::HttpReply reply = Ask("GET", "/expert_stats");
  others.join();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("no worker tells its statistics"));
}

TEST_F(StateRoutesTest, AKeyEmptiesItsOwnPrefixesAndAnAdministratorAll) {
  EXPECT_EQ(Ask("POST", "/reset_prefix_cache", "", {.tenant = 7}).status, 200);
  EXPECT_EQ(Ask("POST", "/flush_cache", "", {.tenant = 7, .admin = true}).status, 200);
  EXPECT_THAT(engine_.resets, ElementsAre("7:", ""));
  deps_.share_prefix_cache = true;
  const net::HttpReply shared = Ask("GET", "/flush_cache", "", {.tenant = 7});
  EXPECT_EQ(shared.status, 403);
  EXPECT_THAT(shared.body, HasSubstr("--share-prefix-cache"));
  EXPECT_EQ(engine_.resets.size(), 2u);
}

TEST_F(StateRoutesTest, AbortingNamesARequestOrAll) {
  EXPECT_THAT(Ask("POST", "/abort_request", "{}").body, HasSubstr("abort_all: true"));
  EXPECT_EQ(AskJson("POST", "/abort_request", R"({"rid": "x"})"), (ordered_json{{"aborted", 0}}));
  EXPECT_EQ(AskJson("POST", "/abort_request", R"({"abort_all": true})"), (ordered_json{{"aborted", 0}}));
}

// A full queue means that the server works: it generates tokens.
TEST_F(StateRoutesTest, HealthIsTestedWithATokenUnlessTheQueueIsFull) {
  EXPECT_EQ(Ask("GET", "/health_generate").status, 503) << "this engine computes nothing";
  engine_.refusal = absl::ResourceExhaustedError("the queue is full");
  EXPECT_EQ(AskJson("GET", "/health_generate")["status"], "ready");
  deps_.health = [] { return HealthReport{"degraded", "worker 0"}; };
  EXPECT_THAT(Ask("GET", "/health_generate").body, HasSubstr("worker 0"));
}

}  // namespace
}  // namespace numoe::serving
