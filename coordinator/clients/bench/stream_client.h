// StreamClient: one thread that reads any number of streamed answers.
//
// Each answer is a chat request with its own connection; the n-th event of stream s is reported when it is
// read. The client only looks for the ends of events (an empty line), so that reading costs next to nothing.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace numoe::clients {

class StreamClient {
 public:
  using OnEvent = std::function<void(int stream, int64_t n)>;

  explicit StreamClient(OnEvent on_event);
  ~StreamClient();
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  /// Sends a request to 127.0.0.1:`port`; the streams are numbered from 0.
  absl::Status Open(int port, const std::string& body);
  /// Reads for this time. UNAVAILABLE: the server closed a stream or answered something else.
  absl::Status ReadFor(double seconds);
  void CloseAll();

 private:
  struct Stream {
    int socket = -1;
    int64_t events = 0;
    bool answered = false;  // the status line has been read
    char last = 0;          // the last byte that was read
  };

  absl::Status Read(int number);

  const OnEvent on_event_;
  const int epoll_;
  std::vector<Stream> streams_;
  std::string buffer_;
};

}  // namespace numoe::clients
