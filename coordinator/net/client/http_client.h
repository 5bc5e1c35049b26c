// HttpClient: requests to one server over HTTP/1.1 or HTTPS, each on its own connection.
//
// Asynchronous: Send starts an exchange on the caller's io_context or strand and delivers the body as it
// arrives, so one thread can serve thousands of exchanges; Fetch waits for one complete reply. Every request
// has its own connection, as in sglang.bench_serving, so that a slow answer never delays another. The
// server's name is looked up once, in Create. Certificates are checked against the system's list (or
// OpenSSL's SSL_CERT_FILE). Connecting, silence, headers and complete replies are limited (limits::kClient*),
// and TCP's keepalive notices a server whose host has gone. Errors name the server. An HttpClient outlives
// its exchanges. Any thread may send; an exchange is used only on its executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/net/client/client_limits.h"
#include "coordinator/net/client/url.h"

namespace numoe::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpCall {
  std::string path;  // appended to the URL's path: "/v1/models"
  std::string body;  // JSON, sent with POST; if it is empty the method is GET, unless `post` is set
  bool post = false;
  std::string method;   // if it is not empty: this method, and `headers` give the body's type
  HttpHeaders headers;  // in addition to the client's own
  int connect_seconds = limits::kClientConnectSeconds;
  int silence_seconds = limits::kClientSilenceSeconds;  // 0: no limit while the host answers keepalives
};

struct FetchedReply {
  int status = 0;
  std::string body;
};

/// Called on the io_context's thread. on_end is called exactly once, as the last one.
struct HttpEvents {
  std::function<void()> on_connected;  // before any byte of the request is sent; may be empty
  std::function<void(int status)> on_head;
  std::function<void(const HttpHeaders&)> on_headers;  // after on_head; names in lower case; may be empty
  std::function<absl::Status(std::string_view bytes)> on_body;  // an error ends the exchange
  // CANCELLED: Cancel was called. UNAVAILABLE: the server could not be reached, or the answer was cut off.
  std::function<void(const absl::Status&)> on_end;
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  /// Closes the connection; the io_context then calls on_end.
  virtual void Cancel() = 0;
  /// Stops reading until Resume: the server's further bytes wait on its side.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

class HttpClient {
 public:
  using Header = std::pair<std::string, std::string>;
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;

  /// INVALID_ARGUMENT: a header is malformed. UNAVAILABLE: the server's name is not known.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(const Url& url, std::string_view api_key,
                                                            HttpHeaders headers = {});
  /// Creates a client for a server whose name the caller has looked up.
  static absl::StatusOr<std::unique_ptr<HttpClient>> CreateAt(const Url& url, Endpoints endpoints,
                                                              HttpHeaders headers = {});

  std::shared_ptr<HttpExchange> Send(const boost::asio::any_io_executor& executor, HttpCall call,
                                     HttpEvents events);
  std::shared_ptr<HttpExchange> Send(boost::asio::io_context& context, HttpCall call, HttpEvents events) {
    return Send(context.get_executor(), std::move(call), std::move(events));
  }
  /// A reply of any status is a result; the errors are those of on_end.
  absl::StatusOr<FetchedReply> Fetch(HttpCall call);
  /// The body of a reply with status 200; for any other status, the error that the server has sent.
  absl::StatusOr<std::string> FetchOk(HttpCall call);

  const Url& url() const { return url_; }
  const Endpoints& endpoints() const { return endpoints_; }

 private:
  HttpClient(const Url& url, Endpoints endpoints, HttpHeaders headers);

  const Url url_;
  const HttpHeaders headers_;
  const Endpoints endpoints_;
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
};

}  // namespace numoe::net
