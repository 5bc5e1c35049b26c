#include "coordinator/net/client/http_client.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <limits>
#include <optional>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/net/client/answer_chunk.h"
#include "coordinator/net/client/client_limits.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Error = boost::system::error_code;
using Request = http::request<http::string_body>;

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

struct Connection {
  std::string server;  // for messages
  std::string host;
  const std::vector<tcp::endpoint>& endpoints;
  int connect_seconds;
  int silence_seconds;
};

// An answer may take minutes without a byte, so only keepalives can tell a slow server from a host that is
// gone.
void KeepAlive(tcp::socket& socket) {
  constexpr int kOn = 1, kProbes = 3;
  constexpr int kIdle = limits::kClientGoneSeconds / 2, kInterval = kIdle / kProbes;
  static_assert(kIdle > 0 && kInterval > 0);
  const int fd = socket.native_handle();
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdle, sizeof kIdle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kInterval, sizeof kInterval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
}

// One request and its reply: connects, performs the TLS handshake, writes, reads the head, and reads the body
// as it arrives.
template <typename Stream>
class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  Exchange(Stream stream, Connection connection, Request request, HttpEvents events)
      : stream_(std::move(stream)),
        connection_(std::move(connection)),
        request_(std::move(request)),
        events_(std::move(events)) {
    NUMOE_CHECK(events_.on_head && events_.on_body && events_.on_end);
    NUMOE_CHECK(connection_.connect_seconds > 0 && connection_.silence_seconds >= 0);
    ExpectHead();
  }

  void Run() {
    Lowest().expires_after(std::chrono::seconds(connection_.connect_seconds));
    Lowest().async_connect(connection_.endpoints,
                           [self = this->shared_from_this()](Error error, const tcp::endpoint&) {
                             if (error) return self->End(self->Failure("cannot connect to", error));
                             Error ignored;
                             self->Lowest().socket().set_option(tcp::no_delay(true), ignored);
                             KeepAlive(self->Lowest().socket());
                             self->ShakeHands();
                           });
  }

  void Cancel() override {
    cancelled_ = true;
    Lowest().close();
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] { self->Resume(); });
  }
  void Pause() override { paused_ = true; }
  void Resume() override {
    paused_ = false;
    if (std::exchange(waiting_, false)) ReadBody();
  }

 private:
  beast::tcp_stream& Lowest() { return beast::get_lowest_layer(stream_); }
  void AllowSilence() {
    if (connection_.silence_seconds == 0) return Lowest().expires_never();
    Lowest().expires_after(std::chrono::seconds(connection_.silence_seconds));
  }

  absl::Status Failure(const char* what, const Error& error) const {
    return absl::UnavailableError(fmt::format("{} {}: {}", what, connection_.server, error.message()));
  }

  void ShakeHands() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      Error not_an_address;
      asio::ip::make_address(connection_.host, not_an_address);
      if (not_an_address) SSL_set_tlsext_host_name(stream_.native_handle(), connection_.host.c_str());
      stream_.set_verify_callback(asio::ssl::host_name_verification(connection_.host));
      stream_.async_handshake(asio::ssl::stream_base::client, [self = this->shared_from_this()](Error error) {
        if (error) return self->End(self->Failure("no TLS connection to", error));
        self->Write();
      });
    } else {
      Write();
    }
  }

  void Write() {
    if (events_.on_connected) events_.on_connected();
    AllowSilence();
    http::async_write(stream_, request_, [self = this->shared_from_this()](Error error, size_t) {
      self->request_ = {};         // a long prompt is not kept while it is answered
      self->write_error_ = error;  // a server may refuse before it has read everything; its reply says why
      self->ReadHead();
    });
  }

  void ExpectHead() {
    parser_.emplace();
    parser_->header_limit(limits::kHttpHeaderBytesMax);
    // The code that reads the body limits it. Boost 1.74 treats boost::none as 0 if the reply has a length.
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
    parser_->eager(true);
  }

  // RFC 9110, 15.2: an interim answer (100 Continue, 103 Early Hints) comes before the final one. 101 changes
  // the protocol, which this client never requests.
  bool IsInterim() const {
    const unsigned status = parser_->get().result_int();
    return status >= 100 && status < 200 && status != 101;
  }

  void ReadHead() {
    http::async_read_header(
        stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, size_t) {
          if (error)
            return self->End(
                self->Failure("no answer from", self->write_error_ ? self->write_error_ : error));
          if (self->IsInterim()) {
            if (++self->interim_answers_ > limits::kHttpInterimAnswersMax)
              return self->End(absl::UnavailableError(fmt::format(
                  "{} sent {} interim answers (1xx) and no final one; at most {} are read",
                  self->connection_.server, self->interim_answers_, limits::kHttpInterimAnswersMax)));
            self->ExpectHead();
            return self->ReadHead();
          }
          self->events_.on_head(static_cast<int>(self->parser_->get().result_int()));
          if (self->events_.on_headers) self->events_.on_headers(self->Headers());
          self->ReadBody();
        });
  }

  HttpHeaders Headers() const {
    HttpHeaders headers;
    for (const auto& field : parser_->get()) {
      std::string name(field.name_string().data(), field.name_string().size());
      for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      headers.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
    }
    return headers;
  }

  void ReadBody() {
    NUMOE_CHECK(!waiting_) << "one read at a time";
    if (parser_->is_done() || cancelled_) return End(absl::OkStatus());
    if (paused_) {
      waiting_ = true;
      return Lowest().expires_never();
    }
    AllowSilence();
    parser_->get().body().data = piece_.data();
    parser_->get().body().size = piece_.size();
    http::async_read_some(stream_, buffer_, *parser_, [self = this->shared_from_this()](Error error, size_t) {
      if (error == http::error::need_buffer) error = {};
      NUMOE_CHECK_LE(self->parser_->get().body().size, self->piece_.size());
      const size_t bytes = self->piece_.size() - self->parser_->get().body().size;
      if (bytes > 0) {
        const absl::Status status = self->events_.on_body({self->piece_.data(), bytes});
        if (!status.ok()) return self->End(status);
      }
      if (error) return self->End(self->Failure("the answer was cut off, from", error));
      self->ReadBody();
    });
  }

  void End(const absl::Status& status) {
    Lowest().close();
    events_.on_end(cancelled_ ? absl::CancelledError("stopped") : status);
  }

  Stream stream_;
  const Connection connection_;
  Request request_;
  const HttpEvents events_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;  // for one head and its body
  int interim_answers_ = 0;
  std::array<char, 16 << 10> piece_;
  Error write_error_;
  bool cancelled_ = false;
  bool paused_ = false;
  bool waiting_ = false;  // paused while more is to be read
};

