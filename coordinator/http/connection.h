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
#include <set>

#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/http/server.h"

namespace numoe {

/// Connections that are open. One that is answering and its answer hold each other, until the answer is out
/// or the client has gone; a server that ends before that drops the answers.
class OpenConnections {
 public:
  class Member {
   public:
    virtual ~Member() = default;
    /// Lets go of the answer, without a word to anybody. The server's threads have ended.
    virtual void DropAnswer() = 0;
  };
  void Enter(Member* member);
  void Leave(Member* member);
  /// REQUIRES: the server's threads have ended.
  void DropAnswers();

 private:
  std::set<Member*> All();
  bool Has(Member* member);

  Mutex mutex_;
  std::set<Member*> members_ ABSL_GUARDED_BY(mutex_);
};

/// What all connections of a server share, and outlives them.
struct ServerParts {
  const std::atomic<const Router*>& router;
  Access& access;
  Metrics& metrics;
  const ServerOptions& options;
  std::shared_ptr<std::atomic<int>> answering;  // requests whose answers are not yet out
  std::shared_ptr<OpenConnections> connections;
};

/// Serves the socket until it closes. `tls`: null for plain text.
void ServeConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                     const ServerParts& parts);

}  // namespace numoe
