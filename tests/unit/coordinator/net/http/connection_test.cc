// What a connection costs the server, and how it ends, over real sockets: clients that do not read, send in
// advance, vanish, have no key, or are too many.
#include "coordinator/net/http/connection.h"

#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "coordinator/net/http/http_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/becomes.h"
#include "tests/support/test_authority.h"
#include "tests/unit/coordinator/net/http/http_server_fixture.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using TlsClient = asio::ssl::stream<tcp::socket>;

std::string Head(const std::string& line, const std::string& headers = "") {
  return line + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

std::string Post(const std::string& body) {
  return Head("POST /echo", "Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
}

class ConnectionTest : public HttpServerTest {
 protected:
  void SetUp() override {
    const auto add = [this](const char* method, const char* path,
                            std::function<void(const std::shared_ptr<Exchange>&)> handle, bool open) {
      urls_.Add(
          {.method = method, .pattern = path, .summary = "", .handle = std::move(handle), .open = open});
    };
    add(
        "POST", "/echo",
        [](const std::shared_ptr<Exchange>& e) {
          e->Reply({.body = "echo:" + std::to_string(e->request().body.size())});
        },
        false);
    add(
        "GET", "/open", [](const std::shared_ptr<Exchange>& e) { e->Reply({.body = "open"}); }, true);
    add(
        "GET", "/large",  // more than the sockets' buffers hold
        [this](const std::shared_ptr<Exchange>& e) {
          e->Reply({.body = std::string(32 << 20, '#')});
          ++large_;
        },
        true);
    AddWait();
    add(
        "GET", "/endless",
        [this](const std::shared_ptr<Exchange>& e) {
          e->OnGone([this] { ++gone_; });
          e->BeginStream();
          SendOn(e);
        },
        false);
  }

  // Never more than one piece that the client has not read.
  static void SendOn(const std::shared_ptr<Exchange>& e) {
    e->Send(std::string(64 << 10, '#'));
    e->OnSent([e] { SendOn(e); });
  }

  // Everything up to and including `end`, or until the server closes.
  template <typename Stream>
  static std::string Read(Stream& stream, const std::string& end) {
    std::string text;
    boost::system::error_code error;
    asio::read_until(stream, asio::dynamic_buffer(text), end, error);
    return text;
  }

  void Reply(const char* body) {
    const auto exchange = Waiting();
    exchange->Post([exchange, body] { exchange->Reply({.body = body}); });
  }

  std::atomic<int> large_{0};
};

TEST_F(ConnectionTest, AClientThatDoesNotReadIsCutOffAndItsAnswerEnds) {
  Start({.write_timeout = std::chrono::milliseconds(100)});
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Head("GET /endless")));
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
  EXPECT_TRUE(server_->Finish(60'000));
  EXPECT_THAT(metrics_.Serialise(), HasSubstr("numoe_http_answers_cut_total 1\n"));
  EXPECT_EQ(gone_, 1) << "OnGone is called once";
}

TEST_F(ConnectionTest, AClientThatSentInAdvanceAndLeftIsNoticed) {
  Start();
  auto socket = std::make_unique<tcp::socket>(Connect());
  asio::write(*socket, asio::buffer(Head("GET /wait") + "G"));
  Waiting();
  asio::write(*socket, asio::buffer(std::string("E")));
  socket.reset();
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
  EXPECT_THAT(metrics_.Serialise(), HasSubstr("numoe_http_answers_cut_total 0\n"));
}

TEST_F(ConnectionTest, BytesSentInAdvanceAreTheNextRequest) {
  Start();
  tcp::socket socket = Connect();
  const std::string next = Post("12345");
  asio::write(socket, asio::buffer(Head("GET /wait") + next.substr(0, 10)));
  Waiting();
  asio::write(socket, asio::buffer(next.substr(10)));
  Reply("first");
  const std::string replies = Read(socket, "echo:5");
  EXPECT_THAT(replies, HasSubstr("first"));
  EXPECT_THAT(replies, HasSubstr("echo:5"));
  EXPECT_EQ(gone_, 0);
}

TEST_F(ConnectionTest, BytesSentInAdvanceAreTheNextRequestOverTlsToo) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "numoe_connection_test";
  std::filesystem::create_directories(folder);
  const TestAuthority authority("ca");
  const TlsFiles files = WriteIdentity(folder, "server", authority.Issue({}), authority.pem());
  ServerOptions options;
  options.tls_certificate = files.certificate;
  options.tls_key = files.key;
  Start(options);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  TlsClient stream(Connect(), tls);
  stream.handshake(asio::ssl::stream_base::client);
  const std::string next = Post("12345");
  asio::write(stream, asio::buffer(Head("GET /wait") + next.substr(0, 10)));
  Waiting();
  asio::write(stream, asio::buffer(next.substr(10)));
  Reply("first");
  EXPECT_THAT(Read(stream, "echo:5"), HasSubstr("first"));
  asio::write(stream, asio::buffer(Post("123456")));
  EXPECT_THAT(Read(stream, "echo:6"), HasSubstr("echo:6"));
  std::filesystem::remove_all(folder);
}

// Bytes that wait unread would hide whether the client is still there.
TEST_F(ConnectionTest, TooManyBytesInAdvanceEndTheConnection) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Head("GET /wait")));
  Waiting();
  boost::system::error_code error;
  asio::write(socket, asio::buffer(std::string(4 * limits::kHttpAheadBytesMax, 'G')), error);
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
}

