// What is decided from a request's head alone, without a connection.
#include "coordinator/net/http/admission.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::net {
namespace {

using ::testing::HasSubstr;

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    const auto nothing = [](const std::shared_ptr<Exchange>&) {};
    urls_.Add({.method = "GET", .pattern = "/health", .handle = nothing, .open = true});
    urls_.Add({.method = "POST",
               .pattern = "/ask/{}",
               .handle = nothing,
               .errors = ErrorShape::kAnthropic,
               .body_max = 100});
  }

  std::unique_ptr<Answer> Asking(const char* method, const char* path, const char* key = "k") {
    return std::make_unique<Answer>(
        nullptr, HttpRequest{.method = method, .path = path, .headers = {{"x-api-key", key}}}, 1, bodies_);
  }
  std::optional<HttpReply> Enter(Admission& admission, const char* method, const char* path,
                                 const char* key = "k", uint64_t body_bytes = 0) {
    admission.Leave();
    admission.Begin();
    return admission.Enter(*Asking(method, path, key), {.bytes = body_bytes});
  }
  static int StatusOf(const std::optional<HttpReply>& refusal) { return refusal ? refusal->status : 0; }

  UrlTable urls_;
  const std::atomic<const UrlTable*> current_{&urls_};
  const std::unique_ptr<Access> access_ = *Access::Create({.keys = {"k"}, .requests_per_key_max = 1});
  Metrics metrics_{MetricOwner::kCoordinator};
  const ServerOptions options_{.connections_max = 7};
  const std::shared_ptr<RequestBodies> bodies_ = std::make_shared<RequestBodies>(60);
  const PageOrigins pages_{OriginRules{.loopback = true}};
  AnswerLog log_{metrics_};
  const ServerParts parts_{.urls = current_,
                           .access = *access_,
                           .metrics = metrics_,
                           .options = options_,
                           .pages = pages_,
                           .log = log_,
                           .bodies = bodies_};
  Admission admission_{parts_, /*spare=*/false};
};

TEST_F(AdmissionTest, AnAdmittedRequestHasItsCallerAndASlotUntilItLeaves) {
  admission_.Begin();
  EXPECT_EQ(admission_.route(), nullptr);
  const auto exchange = Asking("POST", "/ask/me");
  EXPECT_EQ(admission_.Enter(*exchange, {.bytes = 10}), std::nullopt);
  EXPECT_EQ(admission_.route()->pattern, "/ask/{}");
  EXPECT_THAT(exchange->request().captures, ::testing::ElementsAre("me"));
  EXPECT_GT(exchange->request().caller.tenant, 0);
  EXPECT_NE(admission_.slot(), nullptr);
  Admission other(parts_, false);
  EXPECT_EQ(StatusOf(Enter(other, "POST", "/ask/me")), 429) << "the key's only slot is taken";
  admission_.Leave();
  EXPECT_EQ(admission_.slot(), nullptr);
  EXPECT_EQ(StatusOf(Enter(other, "POST", "/ask/me")), 0);
}

TEST_F(AdmissionTest, UnknownPathsAreRefusedAndMethodsAreNamed) {
  EXPECT_EQ(StatusOf(Enter(admission_, "GET", "/nowhere")), 404);
  const auto refusal = Enter(admission_, "GET", "/ask/me");
  ASSERT_EQ(StatusOf(refusal), 405);
  EXPECT_THAT(refusal->headers, ::testing::ElementsAre(::testing::Pair("Allow", HasSubstr("POST"))));
  EXPECT_EQ(admission_.route(), nullptr);
  EXPECT_EQ(StatusOf(Enter(admission_, "HEAD", "/health")), 0) << "HEAD uses the route of GET";
}

TEST_F(AdmissionTest, ASpareConnectionMayUseOnlyOpenRoutes) {
  Admission spare(parts_, /*spare=*/true);
  EXPECT_EQ(StatusOf(Enter(spare, "GET", "/health", "")), 0);
  EXPECT_EQ(spare.slot(), nullptr);
  const auto refusal = Enter(spare, "POST", "/ask/me");
  ASSERT_EQ(StatusOf(refusal), 503);
  EXPECT_THAT(refusal->body, HasSubstr("7 connections"));
  EXPECT_EQ(spare.slot(), nullptr);
}

TEST_F(AdmissionTest, RefusalsHaveTheShapeOfTheirRoute) {
  const auto refusal = Enter(admission_, "POST", "/ask/me", "wrong");
  ASSERT_EQ(StatusOf(refusal), 401);
  EXPECT_EQ(refusal->body, FromStatus(access_->Enter({}).status()).ToJson(ErrorShape::kAnthropic));
  EXPECT_EQ(StatusOf(Enter(admission_, "GET", "/nowhere")), 404);
  EXPECT_EQ(admission_.ReplyOf({.message = "x"}).body, ApiError{.message = "x"}.ToJson(ErrorShape::kOpenAi));
}

TEST_F(AdmissionTest, BodiesThatAreTooLargeAreRefusedUnread) {
  const auto large = Enter(admission_, "POST", "/ask/me", "k", 101);
  ASSERT_EQ(StatusOf(large), 413);
  EXPECT_THAT(large->body, HasSubstr("larger than the 100 bytes"));
  EXPECT_EQ(StatusOf(Enter(admission_, "POST", "/ask/me", "k", 61)), 503)
      << "all bodies together may have 60 bytes";
  EXPECT_EQ(StatusOf(Enter(admission_, "POST", "/ask/me", "k", 30)), 0);
}

TEST_F(AdmissionTest, BodiesAreUncompressedJson) {
  const auto status = [&](std::pair<std::string, std::string> field, AnnouncedBody body = {.chunked = true}) {
    const auto exchange = Asking("POST", "/ask/me");
    exchange->incoming().headers.push_back(std::move(field));
    admission_.Leave();
    admission_.Begin();
    return StatusOf(admission_.Enter(*exchange, body));
  };
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/x+json", "",
                           "application/x-www-form-urlencoded"})
    EXPECT_EQ(status({"content-type", type}), 0) << type;
  for (const char* type : {"text/plain", "multipart/form-data; boundary=x", "application/jsonx"})
    EXPECT_EQ(status({"content-type", type}), 415) << type;
  EXPECT_EQ(status({"content-type", "text/plain"}, {}), 0) << "there is no body";
  EXPECT_EQ(status({"content-encoding", "Identity"}), 0);
  EXPECT_EQ(status({"content-encoding", "gzip"}), 415);
  const auto exchange = Asking("POST", "/ask/me");
  exchange->incoming().headers.emplace_back("content-encoding", "gzip");
  admission_.Leave();
  admission_.Begin();
  EXPECT_THAT(admission_.Enter(*exchange, {.bytes = 1})->headers,
              ::testing::ElementsAre(::testing::Pair("Accept-Encoding", "identity")));
}

TEST_F(AdmissionTest, ForeignPagesMayUseOnlyOpenRoutes) {
  const auto status = [&](const char* method, const char* path) {
    const auto exchange = Asking(method, path);
    exchange->incoming().headers.emplace_back("origin", "https://evil.example");
    admission_.Leave();
    admission_.Begin();
    return StatusOf(admission_.Enter(*exchange, {}));
  };
  EXPECT_EQ(status("POST", "/ask/me"), 403);
  EXPECT_EQ(status("GET", "/health"), 0);
  EXPECT_EQ(admission_.slot(), nullptr);
  EXPECT_EQ(status("OPTIONS", "/ask/me"), 204);
}

}  // namespace
}  // namespace numoe::net
