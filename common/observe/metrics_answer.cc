#include "common/observe/metrics_answer.h"

#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/base/check.h"

namespace numoe {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Removes the part of `text` before the first `separator` and returns it.
std::string_view TakeUpTo(char separator, std::string_view& text) {
  const size_t end = text.find(separator);
  const std::string_view first = text.substr(0, end);
  text = end == std::string_view::npos ? "" : text.substr(end + 1);
  return Trimmed(first);
}

// An entry of an Accept header, and its weight.
struct Wish {
  std::string what;
  std::string version;  // its parameter, if it has one
  double weight = 1;
};

Wish TakeWish(std::string_view& header) {
  std::string_view parts = TakeUpTo(',', header);
  Wish wish{.what = Lower(TakeUpTo(';', parts)), .version = ""};
  while (!parts.empty()) {
    std::string_view value = TakeUpTo(';', parts);
    const std::string name = Lower(TakeUpTo('=', value));
    value = Trimmed(value);
    if (name == "version") wish.version = value;
    if (name != "q") continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), wish.weight);
    if (error != std::errc() || end != value.data() + value.size()) wish.weight = 0;
  }
  return wish;
}

std::string Zipped(const std::string& text) {
  constexpr int kGzip = 16, kWindow = 15, kMemory = 8;  // zlib's defaults, and a gzip header
  z_stream stream{};
  NUMOE_CHECK_EQ(
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kWindow + kGzip, kMemory, Z_DEFAULT_STRATEGY), Z_OK);
  std::string zipped(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(zipped.data());
  stream.avail_out = static_cast<uInt>(zipped.size());
  NUMOE_CHECK_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END) << "deflateBound must be enough";
  zipped.resize(stream.total_out);
  deflateEnd(&stream);
  return zipped;
}

}  // namespace

ScrapeFormat ChooseScrapeFormat(std::string_view accept, std::string_view accept_encoding) {
  double open_metrics = 0, text = 0;
  while (!accept.empty()) {
    const Wish wish = TakeWish(accept);
    const bool known = wish.version.empty() || wish.version == "1.0.0" || wish.version == "0.0.1";
    if (wish.what == "application/openmetrics-text" && known)
      open_metrics = std::max(open_metrics, wish.weight);
    if (wish.what == "text/plain") text = std::max(text, wish.weight);
  }
  ScrapeFormat format{.open_metrics = open_metrics > 0 && open_metrics >= text};
  while (!accept_encoding.empty()) {
    const Wish wish = TakeWish(accept_encoding);
    if (wish.what == "gzip") format.gzip = wish.weight > 0;
  }
  return format;
}

MetricsAnswer AnswerScrape(const Metrics& metrics, ScrapeFormat format) {
  MetricsAnswer answer{.body = format.open_metrics ? metrics.SerialiseOpenMetrics() : metrics.Serialise(),
                       .type = format.open_metrics
                                   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                   : "text/plain; version=0.0.4; charset=utf-8",
                       .encoding = format.gzip ? "gzip" : ""};
  if (format.gzip) answer.body = Zipped(answer.body);
  return answer;
}

}  // namespace numoe
