// OpenAI's error object always has all four fields and is valid JSON for any message; each kind of failure
// has its HTTP status.
#include "coordinator/net/http/api_error.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::net {
namespace {

nlohmann::json Inner(const ApiError& error) {
  const nlohmann::json whole = nlohmann::json::parse(error.ToJson());
  EXPECT_EQ(whole.size(), 1u);
  return whole.at("error");
}

TEST(ApiErrorTest, AllFourFieldsAreAlwaysThere) {
  const nlohmann::json bare = Inner(BadRequest("", "not JSON"));
  EXPECT_EQ(bare.size(), 4u);
  EXPECT_EQ(bare.at("message"), "not JSON");
  EXPECT_EQ(bare.at("type"), "invalid_request_error");
  EXPECT_TRUE(bare.at("param").is_null() && bare.at("code").is_null()) << bare;

  ApiError full = BadRequest("stop", "wrong");
  full.code = "some_code";
  EXPECT_EQ(full.http_status, 400);
  EXPECT_EQ(Inner(full).at("param"), "stop");
  EXPECT_EQ(Inner(full).at("code"), "some_code");
}

TEST(ApiErrorTest, QuotedTextCannotBreakTheJson) {
  EXPECT_EQ(Inner(BadRequest("p", "say \"no\"\\\n")).at("message"), "say \"no\"\\\n");
  // The quoted text ends in the middle of a character.
  EXPECT_EQ(Inner(BadRequest("p", "caf\xc3")).at("message"), "caf\xef\xbf\xbd");
}

TEST(ApiErrorTest, StatusesBecomeHttpStatuses) {
  struct Case {
    absl::Status status;
    int http;
    const char* type;
    const char* code;  // nullptr if the code is null
  };
  for (const Case& c : {Case{absl::UnauthenticatedError("m"), 401, "authentication_error", "invalid_api_key"},
                        Case{absl::ResourceExhaustedError("m"), 429, "rate_limit_error", "queue_full"},
                        Case{absl::UnavailableError("m"), 503, "server_error", "unavailable"},
                        Case{absl::InvalidArgumentError("m"), 400, "invalid_request_error", nullptr},
                        Case{absl::DataLossError("m"), 500, "server_error", "internal_error"},
                        Case{absl::InternalError("m"), 500, "server_error", "internal_error"}}) {
    const ApiError error = FromStatus(c.status);
    EXPECT_EQ(error.http_status, c.http) << c.status;
    const nlohmann::json inner = Inner(error);
    EXPECT_EQ(inner.at("message"), "m") << "the message does not contain the name of the code";
    EXPECT_EQ(inner.at("type"), c.type) << c.status;
    EXPECT_EQ(inner.at("code"), c.code == nullptr ? nlohmann::json() : nlohmann::json(c.code)) << c.status;
  }
}

}  // namespace
}  // namespace numoe::net
