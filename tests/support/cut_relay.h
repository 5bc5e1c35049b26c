// CutRelay: a network between two processes that a test can cut. Bytes go through the relay, or are lost
// without an error.
//
// Listens on a free port of 127.0.0.1 and passes every connection on to `port`. While it is cut it accepts
// and reads nothing, like a link that drops packets. It has a thread of its own; any thread may call Cut.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>

namespace numoe {

class CutRelay {
 public:
  explicit CutRelay(int port);
  CutRelay(const CutRelay&) = delete;
  CutRelay& operator=(const CutRelay&) = delete;
  ~CutRelay();

  /// The listener's address, HOST:PORT.
  const std::string& address() const { return address_; }
  void Cut(bool cut) { cut_.store(cut); }

 private:
  void Run();
  void Accept();
  void Pass(int from);
  void End(int one);

  const int port_;
  int listener_ = -1;
  std::string address_;
  std::map<int, int> other_;  // the other end of each socket
  std::atomic<bool> cut_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace numoe
