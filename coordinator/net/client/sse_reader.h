// SseReader: reads server-sent events from a response that arrives in pieces of any size.
//
// Follows WHATWG's rules (HTML Standard, section 9.2.6): lines end with LF, CR LF or CR; the "data" lines of
// one event are joined by LF; comments, unknown fields and events without data are skipped; a byte order mark
// at the beginning is dropped; an incomplete event at the end of the stream is dropped. A line or an event
// larger than limits::kSseEventBytesMax is RESOURCE_EXHAUSTED, and nothing more is read after it. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace numoe::net {

struct SseEvent {
  std::string type;  // "message" unless the stream names another type
  std::string data;
};

class SseReader {
 public:
  explicit SseReader(std::function<void(const SseEvent&)> on_event) : on_event_(std::move(on_event)) {}

  absl::Status Push(std::string_view bytes);

 private:
  absl::Status Take(std::string_view part);
  absl::Status TakeLine();
  void Dispatch();

  const std::function<void(const SseEvent&)> on_event_;
  std::string line_;  // the part of the line that has arrived
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a LF that follows belongs to the end of the last line
  bool first_line_ = true;
  bool failed_ = false;
};

}  // namespace numoe::net
