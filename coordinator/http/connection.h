// Connection: one client connection. Reads requests, has the router's handlers answer them one after the
// other, and notices when the client leaves.
//
// Lives on its own strand: everything but Exchange::Post runs there. While a request is answered a read is
// pending: what it brings belongs to the next request, and if it fails the client has gone. Times without
// progress are bounded in every state: handshake, idle, reading, writing.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "common/observe/metrics.h"
#include "coordinator/http/server.h"

namespace numoe {

/// What all connections of a server share, and outlives them.
struct ServerParts {
  const std::atomic<const Router*>& router;
  Access& access;
  Metrics& metrics;
  const ServerOptions& options;
  std::shared_ptr<std::atomic<int>> answering;  // requests whose answers are not yet out
};

/// Serves the socket until it closes. `tls`: null for plain text.
void ServeConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                     const ServerParts& parts);

}  // namespace numoe
