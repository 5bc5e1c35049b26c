// The JSON that collectors read, member by member.
#include "coordinator/serving/tracing/otlp_json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {
namespace {

using nlohmann::json;

TEST(OtlpJsonTest, ASpanWithEveryKindOfAttribute) {
  const Span span{.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                  .span_id = "00f067aa0ba902b7",
                  .parent_id = "00f067aa0ba902b8",
                  .name = "chat nano",
                  .kind = SpanKind::kServer,
                  .start_ns = 1'700'000'000'123'456'789,
                  .end_ns = 1'700'000'001'000'000'000,
                  .attributes = {{"text", std::string("a")},
                                 {"number", int64_t{9'007'199'254'740'993}},
                                 {"share", 0.5},
                                 {"flag", true},
                                 {"list", std::vector<std::string>{"stop", "length"}}},
                  .error = "overloaded"};
  const json got = json::parse(ToOtlpJson({span}, {{"service.name", std::string("numoe")}}));
  const json& resource = got.at("resourceSpans").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0),
            json::parse(R"({"key": "service.name", "value": {"stringValue": "numoe"}})"));
  const json& scope = resource.at("scopeSpans").at(0);
  EXPECT_EQ(scope.at("scope").at("name"), "numoe");
  EXPECT_EQ(scope.at("spans").at(0), json::parse(R"({
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "parentSpanId": "00f067aa0ba902b8",
    "name": "chat nano", "kind": 2,
    "startTimeUnixNano": "1700000000123456789", "endTimeUnixNano": "1700000001000000000",
    "attributes": [{"key": "text", "value": {"stringValue": "a"}},
                   {"key": "number", "value": {"intValue": "9007199254740993"}},
                   {"key": "share", "value": {"doubleValue": 0.5}},
                   {"key": "flag", "value": {"boolValue": true}},
                   {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "stop"}, {"stringValue": "length"}]}}}],
    "status": {"code": 2, "message": "overloaded"}})"));
}

TEST(OtlpJsonTest, ARootSpanWithoutErrorHasNeitherParentNorStatus) {
  const json span = json::parse(ToOtlpJson({{.trace_id = "a",
                                             .span_id = "b",
                                             .parent_id = "",
                                             .name = "x",
                                             .attributes = {},
                                             .error = ""}},
                                           {}))
                        .at("resourceSpans")
                        .at(0)
                        .at("scopeSpans")
                        .at(0)
                        .at("spans")
                        .at(0);
  EXPECT_FALSE(span.contains("parentSpanId"));
  EXPECT_FALSE(span.contains("status"));
  EXPECT_EQ(span.at("kind"), 1);
}

TEST(OtlpJsonTest, BytesThatAreNotUtf8AreReplaced) {
  const std::string text = ToOtlpJson(
      {{.trace_id = "a", .span_id = "b", .parent_id = "", .name = "\xff\xfe", .attributes = {}, .error = ""}},
      {});
  EXPECT_TRUE(json::accept(text));
}

}  // namespace
}  // namespace numoe::serving
