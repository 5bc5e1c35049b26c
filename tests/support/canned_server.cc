#include "tests/support/canned_server.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cstdio>
#include <filesystem>

#include "common/base/check.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Error = boost::system::error_code;

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string CannedRequest::Header(const std::string& name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

CannedReply JsonReply(int status, const std::string& body) {
  return {.pieces = {fmt::format(
              "HTTP/1.1 {} Said\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", status,
              body.size(), body)}};
}

CannedReply StreamReply(const std::vector<std::string>& data, int pause_ms) {
  const auto chunk = [](const std::string& text) { return fmt::format("{:x}\r\n{}\r\n", text.size(), text); };
  CannedReply reply{
      .pieces = {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"},
      .pause_ms = pause_ms};
  for (const std::string& line : data) reply.pieces.push_back(chunk("data: " + line + "\n\n"));
  reply.pieces.push_back(chunk("data: [DONE]\n\n") + "0\r\n\r\n");
  return reply;
}

CannedServer::CannedServer(Answer answer, const std::string& tls_name)
    : answer_(std::move(answer)),
      tls_(!tls_name.empty()),
      acceptor_(context_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)) {
  if (tls_) MakeCertificate(tls_name);
  acceptor_thread_ = std::thread([this] { Accept(); });
}

CannedServer::~CannedServer() {
  stopping_ = true;
  asio::io_context context;  // wakes the acceptor
  tcp::socket socket(context);
  Error ignored;
  socket.connect(acceptor_.local_endpoint(), ignored);
  acceptor_thread_.join();
  for (std::thread& thread : connections_threads_) thread.join();
  if (tls_) std::filesystem::remove(certificate_file_);
}

std::string CannedServer::url() const {
  return fmt::format("{}:{}", tls_ ? "https://localhost" : "http://127.0.0.1",
                     acceptor_.local_endpoint().port());
}

std::vector<CannedRequest> CannedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void CannedServer::Accept() {
  while (true) {
    auto socket = std::make_shared<tcp::socket>(context_);
    acceptor_.accept(*socket);
    if (stopping_) return;
    connections_threads_.emplace_back([this, socket] {
      if (tls_) {
        boost::beast::ssl_stream<tcp::socket&> stream(*socket, tls_context_);
        Error error;
        stream.handshake(asio::ssl::stream_base::server, error);
        if (!error) Serve(stream, *socket);
      } else {
        Serve(*socket, *socket);
      }
      Error ignored;
      socket->close(ignored);
    });
  }
}

template <typename Stream>
void CannedServer::Serve(Stream& stream, tcp::socket& socket) {
  boost::beast::flat_buffer buffer;
  http::request<http::string_body> request;
  Error error;
  http::read(stream, buffer, request, error);
  if (error) return;
  CannedRequest seen{.method = std::string(request.method_string()),
                     .target = std::string(request.target()),
                     .body = request.body()};
  for (const auto& field : request)
    seen.headers.emplace_back(Lower(std::string(field.name_string())), std::string(field.value()));
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(seen);
  }
  const CannedReply reply = answer_(seen);
  for (size_t i = 0; i < reply.pieces.size() && !error; ++i) {
    if (i > 0 && reply.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(reply.pause_ms));
    asio::write(stream, asio::buffer(reply.pieces[i]), error);
  }
  if (reply.hold && !error) {
    char byte;
    while (!stopping_ && !error) {
      socket.non_blocking(true);
      stream.read_some(asio::buffer(&byte, 1), error);
      if (error == asio::error::would_block) {
        error = {};
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  if (error) ++hung_up_;
  if (!error) socket.shutdown(tcp::socket::shutdown_send, error);
}

void CannedServer::MakeCertificate(const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  NUMOE_CHECK(key != nullptr && certificate != nullptr);
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  const std::string names = "DNS:" + name;
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  NUMOE_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
  char path[] = "/tmp/numoe-certificate.XXXXXX";
  FILE* file = fdopen(mkstemp(path), "w");
  NUMOE_CHECK(file != nullptr && PEM_write_X509(file, certificate) == 1);
  fclose(file);
  certificate_file_ = path;
  SSL_CTX_use_certificate(tls_context_.native_handle(), certificate);
  SSL_CTX_use_PrivateKey(tls_context_.native_handle(), key);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace numoe