TEST_F(ConnectionTest, AMissingKeyIsRefusedBeforeTheBody) {
  Start({}, {.keys = {"secret"}});
  const std::string length = "Content-Length: 30000000\r\n";
  EXPECT_THAT(Ask(Head("POST /echo", length)), StartsWith("HTTP/1.1 401"));
  const std::string expecting = Ask(Head("POST /echo", length + "Expect: 100-continue\r\n"));
  EXPECT_THAT(expecting, StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(expecting, HasSubstr("Connection: close"));
  EXPECT_THAT(Ask(Head("POST /echo", "Transfer-Encoding: chunked\r\n")), StartsWith("HTTP/1.1 401"));
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Head("POST /echo",
                                        "x-api-key: secret\r\nExpect: 100-continue\r\n"
                                        "Content-Length: 2\r\n")));
  EXPECT_THAT(Read(socket, "\r\n\r\n"), HasSubstr("100 Continue"));
  asio::write(socket, asio::buffer(std::string("hi")));
  EXPECT_THAT(Read(socket, "echo:2"), HasSubstr("200 OK"));
}

TEST_F(ConnectionTest, BodiesAreNotReadIfTheAnswerNeedsNone) {
  Start();
  const std::string length = "Content-Length: 30000000\r\n";
  EXPECT_THAT(Ask(Head("POST /nowhere", length)), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(Head("POST /open", length)), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Ask(Head("GET /open", length)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(Head("OPTIONS /echo", length)), StartsWith("HTTP/1.1 204"));
}

// The time limit passes between the head and the body in the same packet, and just before and after that.
TEST_F(ConnectionTest, ARequestAtItsTimeLimitIsAnsweredOrDropped) {
  constexpr int kClients = 60, kRounds = 4, kStepMicros = 70;
  const auto timeout = std::chrono::milliseconds(400);
  Start({.read_timeout = timeout});
  const std::string head =
      Head("POST /echo", "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 100\r\n");
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::pair<std::chrono::steady_clock::time_point, tcp::socket>> clients;
    for (int i = 0; i < kClients; ++i) {
      tcp::socket socket = Connect();
      asio::write(socket, asio::buffer(head.substr(0, head.size() - 1)));
      clients.emplace_back(std::chrono::steady_clock::now(), std::move(socket));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    boost::system::error_code error;  // the connection may be closed already
    for (int i = 0; i < kClients; ++i) {
      auto& [begun, socket] = clients[static_cast<size_t>(i)];
      const auto off = std::chrono::microseconds((i - kClients / 2) * kStepMicros);
      std::this_thread::sleep_until(begun + timeout + off);
      asio::write(socket, asio::buffer("\n0123456789", 11), error);
    }
  }
  EXPECT_THAT(Ask(Head("GET /open", "Connection: close\r\n")), StartsWith("HTTP/1.1 200")) << "it works";
}

// The body's limit covers neither of them, because they are not part of the body.
TEST_F(ConnectionTest, EndlessChunkLinesAndTrailersAreRefused) {
  Start();
  const std::string head = Head("POST /echo", "Transfer-Encoding: chunked\r\n"), much(1 << 20, 'a');
  EXPECT_THAT(Ask(head + "1;" + much), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(head + "1\r\nx\r\n0\r\nTrailer: " + much), StartsWith("HTTP/1.1 413"));
  const std::string usual = Ask(Head("POST /echo", "Connection: close\r\nTransfer-Encoding: chunked\r\n") +
                                "1;name=value\r\nx\r\n0\r\nTrailer: value\r\n\r\n");
  EXPECT_THAT(usual, HasSubstr("echo:1")) << "a short one is accepted";
}

// The client has gone, but the handler still holds the exchange.
TEST_F(ConnectionTest, AClosedConnectionDoesNotCount) {
  Start({.connections_max = 1});
  auto first = std::make_unique<tcp::socket>(Connect());
  asio::write(*first, asio::buffer(Head("GET /wait")));
  const auto held = Waiting();
  EXPECT_THAT(Ask(Post("hi")), StartsWith("HTTP/1.1 503")) << "the only slot is taken";
  first.reset();
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
  const std::string close = Head("POST /echo", "Connection: close\r\nContent-Length: 2\r\n") + "hi";
  EXPECT_THAT(Ask(close), HasSubstr("echo:2"));
}

TEST_F(ConnectionTest, SilentConnectionsAreEvictedOldestFirst) {
  Start({.connections_max = 3}, {.keys = {"secret"}});
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(Connect());
  asio::write(silent[1], asio::buffer(std::string("GET /op")));  // not a complete head
  const std::string request =
      Head("POST /echo", "x-api-key: secret\r\nConnection: close\r\nContent-Length: 2\r\n") + "hi";
  for (int i = 0; i < 5; ++i) EXPECT_THAT(Ask(request), HasSubstr("echo:2"));
  EXPECT_EQ(Read(silent[0], "x"), "") << "the server has closed it";
}

// A client could open such connections without a key.
TEST_F(ConnectionTest, ClientsThatDoNotReadOpenRoutesAreEvicted) {
  Start({.connections_max = 2, .write_timeout = std::chrono::hours(1)}, {.keys = {"secret"}});
  std::vector<tcp::socket> deaf;
  for (int i = 0; i < 2; ++i) {
    deaf.push_back(Connect());
    asio::write(deaf.back(), asio::buffer(Head("GET /large")));
    ASSERT_TRUE(Becomes([&] { return large_ == i + 1; }));
  }
  EXPECT_THAT(
      Ask(Head("POST /echo", "x-api-key: secret\r\nConnection: close\r\nContent-Length: 2\r\n") + "hi"),
      HasSubstr("echo:2"));
  EXPECT_TRUE(Becomes([this] {
    return metrics_.Serialise().find("numoe_http_answers_cut_total 0\n") == std::string::npos;
  })) << "the other one is cut off long before a client with a key would be";
}

TEST_F(ConnectionTest, SlowSendersAreEvictedAfterSilentConnections) {
  Start({.connections_max = 2}, {.keys = {"secret"}});
  const std::string head =
      Head("POST /echo", "x-api-key: secret\r\nExpect: 100-continue\r\nContent-Length: 2\r\n");
  const std::string request =
      Head("POST /echo", "x-api-key: secret\r\nConnection: close\r\nContent-Length: 3\r\n") + "abc";
  std::vector<tcp::socket> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(Connect());
    asio::write(slow.back(), asio::buffer(head));
    EXPECT_THAT(Read(slow.back(), "\r\n\r\n"), HasSubstr("100 Continue"));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Ask(request), HasSubstr("echo:3")) << "a body that does not arrive does not keep others out";
    tcp::socket silent = Connect();
    EXPECT_THAT(Ask(request), HasSubstr("echo:3")) << "the silent connection is evicted first";
    EXPECT_EQ(Read(silent, "x"), "") << "the server has closed it";
  }
  EXPECT_EQ(Read(slow[0], "x"), "") << "it has been sending for longest";
  asio::write(slow[1], asio::buffer(std::string("hi")));
  EXPECT_THAT(Read(slow[1], "echo:2"), HasSubstr("200 OK")) << "one new connection evicts only one";
}

