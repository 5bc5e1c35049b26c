// CannedServer: an HTTP server for tests of clients, which sends the answers of the test, byte for byte.
//
// Listens on a free port of 127.0.0.1, plain or with TLS and a certificate that it makes itself. Each
// connection has a thread: it reads one request, calls `answer`, writes the pieces with pauses between them
// and closes, or waits until the client disconnects. It keeps the requests. The destructor ends all
// connections.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace numoe {

struct CannedRequest {
  std::string method, target, body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string Header(const std::string& name) const;         // "" if there is none
};

struct CannedReply {
  std::vector<std::string> pieces;  // raw bytes, the status line included
  int pause_ms = 0;                 // before each piece after the first
  bool hold = false;                // after the last piece, wait until the client disconnects
};

/// A whole JSON reply.
CannedReply JsonReply(int status, const std::string& body);
/// A 200 event stream of these data lines, one chunk each, closed by [DONE].
CannedReply StreamReply(const std::vector<std::string>& data, int pause_ms = 0);

class CannedServer {
 public:
  using Answer = std::function<CannedReply(const CannedRequest&)>;
  /// If `tls_name` is not empty, the server uses TLS with a certificate for this name: "localhost", or
  /// another name that the client has to refuse. A client has to trust certificate_file().
  explicit CannedServer(Answer answer, const std::string& tls_name = "");
  ~CannedServer();

  std::string url() const;
  std::string certificate_file() const { return certificate_file_; }
  std::vector<CannedRequest> requests() const;
  /// Connections that a client closed before all was written, or while they were held.
  int hung_up() const { return hung_up_; }

 private:
  void Accept();
  template <typename Stream>
  void Serve(Stream& stream, boost::asio::ip::tcp::socket& socket);
  void MakeCertificate(const std::string& name);

  const Answer answer_;
  const bool tls_;
  boost::asio::io_context context_;
  boost::asio::ssl::context tls_context_{boost::asio::ssl::context::tls_server};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::string certificate_file_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> hung_up_ = 0;
  mutable std::mutex mutex_;
  std::vector<CannedRequest> requests_;
  std::vector<std::thread> connections_threads_;
  std::thread acceptor_thread_;
};

}  // namespace numoe
