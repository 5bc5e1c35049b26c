#include "coordinator/serving/tracing/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

constexpr size_t kTraceIdDigits = 32, kSpanIdDigits = 16;
// VERSION-TRACE_ID-PARENT_ID-FLAGS; later versions may append more after another dash.
constexpr size_t kTraceparentBytes = 2 + 1 + kTraceIdDigits + 1 + kSpanIdDigits + 1 + 2;
static_assert(kTraceparentBytes == sizeof "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" - 1);

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsId(std::string_view text) {
  return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

uint64_t Draw() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kTraceparentBytes) return std::nullopt;
  const std::string_view version = header.substr(0, 2), flags = header.substr(kTraceparentBytes - 2, 2);
  const std::string_view trace = header.substr(3, kTraceIdDigits),
                         parent = header.substr(3 + kTraceIdDigits + 1, kSpanIdDigits);
  const bool dashes =
      header[2] == '-' && header[3 + kTraceIdDigits] == '-' && header[kTraceparentBytes - 3] == '-';
  const bool ends =
      header.size() == kTraceparentBytes || (version != "00" && header[kTraceparentBytes] == '-');
  if (!dashes || !ends || !IsHex(version) || version == "ff" || !IsHex(flags) || !IsId(trace) ||
      !IsId(parent))
    return std::nullopt;
  const char low = flags[1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceContext{
      .trace_id = std::string(trace), .parent_id = std::string(parent), .sampled = (digit & 1) != 0};
}

TraceContext NewTraceContext(double ratio) {
  NUMOE_CHECK(0 <= ratio && ratio <= 1) << ratio;
  constexpr double kDraws = 18446744073709551616.0;  // 2^64
  const uint64_t low = Draw() | 1;                   // so that the id is never 0
  return {.trace_id = fmt::format("{:016x}{:016x}", Draw(), low),
          .parent_id = "",
          .sampled = static_cast<double>(Draw()) < ratio * kDraws};
}

std::string NewSpanId() { return fmt::format("{:016x}", Draw() | 1); }

}  // namespace numoe::serving
