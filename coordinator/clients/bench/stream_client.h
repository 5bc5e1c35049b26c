// StreamClient: one thread that reads any number of answers as they come.
//
// Each is a chat request of its own connection; the n-th event of stream s is reported when it is read.
// Knows of the stream only where events end (an empty line), so that reading costs next to nothing. Not
// thread-safe.
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

  /// Asks 127.0.0.1:`port`; the stream's number is the count of those before it.
  absl::Status Open(int port, const std::string& body);
  /// Reads what comes for so long. UNAVAILABLE: the server closed a stream or answered something else.
  absl::Status ReadFor(double seconds);
  void CloseAll();

 private:
  struct Stream {
    int socket = -1;
    int64_t events = 0;
    bool answered = false;  // its status line has been seen
    char last = 0;          // the byte before what comes next
  };

  absl::Status Read(int number);

  const OnEvent on_event_;
  const int epoll_;
  std::vector<Stream> streams_;
  std::string buffer_;
};

}  // namespace numoe::clients
