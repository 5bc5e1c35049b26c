// A real server over real sockets: valid and invalid requests, over plain text and TLS.
#include "coordinator/net/http/server.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <future>
#include <thread>

#include "common/base/limits.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/net/http/http_server_fixture.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

class ServerTest : public HttpServerTest {
 protected:
  void SetUp() override {
    urls_.Add({.method = "POST",
               .pattern = "/echo/{}",
               .summary = "",
               .handle = [](const std::shared_ptr<Exchange>& e) {
                 e->Reply({.body = e->request().captures[0] + ":" + e->request().body, .type = "text/plain"});
               }});
    urls_.Add({.method = "GET",
               .pattern = "/stream",
               .summary = "",
               .handle = [](const std::shared_ptr<Exchange>& e) {
                 e->BeginStream();
                 for (const char* text : {"data: 1\n\n", "", "data: 2\n\n"}) e->Send(text);
                 e->EndStream();
               }});
    AddWait();
    urls_.Add({.method = "GET",
               .pattern = "/open",
               .summary = "",
               .handle = [](const std::shared_ptr<Exchange>& e) { e->Reply({.body = "{}"}); },
               .open = true});
  }
};

constexpr char kClose[] = "Connection: close\r\n";

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string Post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
std::string Get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

TEST_F(ServerTest, RequestsOnOneConnectionAreAnsweredInOrder) {
  Start();
  // All are sent at once: the second and the third one wait in the buffer.
  const std::string reply =
      Ask(Post("/echo/a", "1") + Post("/echo/b", "2") + Post("/echo/c%20d", "3", kClose));
  const size_t a = reply.find("a:1"), b = reply.find("b:2"), c = reply.find("c d:3");
  ASSERT_TRUE(c != std::string::npos) << reply;
  EXPECT_TRUE(a < b && b < c) << reply;
}

TEST_F(ServerTest, AConnectionIsUsedAgainAfterAStream) {
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Get("/stream")));
  std::string head;
  asio::read_until(socket, asio::dynamic_buffer(head), "\r\n0\r\n\r\n");
  EXPECT_TRUE(Has(head, "text/event-stream") && Has(head, "Transfer-Encoding: chunked")) << head;
  EXPECT_TRUE(Has(head, "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")) << head;
  EXPECT_TRUE(Has(AskOn(socket, Post("/echo/x", "y", kClose)), "x:y"));
}

TEST_F(ServerTest, AStreamMayHaveItsOwnHead) {
  urls_.Add(
      {.method = "GET", .pattern = "/own", .summary = "", .handle = [](const std::shared_ptr<Exchange>& e) {
         e->BeginBody({.status = 206,
                       .body = e->request().target + " ",
                       .type = "text/own",
                       .headers = {{"X-Own", "1"}}});
         e->Send("more");
         e->EndStream();
       }});
  Start();
  const std::string reply = Ask(Get("/own?a=%20", kClose));
  for (const char* part :
       {"HTTP/1.1 206", "Content-Type: text/own", "X-Own: 1", "b\r\n/own?a=%20 \r\n4\r\nmore\r\n0\r\n\r\n"})
    EXPECT_TRUE(Has(reply, part)) << reply;
}

// More than sockets and the queue hold is sent in pieces, as the client reads them.
TEST_F(ServerTest, AHandlerThatWaitsForOnSentIsNeverCutOff) {
  constexpr size_t kPieces = 64;
  const std::string piece(1 << 20, '#');
  std::function<void(std::shared_ptr<Exchange>, size_t)> go_on;
  go_on = [&](const std::shared_ptr<Exchange>& e, size_t sent) {
    if (sent == kPieces) return e->EndStream();
    e->Send(piece);
    e->OnSent([&go_on, e, sent] { go_on(e, sent + 1); });
  };
  urls_.Add(
      {.method = "GET", .pattern = "/long", .summary = "", .handle = [&](const std::shared_ptr<Exchange>& e) {
         e->BeginStream();
         go_on(e, 0);
       }});
  Start();
  const std::string reply = Ask(Get("/long", kClose));
  EXPECT_EQ(static_cast<size_t>(std::count(reply.begin(), reply.end(), '#')), kPieces * piece.size());
  EXPECT_EQ(reply.substr(reply.size() - 5), "0\r\n\r\n");
}

