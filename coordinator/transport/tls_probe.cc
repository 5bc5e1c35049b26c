#include "coordinator/transport/tls_probe.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "common/transport/certificate.h"

namespace numoe {
namespace {

struct Deleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* session) const { SSL_free(session); }
};

class Socket {
 public:
  Socket(const std::string& host, const std::string& port, std::chrono::milliseconds patience) {
    const addrinfo hints{.ai_flags = 0, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> places(found, freeaddrinfo);
    const auto ms = patience.count();
    const timeval limit{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    for (const addrinfo* place = found; place != nullptr && fd_ < 0; place = place->ai_next) {
      fd_ = socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC, place->ai_protocol);
      setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // limits connect, too
      setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      if (connect(fd_, place->ai_addr, place->ai_addrlen) == 0) continue;
      close(fd_);
      fd_ = -1;
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Checks nothing itself while it shakes hands, so that there is a whole story to tell afterwards.
std::unique_ptr<SSL_CTX, Deleter> MakeContext(const TlsIdentity* identity) {
  std::unique_ptr<SSL_CTX, Deleter> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  if (identity == nullptr) return context;
  const auto cas = ParseCertificates(identity->ca_pem);
  const auto chain = ParseCertificates(identity->certificate_pem);
  const auto key = ParsePrivateKey(identity->key_pem);
  if (!cas.ok() || !chain.ok() || !key.ok()) return nullptr;  // was read before, so this cannot be
  for (const Certificate& ca : *cas) X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
  SSL_CTX_use_certificate(context.get(), chain->front().get());
  for (size_t i = 1; i < chain->size(); ++i) SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get());
  SSL_CTX_use_PrivateKey(context.get(), key->get());
  return context;
}

void CallBy(SSL& session, const std::string& host) {
  in6_addr any;
  if (inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(&session), host.c_str());
    return;
  }
  SSL_set1_host(&session, host.c_str());
  SSL_set_tlsext_host_name(&session, host.c_str());
}

absl::Status ExplainCertificate(const std::string& worker, const std::string& host, SSL& session) {
  const Certificate theirs(SSL_get1_peer_certificate(&session));
  const long verdict = SSL_get_verify_result(&session);
  if (theirs == nullptr || verdict == X509_V_OK) return absl::OkStatus();
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: its certificate is for {}, expected {}, as --workers calls it; give it a certificate with that "
        "name (subjectAltName), or call it by one that it has",
        worker, NamesOf(*theirs), host));
  }
  const absl::Status valid = CheckValidity(*theirs);
  if (!valid.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: its certificate {}; renew what its --ssl-certfile names ({})", worker,
                    std::string(valid.message()), DescribeCertificate(*theirs)));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{}: its certificate is {}, which no CA of --worker-ssl-ca-certs vouches for ({}); expected "
      "one of these CAs: give the worker such a certificate, or that CA to this coordinator",
      worker, DescribeCertificate(*theirs), X509_verify_cert_error_string(verdict)));
}

bool IsAlert(int reason) { return reason > SSL_AD_REASON_OFFSET; }

absl::Status SpeaksTls(const std::string& worker) {
  return absl::FailedPreconditionError(
      fmt::format("{}: it speaks TLS, expected plain text; give this coordinator --worker-ssl-certfile, "
                  "--worker-ssl-keyfile and --worker-ssl-ca-certs",
                  worker));
}

absl::Status SpeaksNoTls(const std::string& worker, int reason) {
  return absl::FailedPreconditionError(fmt::format(
      "{}: it speaks no TLS ({}); start it with --ssl-certfile, --ssl-keyfile and --ssl-ca-certs, "
      "or this coordinator without --worker-ssl-certfile",
      worker, ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason))));
}

absl::Status RefusesOurs(const std::string& worker, const TlsIdentity& identity, int reason) {
  return absl::FailedPreconditionError(fmt::format(
      "{}: it refuses this coordinator's certificate ({}): --worker-ssl-certfile is {}; expected one of the "
      "CAs "
      "of the worker's --ssl-ca-certs, for clients",
      worker,
      IsAlert(reason) ? SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET) : "it ends the connection",
      identity.description));
}

absl::Status ExplainHandshake(const std::string& worker, const TlsIdentity* identity, int ssl_error) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (ssl_error != SSL_ERROR_SSL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return absl::OkStatus();  // it is gone, or keeps silent
  if (IsAlert(reason))
    return identity == nullptr ? SpeaksTls(worker) : RefusesOurs(worker, *identity, reason);
  return identity == nullptr ? absl::OkStatus() : SpeaksNoTls(worker, reason);
}

absl::Status Shake(const std::string& worker, const std::string& host, const TlsIdentity* identity, int fd) {
  const auto context = MakeContext(identity);
  if (context == nullptr) return absl::OkStatus();
  const std::unique_ptr<SSL, Deleter> session(SSL_new(context.get()));
  CallBy(*session, host);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof kHttp2);
  SSL_set_fd(session.get(), fd);
  ERR_clear_error();
  if (const int shaken = SSL_connect(session.get()); shaken != 1)
    return ExplainHandshake(worker, identity, SSL_get_error(session.get(), shaken));
  if (identity == nullptr) return SpeaksTls(worker);
  if (const absl::Status wrong = ExplainCertificate(worker, host, *session); !wrong.ok()) return wrong;
  // With TLS 1.3 the worker looks at our certificate after the handshake has ended for us. Then it sends its
  // HTTP/2 settings, or ends the connection, with an alert or (as gRPC does) without one.
  char first;
  const int read = SSL_read(session.get(), &first, sizeof first);
  if (read == 1 || SSL_get_error(session.get(), read) == SSL_ERROR_WANT_READ) return absl::OkStatus();
  return RefusesOurs(worker, *identity, ERR_GET_REASON(ERR_peek_error()));
}

}  // namespace

absl::Status ProbeTls(const std::string& address, const TlsIdentity* identity,
                      std::chrono::milliseconds patience) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  // Found twice: a worker that ends just now is no refusal.
  absl::Status found;
  for (int look = 0; look < 2; ++look) {
    const Socket socket(host, address.substr(colon + 1), patience);
    if (socket.fd() < 0) return absl::OkStatus();
    found = Shake("worker " + address, host, identity, socket.fd());
    ERR_clear_error();
    if (found.ok()) break;
  }
  return found;
}

}  // namespace numoe
