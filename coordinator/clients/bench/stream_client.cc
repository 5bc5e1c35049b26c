#include "coordinator/clients/bench/stream_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::clients {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr std::string_view kOk = "HTTP/1.1 200 ";

absl::Status Failed(const char* what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

StreamClient::StreamClient(OnEvent on_event)
    : on_event_(std::move(on_event)), epoll_(epoll_create1(EPOLL_CLOEXEC)), buffer_(kReadBytes, 0) {
  NUMOE_CHECK_GE(epoll_, 0);
}

StreamClient::~StreamClient() {
  CloseAll();
  close(epoll_);
}

absl::Status StreamClient::Open(int port, const std::string& body) {
  NUMOE_CHECK(0 < port && port <= UINT16_MAX);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Failed("socket");
  streams_.push_back({.socket = fd});
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Failed("connect");
  const std::string request = fmt::format(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return Failed("send");
  epoll_event event = {.events = EPOLLIN, .data = {.u32 = static_cast<uint32_t>(streams_.size() - 1)}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return Failed("epoll_ctl");
  return absl::OkStatus();
}

absl::Status StreamClient::Read(int number) {
  NUMOE_DCHECK(0 <= number && static_cast<size_t>(number) < streams_.size());
  Stream& stream = streams_[static_cast<size_t>(number)];
  NUMOE_DCHECK_GE(stream.socket, 0) << "a stream that was closed";
  const ssize_t bytes = recv(stream.socket, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (bytes <= 0) return absl::UnavailableError(fmt::format("stream {} was closed", number));
  const std::string_view text(buffer_.data(), static_cast<size_t>(bytes));
  if (!std::exchange(stream.answered, true) && text.substr(0, kOk.size()) != kOk) {
    return absl::UnavailableError(fmt::format("stream {} was answered {}", number, text.substr(0, 500)));
  }
  for (const char c : text) {
    if (c == '\n' && stream.last == '\n') on_event_(number, stream.events++);
    stream.last = c;
  }
  return absl::OkStatus();
}

absl::Status StreamClient::ReadFor(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::array<epoll_event, 256> events;
  while (Clock::now() < end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const int ready = epoll_wait(epoll_, events.data(), events.size(), static_cast<int>(left.count()));
    for (int i = 0; i < ready; ++i)
      RETURN_IF_ERROR(Read(static_cast<int>(events[static_cast<size_t>(i)].data.u32)));
  }
  return absl::OkStatus();
}

void StreamClient::CloseAll() {
  for (Stream& stream : streams_) {
    if (stream.socket >= 0) close(stream.socket);
    stream.socket = -1;
  }
}

}  // namespace numoe::clients
