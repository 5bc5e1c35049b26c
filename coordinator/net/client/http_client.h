// HttpClient: requests to one server over HTTP/1.1 or HTTPS, each on a connection of its own.
//
// Asynchronous: Send starts an exchange on the caller's io_context or strand and hands its body over as it
// comes, so one thread carries thousands; Fetch waits for one whole reply. A connection for each request, as
// sglang.bench_serving has it: a slow answer never holds up another's. The server's name is looked up once,
// in Create. Certificates are checked against the system's (OpenSSL's SSL_CERT_FILE names others).
// Connecting, silence, headers and whole replies are bounded (limits::kClient*), and a server whose host is
// gone is noticed by TCP's keepalive. Errors name the server. An HttpClient outlives its exchanges. Any
// thread may send; an exchange is used on its executor only.
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
  std::string path;  // below the URL's: "/v1/models"
  std::string body;  // JSON: sent by POST; empty: GET, unless `post`
  bool post = false;
  std::string method;   // empty: as said above; else `headers` say of what type the body is
  HttpHeaders headers;  // besides the client's own
  int connect_seconds = limits::kClientConnectSeconds;
  int silence_seconds = limits::kClientSilenceSeconds;  // 0: any time, as long as the host is there
};

struct FetchedReply {
  int status = 0;
  std::string body;
};

/// Called on the io_context's thread. on_end comes exactly once, last.
struct HttpEvents {
  std::function<void()> on_connected;  // before anything of the request is sent; may be empty
  std::function<void(int status)> on_head;
  std::function<void(const HttpHeaders&)> on_headers;  // after on_head; names in lower case; may be empty
  std::function<absl::Status(std::string_view bytes)> on_body;  // an error ends the exchange
  std::function<void(const absl::Status&)> on_end;  // CANCELLED: by Cancel; UNAVAILABLE: not reached, broken
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  /// Closes the connection; on_end follows from the io_context.
  virtual void Cancel() = 0;
  /// Nothing more is read until Resume: what the server sends waits with it.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

class HttpClient {
 public:
  using Header = std::pair<std::string, std::string>;
  using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;

  /// INVALID_ARGUMENT: a header that is none. UNAVAILABLE: the name of the server is not known.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(const Url& url, std::string_view api_key,
                                                            HttpHeaders headers = {});
  /// Of a server whose name the caller looks up.
  static absl::StatusOr<std::unique_ptr<HttpClient>> CreateAt(const Url& url, Endpoints endpoints,
                                                              HttpHeaders headers = {});

  std::shared_ptr<HttpExchange> Send(const boost::asio::any_io_executor& executor, HttpCall call,
                                     HttpEvents events);
  std::shared_ptr<HttpExchange> Send(boost::asio::io_context& context, HttpCall call, HttpEvents events) {
    return Send(context.get_executor(), std::move(call), std::move(events));
  }
  /// Any status of the server's is a reply; errors are those of on_end.
  absl::StatusOr<FetchedReply> Fetch(HttpCall call);
  /// The body of a 200 reply; another status is the error that the server gave.
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
