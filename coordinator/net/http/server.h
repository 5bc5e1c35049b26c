// The HTTP server: Boost.Beast, asynchronous, a few threads for any number of connections; plain text or TLS.
//
// It does not know what is served: a UrlTable assigns handlers to paths (exchange.h). Connections, bodies,
// headers, idle times and reading times are limited (http_limits.h). A certificate that is replaced on disk
// is used for later connections. page_origins.h decides which web pages may send requests.
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
  std::string host;  // if it is empty: all addresses with API keys, else 127.0.0.1
  int port = 8080;   // 0: any free port
  int threads = 2;
  std::filesystem::path tls_certificate;     // PEM, the whole chain; TLS is off if the path is empty
  std::filesystem::path tls_key;             // PEM
  std::vector<std::string> allowed_origins;  // web pages that may send requests (page_origins.h); "*": all
  int connections_max = limits::kHttpConnectionsMax;
  size_t bodies_bytes_max = limits::kHttpBodiesBytesMax;  // of all connections together
  std::chrono::milliseconds read_timeout = std::chrono::seconds(limits::kHttpReadTimeoutSeconds);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(limits::kHttpWriteTimeoutSeconds);
};

class Server {
 public:
  /// Binds the address, where connections are refused until Start. The first three arguments outlive the
  /// server. INVALID_ARGUMENT names an address, certificate or key that cannot be used; a program calls this
  /// before it does anything that takes long.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const UrlTable& urls, Access& access,
                                                        Metrics& metrics, const ServerOptions& options);
  /// Closes all connections. REQUIRES: no thread posts to exchanges any more.
  virtual ~Server() = default;
  virtual int port() const = 0;
  /// The address for the log: "127.0.0.1:8080", with a note about which hosts cannot reach it.
  virtual std::string Where() const = 0;
  /// Listens and serves. REQUIRES: the table is filled.
  virtual absl::Status Start() = 0;
  /// From now on `urls` answers requests. REQUIRES: `urls` is complete and outlives the server.
  virtual void Use(const UrlTable& urls) = 0;
  /// Waits at most `deadline_ms` until all requests are answered and the last bytes are given to the
  /// operating system; returns whether they are. Requests that come meanwhile are included.
  virtual bool Finish(int64_t deadline_ms) = 0;
  /// No handler runs any more once this returns; later posts to exchanges are dropped.
  virtual void Stop() = 0;
};

}  // namespace numoe::net
