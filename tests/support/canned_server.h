// CannedServer: an HTTP server for tests of clients, which answers what the test says, byte for byte.
//
// Listens on a free port of 127.0.0.1, plain or with TLS under a certificate of its own making. Each
// connection has a thread: it reads one request, asks `answer`, writes the pieces with pauses between them
// and closes, or waits until the client has gone. Requests seen are kept. The destructor ends all of them.
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
  std::string Header(const std::string& name) const;         // "" where there is none
};

struct CannedReply {
  std::vector<std::string> pieces;  // raw bytes, the status line included
  int pause_ms = 0;                 // before each piece after the first
  bool hold = false;                // when all is written, wait for the client to leave
};

/// A whole JSON reply.
CannedReply JsonReply(int status, const std::string& body);
/// A 200 event stream of these data lines, one chunk each, closed by [DONE].
CannedReply StreamReply(const std::vector<std::string>& data, int pause_ms = 0);

class CannedServer {
 public:
  using Answer = std::function<CannedReply(const CannedRequest&)>;
  /// `tls_name`: not empty: TLS, with a certificate for this name. Only for the names "localhost" and others
  /// that the test wants refused; certificate_file() is what a client has to trust.
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