TEST_F(ConnectionTest, AmbiguousHeadsEndTheConnection) {
  Start();
  const std::string next = Head("GET /open"), chunk = "1\r\nx\r\n0\r\n\r\n";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"GET /open HTTP/1.1\r\n\r\n", "400"},
      {Head("GET /open", "Host: y\r\n"), "400"},
      {Head("POST /echo", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n") + chunk, "400"},
      {Head("POST /echo", "Transfer-Encoding: gzip, chunked\r\n") + chunk, "501"},
      {Head("POST /echo", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + chunk, "400"},
      {Head("POST /echo", "Transfer-Encoding: chunked\r\n") + "1;a\nb\r\nx\r\n0\r\n\r\n", "400"},
      {Head("POST /echo", "Content-Length: 1\r\n folded: 1\r\n") + "x", "400"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
      {Head("POST /echo", "Transfer-Encoding: xchunked\r\n"), "400"},
      {Head("POST /echo", "Expect: 200-maybe\r\nContent-Length: 1\r\n") + "x", "417"}};
  for (const auto& [request, status] : cases) {
    const std::string reply = Ask(request + next);
    EXPECT_THAT(reply, StartsWith(std::string("HTTP/1.1 ") + status)) << request;
    EXPECT_THAT(reply, HasSubstr("Connection: close")) << request;
    EXPECT_THAT(reply, Not(HasSubstr("200 OK"))) << "the rest must not be read as a request: " << request;
  }
  EXPECT_THAT(Ask("GET /open HTTP/1.0\r\n\r\n"), HasSubstr("200 OK")) << "older clients send no Host";
}

TEST_F(ConnectionTest, AClientOfHttp10GetsStreamsWithoutChunks) {
  urls_.Add({.method = "GET",
             .pattern = "/stream",
             .summary = "",
             .handle = [](const std::shared_ptr<Exchange>& e) {
               e->BeginStream();
               e->Send("data: 1\n\n");
               e->EndStream();
             }});
  Start();
  const std::string stream = Ask("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(stream, HasSubstr("Connection: close"));
  EXPECT_THAT(stream, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(stream, ::testing::EndsWith("\r\n\r\ndata: 1\n\n"));
  tcp::socket socket = Connect();
  for (int i = 0; i < 2; ++i) {  // and complete answers on one connection, if the client asks for that
    asio::write(socket, asio::buffer(std::string("GET /open HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")));
    EXPECT_THAT(Read(socket, "\r\n\r\nopen"), HasSubstr("Connection: keep-alive"));
  }
}

TEST_F(ConnectionTest, AClientThatOnlyStopsSendingGetsItsAnswer) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Head("GET /wait") + Head("GET /open")));
  socket.shutdown(tcp::socket::shutdown_send);
  EXPECT_THAT(Read(socket, "\r\n\r\n"), StartsWith("HTTP/1.1 100")) << "a test of the client";
  Reply("first");
  const std::string replies = Read(socket, "nothing: until it closes");
  EXPECT_THAT(replies, HasSubstr("first"));
  EXPECT_THAT(replies, ::testing::EndsWith("open")) << "the requests sent before are answered";
  EXPECT_EQ(gone_, 0);
}

TEST_F(ConnectionTest, AClientThatStopsSendingInAStreamGetsItWhole) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Head("GET /wait")));
  const auto exchange = Waiting();
  exchange->Post([exchange] {
    exchange->BeginStream();
    exchange->Send("one");
  });
  const std::string head = Read(socket, "one\r\n");
  socket.shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(Read(socket, "0"), "0") << "the first digit of the next chunk's length";
  exchange->Post([exchange] {
    exchange->Send("two");
    exchange->EndStream();
  });
  EXPECT_EQ(Read(socket, "nothing"), "3\r\ntwo\r\n0\r\n\r\n");
  EXPECT_EQ(gone_, 0);
}

