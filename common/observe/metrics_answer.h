// MetricsAnswer: the answer to GET /metrics, in the format and the encoding that the scraper asks for.
//
// It is OpenMetrics 1.0 if the Accept header prefers that to Prometheus' older text, or wants both equally;
// all other scrapers get the older text. It is compressed with gzip if the Accept-Encoding header allows
// that. Pure functions, except that AnswerScrape reads the metrics.
#pragma once

#include <string>
#include <string_view>

#include "common/observe/metrics.h"

namespace numoe {

/// What a scraper asks for.
struct ScrapeFormat {
  bool open_metrics = false;
  bool gzip = false;
};
/// Chooses by the headers of the request; "" means that the request has no such header.
ScrapeFormat ChooseScrapeFormat(std::string_view accept, std::string_view accept_encoding);

struct MetricsAnswer {
  std::string body;
  std::string type;      // Content-Type
  std::string encoding;  // Content-Encoding; "" if there is none
};
MetricsAnswer AnswerScrape(const Metrics& metrics, ScrapeFormat format);

}  // namespace numoe
