// MetricsAnswer: what GET /metrics answers, in the form and the encoding that the scraper asks for.
//
// OpenMetrics 1.0 where its Accept header likes that at least as well as Prometheus' older text, which
// everybody else gets; gzip where its Accept-Encoding takes it. Pure functions but for the metrics.
#pragma once

#include <string>
#include <string_view>

#include "common/observe/metrics.h"

namespace numoe {

/// How a scraper wants it.
struct ScrapeForm {
  bool open_metrics = false;
  bool gzip = false;
};
/// By the headers of its request; "": it sent none.
ScrapeForm FormFor(std::string_view accept, std::string_view accept_encoding);

struct MetricsAnswer {
  std::string body;
  std::string type;      // Content-Type
  std::string encoding;  // Content-Encoding; "": none
};
MetricsAnswer AnswerScrape(const Metrics& metrics, ScrapeForm form);

}  // namespace numoe