TEST_F(ConnectionTest, AClientThatLeavesASilentStreamIsNoticed) {
  Start();
  auto socket = std::make_unique<tcp::socket>(Connect());
  asio::write(*socket, asio::buffer(Head("GET /wait")));
  const auto exchange = Waiting();
  exchange->Post([exchange] { exchange->BeginStream(); });
  Read(*socket, "\r\n\r\n");
  socket.reset();
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
}

TEST_F(ConnectionTest, AnOldClientThatStopsSendingGetsAnEarlyAnswer) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(std::string("GET /wait HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")));
  Waiting();
  socket.shutdown(tcp::socket::shutdown_send);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the end of file arrives before the answer
  Reply("late");
  EXPECT_THAT(Read(socket, "nothing: until it closes"), ::testing::EndsWith("\r\n\r\nlate"));
}

TEST_F(ConnectionTest, AnOldClientThatStopsSendingCountsAsGoneWithoutAnEarlyAnswer) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(std::string("GET /wait HTTP/1.0\r\n\r\n")));
  Waiting();
  socket.shutdown(tcp::socket::shutdown_send);
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }))
      << "HTTP/1.0 has no bytes without meaning that could be sent";
}

TEST_F(ConnectionTest, AnOldClientsStreamContinuesAfterItStoppedSending) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(std::string("GET /wait HTTP/1.0\r\n\r\n")));
  const auto exchange = Waiting();
  socket.shutdown(tcp::socket::shutdown_send);
  exchange->Post([exchange] { exchange->BeginStream(); });
  Read(socket, "\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::seconds(limits::kHttp10HalfClosedSeconds) +
                              std::chrono::milliseconds(200));
  exchange->Post([exchange] {
    exchange->Send("two");
    exchange->EndStream();
  });
  EXPECT_EQ(Read(socket, "nothing"), "two");
}

