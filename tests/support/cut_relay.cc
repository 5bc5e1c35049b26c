#include "tests/support/cut_relay.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "common/base/check.h"

namespace numoe {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

CutRelay::CutRelay(int port) : port_(port), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in own = Loopback(0);
  socklen_t size = sizeof own;
  NUMOE_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&own), size) == 0 && listen(listener_, 16) == 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
  address_ = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  thread_ = std::thread([this] { Run(); });
}

CutRelay::~CutRelay() {
  stop_.store(true);
  thread_.join();
  for (const auto& [one, other] : other_) close(one);
  close(listener_);
}

void CutRelay::Run() {
  while (!stop_.load()) {
    if (cut_.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    std::vector<pollfd> places{{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const auto& [one, other] : other_) places.push_back({.fd = one, .events = POLLIN, .revents = 0});
    poll(places.data(), places.size(), /*timeout=*/1);
    for (const pollfd& place : places) {
      if (place.revents == 0) continue;
      if (place.fd == listener_) {
        Accept();
      } else {
        Pass(place.fd);
      }
    }
  }
}

void CutRelay::Accept() {
  const int one = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  const int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in theirs = Loopback(port_);
  if (connect(other, reinterpret_cast<const sockaddr*>(&theirs), sizeof theirs) != 0) {
    close(one);
    close(other);
    return;
  }
  other_[one] = other;
  other_[other] = one;
}

void CutRelay::Pass(int from) {
  const auto found = other_.find(from);
  if (found == other_.end()) return;  // ended with its other end in this round
  char bytes[1 << 16];
  const ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got <= 0) return End(from);
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t n = send(found->second, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return End(from);
    sent += n;
  }
}

void CutRelay::End(int one) {
  const int other = other_.at(one);
  for (const int fd : {one, other}) {
    other_.erase(fd);
    close(fd);
  }
}

}  // namespace numoe
