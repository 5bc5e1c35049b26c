// Backends that end, are overloaded, or are addresses of a group's name.
#include "coordinator/router/backends.h"

#include <algorithm>
#include <atomic>
#include <future>

#include "tests/unit/coordinator/router/router_house.h"

namespace numoe::router {
namespace {

using ::testing::HasSubstr;

class BackendsTest : public RouterHouse {};

TEST_F(BackendsTest, ARequestNoticesABackendThatEnds) {
  auto leaving = Backend([](const CannedRequest&) { return JsonReply(200, "leaving"); });
  const auto staying = Backend([](const CannedRequest&) { return JsonReply(200, "staying"); });
  Start({leaving->url(), staying->url()}, 2);
  EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).body, "leaving");
  leaving.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Ask("/v1/chat/completions", kQuestion).body, "staying");
  const json health = json::parse(Ask("/health").body);
  EXPECT_EQ(health["status"], "ready");
  EXPECT_EQ(health["backends"][0]["ready"], false);
  EXPECT_THAT(health["detail"].get<std::string>(), HasSubstr("cannot connect"));
}

TEST_F(BackendsTest, AnOverloadedBackendIsSkippedAndStaysReady) {
  const auto a = Backend([](const CannedRequest&) {
    return JsonReply(503, R"({"error": {"message": "m", "code": "overloaded"}})");
  });
  const auto b = Backend([](const CannedRequest&) { return JsonReply(200, "b"); });
  Start({a->url(), b->url()}, 2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Ask("/generate", "{}").body, "b");
  EXPECT_GT(Asked(*a, "/generate"), 0u);
  EXPECT_EQ(backends_->balancer().StateOf(0).health, BackendHealth::kReady);
}

TEST_F(BackendsTest, AGroupsNameIsResolved) {
  const auto backend =
      Backend([](const CannedRequest& request) { return JsonReply(200, request.Header("host")); });
  const std::string port = backend->url().substr(backend->url().rfind(':') + 1);
  Start({"dns+http://localhost:" + port}, 1);
  EXPECT_EQ(Ask("/generate", "{}").body, "localhost:" + port)
      << "the request has the group's name, for which a certificate is issued";
  const json health = json::parse(Ask("/health").body);
  ASSERT_EQ(health["backends"].size(), 1u) << "one host, although its name may have IPv4 and IPv6 addresses";
  EXPECT_EQ(health["backends"][0]["url"], "http://127.0.0.1:" + port);
  EXPECT_THAT(Ask("/metrics").body,
              HasSubstr(fmt::format("numoe_router_backend_up{{backend=\"http://127.0.0.1:{}\"}} 1", port)));
}

TEST_F(BackendsTest, AGroupWithoutAddressesIsReported) {
  const auto backend = Backend([](const CannedRequest&) { return JsonReply(200, "here"); });
  Start({"dns+http://nowhere.invalid:8080", backend->url()}, 1);
  Await([&] { return backends_->Missing().find("its name is not known") != std::string::npos; });
  EXPECT_THAT(Ask("/health").body, HasSubstr("dns+http://nowhere.invalid:8080: its name is not known"));
  EXPECT_EQ(Ask("/generate", "{}").body, "here");
}

TEST_F(BackendsTest, AGroupsAddressThatIsAlreadyABackendIsNotAddedAgain) {
  const auto backend = Backend([](const CannedRequest&) { return JsonReply(200, ""); });
  const std::string port = backend->url().substr(backend->url().rfind(':') + 1);
  Start({"http://127.0.0.1:" + port, "dns+http://localhost:" + port}, 1);
  Await([&] { return backends_->Missing().empty(); });
  EXPECT_EQ(backends_->balancer().backends().size(), 1u);
}

TEST(BackendUrlsTest, AnErrorNamesAnInvalidUrl) {
  Metrics metrics(MetricOwner::kRouter);
  const auto refusal = [&](const std::vector<std::string>& urls) {
    return std::string(Backends::Create(urls, metrics).status().message());
  };
  EXPECT_THAT(refusal({"ftp://x"}), HasSubstr("--backends: 'ftp://x'"));
  EXPECT_THAT(refusal({"a:1", "http://a:1/"}), HasSubstr("http://a:1 comes twice"));
  EXPECT_THAT(refusal({"dns+http://a", "dns+http://a:80"}), HasSubstr("dns+http://a comes twice"));
  EXPECT_THAT(refusal({"dns+ftp://x"}), HasSubstr("--backends: 'ftp://x'"));
  EXPECT_THAT(refusal({}), HasSubstr("found 0"));
  EXPECT_TRUE(Backends::Create({"a:1", "https://b"}, metrics).ok()) << "names are looked up later";
}

}  // namespace
}  // namespace numoe::router