TEST_F(ConnectionTest, ARouteLimitsTheSizeOfItsBodies) {
  urls_.Add({.method = "POST",
             .pattern = "/command",
             .summary = "",
             .handle = [](const std::shared_ptr<Exchange>& e) { e->Reply({.body = "done"}); },
             .body_max = 100});
  Start();
  const std::string close = "Connection: close\r\n", body(101, 'x');
  const auto command = [&](const std::string& sent) {
    return Ask(Head("POST /command", close + "Content-Length: " + std::to_string(sent.size()) + "\r\n") +
               sent);
  };
  EXPECT_THAT(command(body.substr(1)), HasSubstr("done"));
  const std::string refused = command(body);
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(refused, HasSubstr("100 bytes"));
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_THAT(Ask(Head("POST /command", close + chunked) + "65\r\n" + body + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(Head("GET /endless", close + "Content-Length: 1\r\n") + "x"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(Head("GET /endless", close + chunked) + "1\r\nx\r\n0\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Ask(Post(std::string(100'000, 'x')) + Head("GET /open", close)), HasSubstr("echo:100000"));
}

TEST_F(ConnectionTest, BodiesOfAllConnectionsTogetherAreLimited) {
  Start({.bodies_bytes_max = 100'000});
  const std::string too_long = Ask(Head("POST /echo", "Content-Length: 100001\r\n"));
  EXPECT_THAT(too_long, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(too_long, HasSubstr("Retry-After"));
  tcp::socket holder = Connect();
  const std::string body(60'000, 'x'), close = "Connection: close\r\n";
  asio::write(holder, asio::buffer(Head("POST /echo", "Content-Length: 60001\r\n") + body));
  const auto asks_leave = [&] {  // and sends no body, which could keep out the other one's last byte
    tcp::socket socket = Connect();
    asio::write(socket,
                asio::buffer(Head("POST /echo", "Expect: 100-continue\r\nContent-Length: 60000\r\n")));
    return Read(socket, "\r\n");
  };
  EXPECT_TRUE(Becomes([&] { return asks_leave().rfind("HTTP/1.1 503", 0) == 0; }))
      << "the other body has arrived";
  EXPECT_THAT(Ask(Head("GET /open", close)), StartsWith("HTTP/1.1 200")) << "the route needs no key";
  asio::write(holder, asio::buffer(std::string("x")));
  EXPECT_THAT(Read(holder, "echo:60001"), StartsWith("HTTP/1.1 200"));
  const std::string request = Head("POST /echo", close + "Content-Length: 60000\r\n") + body;
  EXPECT_TRUE(Becomes([&] { return Ask(request).find("echo:60000") != std::string::npos; }))
      << "its bytes are free again";
  // The length of this body is not known in advance.
  EXPECT_THAT(
      Ask(Head("POST /echo", "Transfer-Encoding: chunked\r\n") + "30d40\r\n" + std::string(200'000, 'x')),
      StartsWith("HTTP/1.1 503"));
}

TEST_F(ConnectionTest, BeyondMaxConnectionsOnlyProbesAreAnswered) {
  Start({.connections_max = 2}, {.keys = {"secret"}});
  std::vector<std::shared_ptr<Exchange>> held;
  std::vector<tcp::socket> usual;
  for (int i = 0; i < 2; ++i) {
    usual.push_back(Connect());
    asio::write(usual.back(), asio::buffer(Head("GET /open")));
    EXPECT_THAT(Read(usual.back(), "open"), Not(HasSubstr("Connection: close")));
    asio::write(usual.back(), asio::buffer(Head("GET /wait", "x-api-key: secret\r\n")));
    Waiting();
    const std::lock_guard lock(mutex_);
    held.push_back(std::move(waiting_));
  }
  const std::string request = Head("POST /echo", "x-api-key: secret\r\nContent-Length: 2\r\n") + "hi";
  const std::string full = Ask(request);
  EXPECT_THAT(full, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(full, HasSubstr("Retry-After"));
  EXPECT_THAT(full, HasSubstr("2 connections"));
  EXPECT_THAT(Ask(Head("GET /open")), HasSubstr("Connection: close")) << "a spare connection has one answer";
  held[0]->Post([&held] { held[0]->Reply({.body = "waited"}); });
  EXPECT_THAT(Read(usual[0], "waited"), HasSubstr("200 OK")) << "earlier connections are still served";
  usual.pop_back();
  EXPECT_TRUE(Becomes([&] {
    tcp::socket socket = Connect();
    asio::write(socket, asio::buffer(request));
    return Read(socket, "\r\n\r\n").rfind("HTTP/1.1 200", 0) == 0;
  })) << "there is room again";
}

}  // namespace
}  // namespace numoe::net