template <typename Stream>
std::shared_ptr<HttpExchange> RunExchange(Stream stream, Connection connection, Request request,
                                          HttpEvents events) {
  auto exchange = std::make_shared<Exchange<Stream>>(std::move(stream), std::move(connection),
                                                     std::move(request), std::move(events));
  exchange->Run();
  return exchange;
}

bool IsHeader(const HttpClient::Header& header) {
  const auto is_token = [](unsigned char c) { return c > ' ' && c < 0x7f && c != ':'; };
  const auto is_text = [](unsigned char c) { return c >= ' ' && c != 0x7f; };
  return !header.first.empty() && std::all_of(header.first.begin(), header.first.end(), is_token) &&
         std::all_of(header.second.begin(), header.second.end(), is_text);
}

}  // namespace

HttpClient::HttpClient(const Url& url, Endpoints endpoints, HttpHeaders headers)
    : url_(url), headers_(std::move(headers)), endpoints_(std::move(endpoints)) {}

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::Create(const Url& url, std::string_view api_key,
                                                               HttpHeaders headers) {
  if (!api_key.empty()) headers.emplace_back("Authorization", "Bearer " + std::string(api_key));
  asio::io_context context;
  Endpoints endpoints;
  Error error;
  for (const auto& entry : tcp::resolver(context).resolve(url.host, url.port, error))
    endpoints.push_back(entry.endpoint());
  if (error)
    return absl::UnavailableError(
        fmt::format("{}: cannot find the host: {}", url.ToString(), error.message()));
  return CreateAt(url, std::move(endpoints), std::move(headers));
}

absl::StatusOr<std::unique_ptr<HttpClient>> HttpClient::CreateAt(const Url& url, Endpoints endpoints,
                                                                 HttpHeaders headers) {
  for (const Header& header : headers) {
    if (!IsHeader(header))
      return absl::InvalidArgumentError(
          fmt::format("'{}' with a value of {} bytes is not a valid HTTP header", Printable(header.first),
                      header.second.size()));
  }
  std::unique_ptr<HttpClient> client(new HttpClient(url, std::move(endpoints), std::move(headers)));
  if (url.tls) {
    Error error;
    client->tls_.set_default_verify_paths(error);
    client->tls_.set_verify_mode(asio::ssl::verify_peer, error);
    if (error) return absl::InternalError("OpenSSL cannot be initialised: " + error.message());
  }
  return client;
}

std::shared_ptr<HttpExchange> HttpClient::Send(const asio::any_io_executor& executor, HttpCall call,
                                               HttpEvents events) {
  const bool post = call.post || !call.body.empty();
  Request request(http::verb::get, url_.path + call.path, 11);
  request.method_string(!call.method.empty() ? call.method : post ? "POST" : "GET");
  request.set(http::field::host, url_.Authority());
  request.set(http::field::user_agent, "numoe");
  request.set(http::field::connection, "close");
  if (post && call.method.empty()) request.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : headers_) request.set(name, value);
  for (const auto& [name, value] : call.headers) request.set(name, value);
  request.body() = std::move(call.body);
  request.prepare_payload();
  Connection connection{url_.ToString(), url_.host, endpoints_, call.connect_seconds, call.silence_seconds};
  if (url_.tls)
    return RunExchange(TlsStream(executor, tls_), std::move(connection), std::move(request),
                       std::move(events));
  return RunExchange(PlainStream(executor), std::move(connection), std::move(request), std::move(events));
}

absl::StatusOr<FetchedReply> HttpClient::Fetch(HttpCall call) {
  asio::io_context context(1);
  FetchedReply reply;
  absl::Status end;
  HttpEvents events;
  events.on_head = [&](int status) { reply.status = status; };
  events.on_body = [&](std::string_view bytes) -> absl::Status {
    if (reply.body.size() + bytes.size() > limits::kClientReplyBytesMax)
      return absl::ResourceExhaustedError(fmt::format("{}: the reply is larger than {} bytes",
                                                      url_.ToString(), limits::kClientReplyBytesMax));
    reply.body.append(bytes);
    return absl::OkStatus();
  };
  events.on_end = [&](const absl::Status& status) { end = status; };
  call.silence_seconds = limits::kClientReplySeconds;
  Send(context, std::move(call), std::move(events));
  context.run();
  if (!end.ok()) return end;
  return reply;
}

absl::StatusOr<std::string> HttpClient::FetchOk(HttpCall call) {
  const std::string path = call.path;
  ASSIGN_OR_RETURN(FetchedReply reply, Fetch(std::move(call)));
  if (reply.status != 200) return Annotate(HttpError(reply.status, reply.body), url_.ToString() + path);
  return std::move(reply.body);
}

}  // namespace numoe::net
