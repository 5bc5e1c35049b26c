// Relayed streams of events: only complete events are passed on, and an incomplete stream ends with an error.
#include "coordinator/router/event_relay.h"

#include "coordinator/router/router_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::router {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

const net::ApiError kLost{.http_status = 502, .message = "gone", .type = "server_error", .code = "lost"};

TEST(EventRelayTest, EventsArePassedOnCompleteHoweverTheyAreCut) {
  const std::string events = "data: {\"a\": 1}\n\nevent: x\ndata: 2\n\ndata: [DONE]\n\n";
  for (size_t piece = 1; piece <= events.size(); ++piece) {
    EventRelay relay("/v1/chat/completions");
    std::string passed;
    for (size_t i = 0; i < events.size(); i += piece) {
      passed += relay.Take(events.substr(i, piece));
      EXPECT_TRUE(passed.empty() || passed.ends_with("\n\n")) << passed;
    }
    EXPECT_EQ(passed, events);
    EXPECT_TRUE(relay.ended());
    EXPECT_EQ(relay.Rest(), "");
  }
  EventRelay relay("/generate");
  EXPECT_EQ(relay.Take("data: 1\n\ndata: half"), "data: 1\n\n");
  EXPECT_EQ(relay.Rest(), "data: half") << "the backend ended its stream like this";
}

TEST(EventRelayTest, AnIncompleteStreamEndsInTheFormatOfItsApi) {
  EventRelay chat("/v1/chat/completions");
  chat.Take("data: {}\n\ndata: half");
  EXPECT_EQ(chat.Failure(kLost), "data: " + kLost.ToJson() + "\n\ndata: [DONE]\n\n");
  EventRelay messages("/v1/messages");
  messages.Take("event: message_start\ndata: {}\n\n");
  EXPECT_EQ(messages.Failure(kLost),
            "event: error\ndata: " + kLost.ToJson(net::ErrorShape::kAnthropic) + "\n\n");
  EventRelay responses("/v1/responses");
  responses.Take("event: response.created\ndata: {}\n\nevent: response.in_progress\ndata: {}\n\nevent: r");
  const std::string failure = responses.Failure(kLost);
  constexpr std::string_view kHead = "event: error\ndata: ";
  ASSERT_THAT(failure, StartsWith(std::string(kHead)));
  const auto json = nlohmann::json::parse(failure.substr(kHead.size()));
  EXPECT_EQ(json["type"], "error");
  EXPECT_EQ(json["code"], "lost");
  EXPECT_EQ(json["sequence_number"], 2) << "the events before it are 0 and 1";
}

TEST(EventRelayTest, EachApiHasItsFinalEvent) {
  const auto ends = [](const char* path, const std::string& event) {
    EventRelay relay(path);
    relay.Take("data: {}\n\n" + event + "\n\n");
    return relay.ended();
  };
  EXPECT_TRUE(ends("/v1/completions", "data: [DONE]"));
  EXPECT_FALSE(ends("/v1/completions", "data: {}"));
  EXPECT_TRUE(ends("/v1/messages", "event: message_stop\ndata: {}"));
  EXPECT_TRUE(ends("/v1/messages", "event: error\ndata: {}"));
  EXPECT_FALSE(ends("/v1/messages", "event: message_delta\ndata: {}"));
  EXPECT_TRUE(ends("/v1/responses", "event: response.failed\ndata: {}"));
  EXPECT_FALSE(ends("/v1/responses", "event: response.created\ndata: {}"));
}

TEST(EventRelayTest, AnEventThatIsTooLongIsPassedOnInPieces) {
  EventRelay relay("/generate");
  const std::string much = "data: " + std::string(limits::kRouterWholeBytesMax, 'x');
  EXPECT_EQ(relay.Take(much), much);
  EXPECT_THAT(relay.Failure(kLost), StartsWith("\n\ndata: {\"error\""))
      << "the error does not become a part of that event";
  EXPECT_THAT(relay.Take("end\n\ndata: 2\n\n"), EndsWith("data: 2\n\n"));
  EXPECT_THAT(relay.Failure(kLost), StartsWith("data: "));
}

}  // namespace
}  // namespace numoe::router