TEST_F(ServerTest, ABrokenStreamEndsWithoutItsLastChunk) {
  urls_.Add({.method = "GET",
             .pattern = "/broken",
             .summary = "",
             .handle = [](const std::shared_ptr<Exchange>& e) {
               e->BeginStream();
               e->Send("data: 1\n\n");
               e->OnSent([e] {
                 e->Break();
                 e->Send("dropped");
               });
             }});
  Start();
  const std::string reply = Ask(Get("/broken"));
  EXPECT_TRUE(Has(reply, "data: 1")) << reply;
  EXPECT_FALSE(Has(reply, "0\r\n\r\n")) << reply;
  EXPECT_TRUE(server_->Finish(60'000));
}

TEST_F(ServerTest, UnknownPathsAreRefused) {
  Start();
  EXPECT_TRUE(Has(Ask(Get("/nowhere", kClose)), "HTTP/1.1 404"));
  const std::string wrong = Ask(Get("/echo/a", kClose));
  EXPECT_TRUE(Has(wrong, "HTTP/1.1 405") && Has(wrong, "Allow: OPTIONS, POST")) << wrong;
  EXPECT_TRUE(Has(Ask("BLAH BLAH\r\n\r\n"), "HTTP/1.1 400"));
  const std::string head = Ask("HEAD /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(Has(head, "200 OK") && Has(head, "Content-Length: 2") && !Has(head, "{}")) << head;
}

TEST_F(ServerTest, ATooLargeRequestIsRefusedBeforeItIsRead) {
  Start();
  const std::string body = std::to_string(limits::kHttpBodyBytesMax + 1);
  EXPECT_TRUE(
      Has(Ask("POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: " + body + "\r\n\r\n"), "HTTP/1.1 413"));
  EXPECT_TRUE(
      Has(Ask(Get("/open", "x: " + std::string(limits::kHttpHeaderBytesMax, 'a') + "\r\n")), "HTTP/1.1 431"));
}

TEST_F(ServerTest, AClientThatExpectsContinueGetsIt) {
  Start();
  tcp::socket socket = Connect();
  const std::string head =
      "POST /echo/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n"
      "Content-Length: 2\r\n\r\n";
  asio::write(socket, asio::buffer(head));
  std::string first;
  asio::read_until(socket, asio::dynamic_buffer(first), "\r\n\r\n");
  EXPECT_TRUE(Has(first, "100 Continue"));
  const std::string reply = AskOn(socket, "hi");
  EXPECT_TRUE(Has(reply, "a:hi")) << reply;
}

TEST_F(ServerTest, AClientThatLeavesEndsTheExchange) {
  Start();
  auto socket = std::make_unique<tcp::socket>(Connect());
  asio::write(*socket, asio::buffer(Get("/wait")));
  const auto exchange = Waiting();
  socket.reset();
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
  std::atomic<bool> ran{false};
  exchange->Post([&ran] { ran = true; });
  EXPECT_TRUE(Has(Ask(Get("/open", kClose)), "200 OK"));
  EXPECT_FALSE(ran) << "work for a client that has gone is dropped";
}

TEST_F(ServerTest, PostedWorkRunsOnTheExchangesExecutor) {
  Start();
  std::future<std::string> reply =
      std::async(std::launch::async, [this] { return Ask(Get("/wait", kClose)); });
  const auto exchange = Waiting();
  exchange->Post([exchange] { exchange->Reply({.status = 201, .body = "posted"}); });
  EXPECT_TRUE(Has(reply.get(), "posted"));
  EXPECT_EQ(gone_, 0);
}

TEST_F(ServerTest, FinishWaitsForTheLastByteOfTheLastAnswer) {
  Start();
  EXPECT_TRUE(server_->Finish(0)) << "there is no request yet";
  std::promise<void> read;
  std::future<std::string> reply = std::async(std::launch::async, [&] {
    tcp::socket socket = Connect();
    asio::write(socket, asio::buffer(Get("/wait", kClose)));
    read.get_future().wait();
    return AskOn(socket, "");
  });
  const auto exchange = Waiting();
  EXPECT_FALSE(server_->Finish(20)) << "the request is not answered yet";
  const std::string body(64 << 20, 'x');  // more than the sockets' buffers hold
  exchange->Post([&] { exchange->Reply({.body = body}); });
  EXPECT_FALSE(server_->Finish(20)) << "the client has not begun to read";
  read.set_value();
  EXPECT_TRUE(server_->Finish(60'000));
  server_->Stop();
  EXPECT_GT(reply.get().size(), body.size());
}

TEST_F(ServerTest, KeysGuardAllRoutesExceptOpenOnes) {
  Start({}, {.keys = {"secret"}});
  EXPECT_TRUE(Has(Ask(Get("/open", kClose)), "200 OK"));
  const std::string refused = Ask(Post("/echo/a", "", kClose));
  EXPECT_TRUE(Has(refused, "HTTP/1.1 401") && Has(refused, "invalid_api_key")) << refused;
  EXPECT_TRUE(Has(Ask(Post("/echo/a", "", std::string("Authorization: Bearer secret\r\n") + kClose)), "a:"));
}

TEST_F(ServerTest, PagesOfAllowedOriginsMaySendRequests) {
  ServerOptions options;
  options.allowed_origins = {"https://good.example"};
  Start(options);
  const std::string good = "Origin: https://good.example\r\n", bad = "Origin: https://bad.example\r\n";
  const auto preflight = [&](const std::string& origin) {
    return Ask("OPTIONS /echo/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + origin +
               "Access-Control-Request-Headers: authorization, content-type\r\n\r\n");
  };
  EXPECT_TRUE(Has(preflight(good), "204 No Content") &&
              Has(preflight(good), "Access-Control-Allow-Origin: https://good.example") &&
              Has(preflight(good), "Access-Control-Allow-Headers: authorization, content-type"));
  EXPECT_FALSE(Has(preflight(bad), "Access-Control-Allow-Origin"));
  EXPECT_TRUE(Has(Ask(Get("/stream", good + kClose)), "Access-Control-Allow-Origin"));
  EXPECT_TRUE(Has(Ask(Get("/stream", bad + kClose)), "HTTP/1.1 403"));
  EXPECT_FALSE(Has(Ask(Get("/open", kClose)), "Access-Control-Allow-Origin"))
      << "the request comes from no page";
}

TEST_F(ServerTest, AServerWithoutKeysServesThisHost) {
  Start();
  EXPECT_TRUE(Has(Ask("GET /stream HTTP/1.1\r\nHost: evil.example\r\n\r\n"), "HTTP/1.1 421"));
  EXPECT_TRUE(
      Has(Ask("GET http://localhost/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), "200 OK"));
  const auto host = [&](AccessOptions options) {
    access_ = *Access::Create(std::move(options));
    return (*Server::Create(urls_, *access_, metrics_, {.port = 0}))->Where();
  };
  server_->Stop();
  server_.reset();
  EXPECT_TRUE(Has(host({}), "127.0.0.1:") && Has(host({}), "--host 0.0.0.0")) << host({});
  EXPECT_TRUE(Has(host({.keys = {"k"}}), "0.0.0.0:") && !Has(host({.keys = {"k"}}), "--host"));
}

// A key and a self-signed certificate, as PEM files.
void WriteCertificate(const std::filesystem::path& certificate, const std::filesystem::path& key,
                      int64_t seconds = 3600) {
  EVP_PKEY* const pair = EVP_RSA_gen(2048);
  X509* const cert = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), 0);
  X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
  X509_set_pubkey(cert, pair);
  X509_NAME* const name = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_sign(cert, pair, EVP_sha256());
  std::FILE* file = std::fopen(certificate.c_str(), "w");
  PEM_write_X509(file, cert);
  std::fclose(file);
  file = std::fopen(key.c_str(), "w");
  PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(cert);
  EVP_PKEY_free(pair);
}

class TlsServerTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    folder_ = std::filesystem::path(::testing::TempDir()) / "numoe_server_test";
    std::filesystem::create_directories(folder_);
    options_.tls_certificate = folder_ / "cert.pem";
    options_.tls_key = folder_ / "key.pem";
    WriteCertificate(options_.tls_certificate, options_.tls_key);
  }
  void TearDown() override {
    ServerTest::TearDown();
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
  ServerOptions options_;
};

TEST_F(TlsServerTest, RequestsAreAnsweredOverTls) {
  Start(options_);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  asio::ssl::stream<tcp::socket> stream(Connect(), tls);
  stream.handshake(asio::ssl::stream_base::client);
  asio::write(stream, asio::buffer(Get("/stream")));
  std::string head;
  asio::read_until(stream, asio::dynamic_buffer(head), "\r\n0\r\n\r\n");
  EXPECT_TRUE(Has(head, "data: 2"));
  EXPECT_TRUE(Has(AskOn(stream, Post("/echo/x", std::string(100'000, 'y'), kClose)), "x:yyy"));
  EXPECT_FALSE(Has(Ask(Get("/open", kClose)), "200 OK")) << "plain text is not accepted on a TLS port";
}

TEST_F(TlsServerTest, AClientThatLeavesIsNoticedOverTlsToo) {
  Start(options_);
  asio::ssl::context tls(asio::ssl::context::tls_client);
  auto stream = std::make_unique<asio::ssl::stream<tcp::socket>>(Connect(), tls);
  stream->handshake(asio::ssl::stream_base::client);
  asio::write(*stream, asio::buffer(Get("/wait")));
  Waiting();
  stream.reset();
  EXPECT_TRUE(Becomes([this] { return gone_ == 1; }));
}

// A handler that answers in the background holds its slot in this way.
TEST_F(ServerTest, ASlotIsTakenUntilItsLastReferenceIsDropped) {
  std::shared_ptr<void> slot;
  urls_.Add({.method = "GET",
             .pattern = "/background",
             .summary = "",
             .handle = [&slot](const std::shared_ptr<Exchange>& e) {
               slot = e->Slot();
               e->Reply({.body = "{}"});
             }});
  urls_.Add({.method = "GET",
             .pattern = "/uncounted",
             .summary = "",
             .handle = [](const std::shared_ptr<Exchange>& e) { e->Reply({.body = "{}"}); },
             .counted = false});
  Start({}, {.keys = {"a"}, .requests_per_key_max = 1});
  const std::string rest = "x-api-key: a\r\nConnection: close\r\n";
  EXPECT_TRUE(Has(Ask(Get("/background", rest)), "200 OK"));
  EXPECT_TRUE(Has(Ask(Get("/stream", rest)), "429 "));
  EXPECT_TRUE(Has(Ask(Get("/uncounted", rest)), "200 OK"));
  EXPECT_TRUE(Has(Ask(Get("/uncounted", "Connection: close\r\n")), "401 "));
  slot.reset();
  EXPECT_TRUE(Has(Ask(Get("/stream", rest)), "200 OK"));
}

// A connection and its answer hold each other, and the answer holds the function that waits for it.
TEST_F(ServerTest, AnUnfinishedAnswerEndsWithTheServer) {
  std::weak_ptr<Exchange> held;
  std::promise<void> asked;
  urls_.Add({.method = "GET", .pattern = "/never", .summary = "", .handle = [&](const auto& e) {
               e->OnGone([e] {});
               held = e;
               asked.set_value();
             }});
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(std::string("GET /never HTTP/1.1\r\nHost: x\r\n\r\n")));
  asked.get_future().wait();
  server_->Stop();
  EXPECT_FALSE(held.expired());
  server_.reset();
  EXPECT_TRUE(held.expired());
}

// A daemon must find out before it loads a model for minutes.
TEST_F(ServerTest, APortInUseIsReportedBeforeServing) {
  Start();
  ServerOptions options;
  options.host = "127.0.0.1";
  options.port = server_->port();
  const auto second = Server::Create(urls_, *access_, metrics_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(Has(std::string(second.status().message()), fmt::format("--port={}", options.port)))
      << second.status();
}

TEST_F(ServerTest, ANewTableIsUsedByOpenConnectionsToo) {
  UrlTable later;
  later.Add({.method = "GET",
             .pattern = "/open",
             .summary = "",
             .handle = [](const std::shared_ptr<Exchange>& e) { e->Reply({.body = "later"}); },
             .open = true});
  Start();
  tcp::socket socket = Connect();
  asio::write(socket, asio::buffer(Get("/open", "")));
  std::string reply;
  asio::read_until(socket, asio::dynamic_buffer(reply), "{}");
  server_->Use(later);
  EXPECT_TRUE(Has(AskOn(socket, Get("/open", "Connection: close\r\n")), "later"));
  server_->Stop();
}

TEST_F(ServerTest, ConnectionsAreRefusedUntilItStarts) {
  access_ = *Access::Create({});
  ServerOptions options;
  options.host = "127.0.0.1";
  options.port = 0;
  auto server = Server::Create(urls_, *access_, metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  tcp::socket early(context_);
  boost::system::error_code error;
  const tcp::endpoint address(asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port()));
  early.connect(address, error);
  EXPECT_EQ(error, asio::error::connection_refused);
  ASSERT_TRUE(server_->Start().ok());
  EXPECT_TRUE(Has(Ask(Get("/open", "Connection: close\r\n")), "200 OK"));
}

TEST_F(TlsServerTest, TheMetricHasTheExpiryOfTheCurrentCertificate) {
  Start(options_);
  const std::string series = "numoe_certificate_expiry_timestamp_seconds{flag=\"ssl-certfile\"} ";
  const auto days_left = [&] {
    const std::string text = metrics_.Serialise();
    const size_t at = text.find("\n" + series);
    if (at == std::string::npos) return -1.0;
    return (std::stod(text.substr(at + 1 + series.size())) - static_cast<double>(std::time(nullptr))) / 86400;
  };
  EXPECT_NEAR(days_left(), 3600.0 / 86400, 0.01);
  WriteCertificate(options_.tls_certificate, options_.tls_key, 90 * 86400);
  // A file system may store times no finer than the clock's tick.
  std::filesystem::last_write_time(options_.tls_certificate,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  for (int i = 0; i < 6000 && days_left() < 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NEAR(days_left(), 90, 0.01);
}

TEST_F(TlsServerTest, WrongFilesAreNamed) {
  access_ = *Access::Create({});
  ServerOptions options = options_;
  options.port = 0;
  options.tls_key = folder_ / "nothing.pem";
  const auto no_key = Server::Create(urls_, *access_, metrics_, options);
  EXPECT_TRUE(Has(std::string(no_key.status().message()), "--ssl-keyfile")) << no_key.status();
  options.tls_key.clear();
  EXPECT_EQ(Server::Create(urls_, *access_, metrics_, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace numoe::net
