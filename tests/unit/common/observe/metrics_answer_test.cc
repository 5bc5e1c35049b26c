// Which format a scraper gets for its headers, and that compressed answers have the same content.
#include "common/observe/metrics_answer.h"

#include <zlib.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

bool Open(const char* accept) { return ChooseScrapeFormat(accept, "").open_metrics; }
bool Packed(const char* encoding) { return ChooseScrapeFormat("", encoding).gzip; }

TEST(MetricsAnswerTest, OpenMetricsIsForScrapersThatAskForIt) {
  // Prometheus 2.42 and 3, and an OpenTelemetry collector.
  EXPECT_TRUE(
      Open("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
           "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(
      Open("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
           "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"));
  EXPECT_TRUE(Open("Application/OpenMetrics-Text; Version=1.0.0"));
  EXPECT_TRUE(Open("application/openmetrics-text"));
  EXPECT_TRUE(Open("text/plain;q=0.5, application/openmetrics-text;q=0.5"));
}

TEST(MetricsAnswerTest, OtherScrapersGetText) {
  for (const char* accept :
       {"", "*/*", "text/plain;version=0.0.4", "text/html, application/json;q=0.9",
        "application/openmetrics-text;q=0", "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=x", "application/openmetrics-text;q=0.3, text/plain;q=0.5",
        ",,;;=;q=,",
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"})
    EXPECT_FALSE(Open(accept)) << accept;
}

TEST(MetricsAnswerTest, GzipIsForScrapersThatAcceptIt) {
  for (const char* encoding : {"gzip", "deflate, GZIP;q=0.5", "br;q=1.0, gzip"})
    EXPECT_TRUE(Packed(encoding));
  for (const char* encoding : {"", "identity", "br", "gzip;q=0", "gzip;q=0.000", "xgzip"})
    EXPECT_FALSE(Packed(encoding)) << encoding;
}

std::string Unpacked(std::string packed) {
  constexpr int kGzip = 16;
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text(1 << 20, '\0');
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + kGzip), Z_OK);
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(MetricsAnswerTest, TypeEncodingAndBodyAgree) {
  Metrics metrics(MetricOwner::kRouter);
  metrics.Set(GaugeId::kRouterPrefixes, 7);
  const MetricsAnswer text = AnswerScrape(metrics, {});
  EXPECT_EQ(text.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(text.encoding, "");
  EXPECT_THAT(text.body, HasSubstr("\nnumoe_router_prefixes 7\n"));
  const MetricsAnswer packed = AnswerScrape(metrics, {.open_metrics = true, .gzip = true});
  EXPECT_EQ(packed.type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_EQ(packed.encoding, "gzip");
  const std::string unpacked = Unpacked(packed.body);
  EXPECT_LT(packed.body.size(), unpacked.size() / 2);
  EXPECT_THAT(unpacked, HasSubstr("\nnumoe_router_prefixes 7\n"));
  EXPECT_THAT(unpacked, EndsWith("# EOF\n"));
}

}  // namespace
}  // namespace numoe
