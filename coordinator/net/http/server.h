// The HTTP server: Boost.Beast, asynchronous, a few threads for any number of connections; plain or TLS.
//
// Knows nothing of what is served: a UrlTable says which handler answers what (exchange.h). Connections,
// bodies, headers, idle and reading times are bounded (http_limits.h); a certificate that is replaced on disk
// is used for the connections that come after. Which web pages may ask is page_origins.h's business.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "coordinator/net/http/access.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/url_table.h"

namespace numoe::net {

struct ServerOptions {
  std::string host;  // empty: all addresses where requests need keys, else 127.0.0.1
  int port = 8080;   // 0: any free one
  int threads = 2;
  std::filesystem::path tls_certificate;     // PEM, the whole chain; empty: no TLS
  std::filesystem::path tls_key;             // PEM
  std::vector<std::string> allowed_origins;  // whose pages may ask (page_origins.h); "*": all
  int connections_max = limits::kHttpConnectionsMax;
  size_t bodies_bytes_max = limits::kHttpBodiesBytesMax;  // of all connections together
  std::chrono::milliseconds read_timeout = std::chrono::seconds(limits::kHttpReadTimeoutSeconds);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(limits::kHttpWriteTimeoutSeconds);
};

class Server {
 public:
  /// Takes the address, where connections are refused until Start; all three outlive the server.
  /// INVALID_ARGUMENT names an address, certificate or key that cannot be used: a program asks before it does
  /// anything that takes long.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const UrlTable& urls, Access& access,
                                                        Metrics& metrics, const ServerOptions& options);
  /// Closes all connections. REQUIRES: nobody posts to exchanges any more.
  virtual ~Server() = default;
  virtual int port() const = 0;
  /// Where it serves, for the log: "127.0.0.1:8080", and who does not reach it.
  virtual std::string Where() const = 0;
  /// Listens and serves. REQUIRES: the table is filled.
  virtual absl::Status Start() = 0;
  /// Requests from now on are answered by `urls`, which is filled and outlives the server.
  virtual void Use(const UrlTable& urls) = 0;
  /// Until every request that has come is answered and its last byte handed to the system, at most
  /// `deadline_ms`; whether they are. Requests that come meanwhile count, too.
  virtual bool Finish(int64_t deadline_ms) = 0;
  /// No handler runs any more once it returns; what is posted to exchanges from then on is dropped.
  virtual void Stop() = 0;
};

}  // namespace numoe::net
