#include "common/observe/metrics_exposer.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/observe/metrics_answer.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAcceptsPerLook = 64;
constexpr size_t kClientsMax = 256;             // the oldest is closed for another one
constexpr std::chrono::seconds kClientTime(5);  // half of what Prometheus waits
constexpr int kLookMs = 250;                    // how often to look for clients whose time is over
constexpr size_t kHeadBytesMax = 8u << 10;
constexpr int kWaitingMax = 128;  // connections that are not accepted yet

struct Client {
  FileDescriptor socket;
  Clock::time_point until;
  std::string head;    // the request's head, as far as it has arrived
  std::string answer;  // "" until the request is complete
  size_t sent = 0;     // bytes of the answer
};

std::string Answer(std::string_view status, std::string_view headers, std::string_view body, bool with_body) {
  return fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", status, headers,
                     body.size(), with_body ? body : "");
}

// Returns the value of the header with this name, which is in lower case; "" if there is none.
std::string_view HeaderOf(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at)) {
    at += 2;
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    const bool is = line.size() > name.size() && line[name.size()] == ':' &&
                    std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
                      return a == std::tolower(static_cast<unsigned char>(b));
                    });
    if (is) return line.substr(name.size() + 1);
  }
  return "";
}

// Returns the answer to a request with this head.
std::string AnswerTo(std::string_view head, const Metrics& metrics) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  const std::string_view target = space == std::string_view::npos ? "" : line.substr(space + 1);
  const std::string_view path = target.substr(0, target.find_first_of(" ?"));
  constexpr std::string_view kText = "Content-Type: text/plain; charset=utf-8\r\n";
  const bool with_body = method != "HEAD";
  if (path != "/metrics") return Answer("404 Not Found", kText, "expected /metrics\n", with_body);
  if (method != "GET" && method != "HEAD") {
    return Answer("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "", with_body);
  }
  const MetricsAnswer answer =
      AnswerScrape(metrics, ChooseScrapeFormat(HeaderOf(head, "accept"), HeaderOf(head, "accept-encoding")));
  const std::string encoding =
      answer.encoding.empty() ? "" : fmt::format("Content-Encoding: {}\r\n", answer.encoding);
  const std::string headers =
      fmt::format("Content-Type: {}\r\n{}Vary: Accept, Accept-Encoding\r\n", answer.type, encoding);
  return Answer("200 OK", headers, answer.body, with_body);
}

bool WouldWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Reads what has arrived. Returns false if the client has gone, or if what it sends is not a request.
bool Read(Client& client, const Metrics& metrics) {
  char bytes[4096];
  const ssize_t got = recv(client.socket.get(), bytes, sizeof bytes, 0);
  if (got < 0) return WouldWait();
  if (got == 0) return false;
  client.head.append(bytes, static_cast<size_t>(got));
  if (client.head.find("\r\n\r\n") != std::string::npos) client.answer = AnswerTo(client.head, metrics);
  return !client.answer.empty() || client.head.size() <= kHeadBytesMax;
}

// Sends what the socket accepts. Returns false if all is sent, or if the client has gone.
bool Send(Client& client) {
  NUMOE_DCHECK_LT(client.sent, client.answer.size());
  const std::string_view rest = std::string_view(client.answer).substr(client.sent);
  const ssize_t sent = send(client.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0) return WouldWait();
  client.sent += static_cast<size_t>(sent);
  return client.sent < client.answer.size();
}

}  // namespace

// The thread's function. Nothing in it waits except poll().
class MetricsExposer::Loop {
 public:
  Loop(const Metrics& metrics, FileDescriptor listener)
      : metrics_(metrics), listener_(std::move(listener)), stop_(eventfd(0, EFD_CLOEXEC)) {
    NUMOE_CHECK_GE(stop_.get(), 0);
  }

