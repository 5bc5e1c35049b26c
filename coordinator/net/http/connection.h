// Connection: one client connection. Reads requests, has the UrlTable's handlers answer them one after the
// other, and notices when the client leaves.
//
// Lives on its own strand: everything but Exchange::Post and TakeBody runs there. What a request's head alone
// decides - path, key, room - is answered before its body is read. While a request is answered a read is
// pending: what it brings belongs to the next request, and if it fails the client has gone. Times without
// progress are bounded in every state: handshake, idle, reading, writing. However a connection ends, who
// makes its answer is told once (Exchange::OnGone), unless the answer was whole by then.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "common/observe/metrics.h"
#include "coordinator/net/http/open_connections.h"
#include "coordinator/net/http/request_bodies.h"
#include "coordinator/net/http/server.h"

namespace numoe::net {

/// What all connections of a server share, and outlives them.
struct ServerParts {
  const std::atomic<const UrlTable*>& urls;
  Access& access;
  Metrics& metrics;
  const ServerOptions& options;
  std::shared_ptr<std::atomic<int>> answering;  // requests whose answers are not yet out
  std::shared_ptr<OpenConnections> connections;
  std::shared_ptr<RequestBodies> bodies;
};

/// Serves the socket until it closes. `tls`: null for plain text. A connection that came while
/// --max-connections others had whole requests of keys in hand answers one request that needs no key; to all
/// others it says that there is no room.
void ServeConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                     const ServerParts& parts);

}  // namespace numoe::net
