// String formats: the texts that they accept, and formats that are only annotations.
#include "coordinator/text/grammar/json_formats.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/schema_cases.h"

namespace numoe::text {
namespace {

TEST(JsonFormatsTest, TextsOfEachFormat) {
  CheckSchema({{R"({"type":"string","format":"date"})",
                {"\"2024-02-29\"", "\"0001-01-31\""},
                {"\"2023-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"1900-02-29\"", "\"0000-01-01\""}},
               {R"({"type":"string","format":"date-time"})",
                {"\"2024-01-01T00:00:00Z\"", "\"2024-01-01T23:59:59.123+02:00\""},
                {"\"2024-01-01 00:00:00Z\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""}},
               {R"({"type":"string","format":"time"})", {"\"10:11:12Z\""}, {"\"10:11Z\""}},
               {R"({"type":"string","format":"email"})",
                {"\"a.b+c@x-y.example.com\""},
                {"\"a\"", "\"a@b\"", "\"a..b@x.com\"", "\"a@-x.com\""}},
               {R"({"type":"string","format":"uuid"})",
                {"\"123e4567-E89b-12d3-a456-426614174000\""},
                {"\"123e4567e89b12d3a456426614174000\""}},
               {R"({"type":"string","format":"ipv4"})",
                {"\"192.168.0.255\""},
                {"\"256.1.1.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
               {R"({"type":"string","format":"ipv6"})",
                {"\"::1\"", "\"2001:db8::8a2e:370:7334\"", "\"1:2:3:4:5:6:7:8\"", "\"::\""},
                {"\":::\"", "\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\"12345::\""}},
               {R"({"type":"string","format":"uri"})",
                {"\"https://a.b/c?d=e#f\"", "\"mailto:x@y.z\"", "\"http://u@h:80/%20\""},
                {"\"no scheme\"", "\"http://a b\"", "\"//x\""}},
               {R"({"type":"string","format":"hostname"})", {"\"a.b-c.d\""}, {"\"-a\"", "\"a..b\"", "\"\""}},
               {R"({"type":"string","format":"duration"})",
                {"\"P1Y2M3DT4H5M6S\"", "\"PT5M\"", "\"P3W\""},
                {"\"P\"", "\"PT\"", "\"1D\""}}});
}

TEST(JsonFormatsTest, PointersAndReferences) {
  CheckSchema(
      {{R"({"type":"string","format":"json-pointer"})", {"\"\"", "\"/a/b~0c~1d\""}, {"\"a\"", "\"/a~2\""}},
       {R"({"type":"string","format":"uri-reference"})",
        {"\"/a?b#c\"", "\"https://x.y\"", "\"/\""},
        {"\"a b\"", "\"%zz\""}}});
}

TEST(JsonFormatsTest, OtherFormatsAreAnnotations) {
  for (const char* known : {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6",
                            "uuid", "uri", "uri-reference", "json-pointer"})
    EXPECT_TRUE(grammar::FormatRegex(known).has_value()) << known;
  for (const char* other : {"", "Date", "int64", "regex"})
    EXPECT_FALSE(grammar::FormatRegex(other).has_value()) << other;
}

}  // namespace
}  // namespace numoe::text