  void Run() {
    std::vector<pollfd> polled;
    for (;;) {
      polled = {{stop_.get(), POLLIN, 0}, {accepts_ ? listener_.get() : -1, POLLIN, 0}};
      for (const Client& client : clients_) {
        const int wanted = client.answer.empty() ? POLLIN : POLLOUT;
        polled.push_back({client.socket.get(), static_cast<short>(wanted), 0});
      }
      const bool idle = clients_.empty() && accepts_;
      if (poll(polled.data(), polled.size(), idle ? -1 : kLookMs) < 0) continue;  // a signal
      if (polled[0].revents != 0) return;
      Serve(polled);
      accepts_ = true;
      if (polled[1].revents != 0) Accept();
    }
  }

  void Stop() {
    const uint64_t one = 1;
    NUMOE_CHECK_EQ(write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

 private:
  void Serve(const std::vector<pollfd>& polled) {
    NUMOE_DCHECK_EQ(polled.size(), clients_.size() + 2);
    size_t index = 2;
    for (auto it = clients_.begin(); it != clients_.end(); ++index) {
      bool stays = Clock::now() < it->until;  // even if it sends a byte now and then
      if (stays && polled[index].revents != 0) stays = it->answer.empty() ? Read(*it, metrics_) : Send(*it);
      it = stays ? std::next(it) : clients_.erase(it);
    }
  }

  // Accepts a limited number of the waiting connections, so that each is served before many others can
  // replace it. If there is no free descriptor, the oldest client is closed; if there is no client, the
  // listener is not polled until the next round.
  void Accept() {
    for (int taken = 0; taken < kAcceptsPerLook; ++taken) {
      FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.get() < 0 && WouldWait()) return;
      if (socket.get() < 0 && errno != ECONNABORTED) {
        accepts_ = !clients_.empty();
        if (accepts_) clients_.pop_front();
        return;
      }
      if (socket.get() < 0) continue;
      NUMOE_DCHECK_LE(clients_.size(), kClientsMax);
      if (clients_.size() == kClientsMax) clients_.pop_front();
      clients_.push_back(
          {.socket = std::move(socket), .until = Clock::now() + kClientTime, .head = "", .answer = ""});
    }
  }

  const Metrics& metrics_;
  const FileDescriptor listener_;
  const FileDescriptor stop_;  // readable once Stop is called
  bool accepts_ = true;
  std::list<Client> clients_;  // oldest first
};

namespace {

struct Listener {
  FileDescriptor socket;
  int port = 0;
};

// Listens on the first address of `host` that allows it.
std::optional<Listener> Listen(std::string host, int port) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Listener listener{FileDescriptor(
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol))};
    const int fd = listener.socket.get();
    const int on = 1;
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, kWaitingMax) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      continue;
    listener.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                      : reinterpret_cast<sockaddr_in&>(bound).sin_port);
    return listener;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(const Metrics& metrics,
                                                                      const std::string& host, int port) {
  if (port < 0 || port > 65535) {
    return absl::InvalidArgumentError(fmt::format("metrics port is {}, expected 0 to 65535", port));
  }
  std::optional<Listener> listener = Listen(host, port);
  if (!listener) {
    return absl::UnavailableError(fmt::format(
        "cannot serve metrics on {}:{}: the port is in use, or the host is not an address of this machine; "
        "choose another --metrics-port (0: any) or --metrics-host",
        host, port));
  }
  auto loop = std::make_unique<Loop>(metrics, std::move(listener->socket));
  return std::unique_ptr<MetricsExposer>(new MetricsExposer(std::move(loop), listener->port));
}

MetricsExposer::MetricsExposer(std::unique_ptr<Loop> loop, int port)
    : loop_(std::move(loop)), port_(port), thread_([this] {
        pthread_setname_np(pthread_self(), "metrics");
        loop_->Run();
      }) {}

MetricsExposer::~MetricsExposer() {
  loop_->Stop();
  thread_.join();
}

}  // namespace numoe
