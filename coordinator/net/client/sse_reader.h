// SseReader: server-sent events out of the bytes of a response, however they are cut.
//
// WHATWG's rules (HTML Standard, section 9.2.6): lines end with LF, CR LF or CR; "data" lines of one event
// are joined by LF; comments, unknown fields and an event without data are passed over; a byte order mark at
// the start is dropped; an event that the stream's end cuts off is not one. A line or an event larger than
// limits::kSseEventBytesMax is RESOURCE_EXHAUSTED, and nothing more is read after it. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace numoe::net {

struct SseEvent {
  std::string type;  // "message" unless the stream names another
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
  std::string line_;  // as far as it has come
  SseEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a LF that comes now belongs to the last line
  bool first_line_ = true;
  bool failed_ = false;
};

}  // namespace numoe::net
