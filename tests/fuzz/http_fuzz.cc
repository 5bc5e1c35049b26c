// Any bytes that a client sends before it closes its connection: the server answers in HTTP or not at all,
// closes the connection, and serves the next one. The end of a request does not depend on how its bytes are
// divided.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"
#include "coordinator/net/http/request_body.h"
#include "coordinator/net/http/request_head.h"
#include "coordinator/net/http/server.h"

namespace numoe {
namespace {

constexpr int kHangSeconds = 20;  // far longer than an answer takes, and below the server's own limit

class FuzzServer {
 public:
  FuzzServer() {
    numoe::SilenceLog();
    const auto add = [&](const char* method, const char* pattern, auto handle) {
      urls_.Add({.method = method, .pattern = pattern, .summary = "", .handle = handle});
    };
    add("POST", "/echo/{}", [](const std::shared_ptr<net::Exchange>& e) {
      const net::HttpRequest& r = e->request();
      e->Reply(
          {.body = r.captures[0] + std::string(r.Query("q")) + std::string(r.Header("x-echo")) + r.body});
    });
    add("GET", "/stream", [](const std::shared_ptr<net::Exchange>& e) {
      e->BeginStream();
      e->Send("data: 1\n\n");
      e->EndStream();
    });
    add("GET", "/later", [](const std::shared_ptr<net::Exchange>& e) {
      e->OnGone([] {});
      e->Post([e] { e->ReplyError(net::BadRequest("x", "later")); });
    });
    access_ = *net::Access::Create({.keys = {"key"}});
    auto server = net::Server::Create(urls_, *access_, metrics_, {.host = "127.0.0.1", .port = 0});
    NUMOE_CHECK(server.ok()) << server.status();
    server_ = *std::move(server);
    NUMOE_CHECK(server_->Start().ok());
  }
  ~FuzzServer() { server_->Stop(); }

  // Returns everything that the server sends until it closes the connection.
  std::string Ask(const uint8_t* data, size_t size) const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit = {.tv_sec = kHangSeconds, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const linger at_once = {.l_onoff = 1, .l_linger = 0};  // otherwise all ports would be in TIME_WAIT
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    NUMOE_CHECK_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    // The server may refuse the request and close the connection before all bytes are sent.
    for (size_t sent = 0; sent < size;) {
      const ssize_t bytes = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
      if (bytes <= 0) break;
      sent += static_cast<size_t>(bytes);
    }
    shutdown(fd, SHUT_WR);
    std::string said;
    char buffer[4096];
    ssize_t bytes = 0;
    while ((bytes = recv(fd, buffer, sizeof buffer, 0)) > 0) said.append(buffer, static_cast<size_t>(bytes));
    NUMOE_CHECK(bytes == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) << "the connection hangs";
    close(fd);
    return said;
  }

 private:
  Metrics metrics_{MetricOwner::kCoordinator};
  net::UrlTable urls_;
  std::unique_ptr<net::Access> access_;
  std::unique_ptr<net::Server> server_;
};

// Returns the heads and bodies that are found in `bytes`, which come in pieces of `piece` bytes.
std::string RequestsIn(std::string_view bytes, size_t piece) {
  constexpr size_t kBodyMax = 1 << 20;
  std::string found;
  size_t used = 0;
  while (true) {
    net::HeadReader reader;
    std::optional<std::variant<net::RequestHead, net::ApiError>> head;
    for (size_t end = used; !head && end < bytes.size();) {
      end = std::min(bytes.size(), end + piece);
      head = reader.Read(bytes.substr(used, end - used), used);
    }
    if (!head || std::holds_alternative<net::ApiError>(*head)) return found + (head ? "!" : "");
    const net::AnnouncedBody announced = std::get<net::RequestHead>(*head).body;
    found += std::get<net::RequestHead>(*head).target + "|";
    if (!announced.any()) continue;
    if (announced.bytes > kBodyMax) return found + "large";
    net::RequestBody body(announced, kBodyMax);
    while (used < bytes.size() && body.state() == net::RequestBody::State::kMore)
      used += body.Take(bytes.substr(used, piece));
    found += body.text() + "|";
    if (body.state() != net::RequestBody::State::kWhole) return found + std::to_string(int(body.state()));
  }
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const numoe::FuzzServer server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  NUMOE_CHECK_EQ(numoe::RequestsIn(bytes, 1), numoe::RequestsIn(bytes, size + 1));
  const std::string said = server.Ask(data, size);
  constexpr std::string_view kHttp = "HTTP/1.1 ";
  NUMOE_CHECK_EQ(said.substr(0, kHttp.size()),
                 std::string(kHttp.substr(0, std::min(said.size(), kHttp.size()))));
  return 0;
}
