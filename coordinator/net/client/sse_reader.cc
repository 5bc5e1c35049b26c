#include "coordinator/net/client/sse_reader.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/net/client/client_limits.h"

namespace numoe::net {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

absl::Status TooLarge(const char* what) {
  return absl::ResourceExhaustedError(
      fmt::format("the server's event stream has {} of more than {} bytes", what, limits::kSseEventBytesMax));
}

}  // namespace

absl::Status SseReader::Push(std::string_view bytes) {
  if (failed_) return absl::FailedPreconditionError("the event stream has failed before");
  while (!bytes.empty()) {
    if (after_cr_ && bytes[0] == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    absl::Status status = Take(bytes.substr(0, end));
    if (status.ok() && end == std::string_view::npos) return status;
    if (status.ok()) status = TakeLine();
    failed_ = !status.ok();
    if (failed_) return status;
    NUMOE_DCHECK(line_.empty() && end < bytes.size());
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
  return absl::OkStatus();
}

absl::Status SseReader::Take(std::string_view part) {
  if (line_.size() + part.size() > limits::kSseEventBytesMax) return TooLarge("a line");
  line_.append(part);
  return absl::OkStatus();
}

absl::Status SseReader::TakeLine() {
  NUMOE_DCHECK_LE(line_.size(), limits::kSseEventBytesMax);
  std::string_view line = line_;
  if (first_line_ && line.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    line.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  absl::Status status;
  if (line.empty()) {
    Dispatch();
  } else if (line[0] != ':') {
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view field = line.substr(0, colon);
    std::string_view value = line.substr(std::min(colon + 1, line.size()));
    if (!value.empty() && value[0] == ' ') value.remove_prefix(1);
    if (field == "event") event_.type = std::string(value);
    if (field == "data") {
      if (event_.data.size() + value.size() >= limits::kSseEventBytesMax) status = TooLarge("an event");
      if (has_data_) event_.data += '\n';
      if (status.ok()) event_.data.append(value);
      has_data_ = true;
    }
  }
  line_.clear();
  return status;
}

void SseReader::Dispatch() {
  if (has_data_) {
    NUMOE_DCHECK_LE(event_.data.size(), limits::kSseEventBytesMax);
    if (event_.type.empty()) event_.type = "message";
    on_event_(event_);
  }
  event_ = {};
  has_data_ = false;
}

}  // namespace numoe::net
