// HttpClient: requests to one server over HTTP/1.1 or HTTPS, each on a connection of its own.
//
// Asynchronous: Send starts an exchange on the caller's io_context and hands its body over as it comes, so
// one thread carries thousands; Fetch waits for one whole reply. A connection for each request, as
// sglang.bench_serving has it: a slow answer never holds up another's. The server's name is looked up once,
// in Create. Certificates are checked against the system's (OpenSSL's SSL_CERT_FILE names others).
// Connecting, silence, headers and whole replies are bounded (limits::kClient*). Errors name the server. An
// HttpClient outlives its exchanges; it may be used by the thread that runs the io_context only.
#pragma once

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
#include "coordinator/client/url.h"

namespace numoe {

struct HttpCall {
  std::string path;  // below the URL's: "/v1/models"
  std::string body;  // JSON: sent by POST; empty: GET, unless `post`
  bool post = false;
};

struct FetchedReply {
  int status = 0;
  std::string body;
};

/// Called on the io_context's thread. on_end comes exactly once, last.
struct HttpEvents {
  std::function<void(int status)> on_head;
  std::function<absl::Status(std::string_view bytes)> on_body;  // an error ends the exchange
  std::function<void(const absl::Status&)> on_end;  // CANCELLED: by Cancel; UNAVAILABLE: not reached, broken
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  /// Closes the connection; on_end follows from the io_context.
  virtual void Cancel() = 0;
};

class HttpClient {
 public:
  using Header = std::pair<std::string, std::string>;

  /// INVALID_ARGUMENT: a header that is none. UNAVAILABLE: the name of the server is not known.
  static absl::StatusOr<std::unique_ptr<HttpClient>> Create(const Url& url, std::string_view api_key,
                                                            std::vector<Header> headers = {});

  std::shared_ptr<HttpExchange> Send(boost::asio::io_context& context, HttpCall call, HttpEvents events);
  /// Any status of the server's is a reply; errors are those of on_end.
  absl::StatusOr<FetchedReply> Fetch(HttpCall call);
  /// The body of a 200 reply; another status is the error that the server gave.
  absl::StatusOr<std::string> FetchOk(HttpCall call);

  const Url& url() const { return url_; }

 private:
  HttpClient(const Url& url, std::vector<Header> headers);
  std::shared_ptr<HttpExchange> Start(boost::asio::io_context& context, HttpCall call, HttpEvents events,
                                      int silence_seconds);

  const Url url_;
  const std::vector<Header> headers_;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
};

}  // namespace numoe
