#include "coordinator/execution/transport/tls_probe.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/transport/certificate.h"

namespace numoe::execution {
namespace {

struct Deleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* session) const { SSL_free(session); }
};

using Clock = std::chrono::steady_clock;

// Waits until the socket has one of these events; returns false if it has none by the deadline.
bool Await(int fd, short events, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd entry{fd, events, 0};
  return left > 0 && poll(&entry, 1, static_cast<int>(left)) > 0;
}

// Connects a non-blocking socket; returns an invalid descriptor if that fails or takes longer.
FileDescriptor ConnectBy(const std::string& host, const std::string& port, Clock::time_point deadline) {
  const addrinfo hints{.ai_flags = 0, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return FileDescriptor();
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    FileDescriptor fd(
        socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, entry->ai_protocol));
    if (fd.get() < 0) continue;
    if (connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0) return fd;
    if (errno != EINPROGRESS || !Await(fd.get(), POLLOUT, deadline)) continue;
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0) return fd;
  }
  return FileDescriptor();
}

// Repeats `step` until it succeeds or fails, or until the deadline, however slowly the other end sends.
// Returns SSL_ERROR_NONE, SSL_ERROR_WANT_READ or _WRITE at the deadline, or how it failed.
template <typename Step>
int RunBy(Clock::time_point deadline, SSL& session, Step step) {
  while (true) {
    ERR_clear_error();
    const int done = step();
    if (done == 1) return SSL_ERROR_NONE;
    const int error = SSL_get_error(&session, done);
    const bool reads = error == SSL_ERROR_WANT_READ;
    if (!reads && error != SSL_ERROR_WANT_WRITE) return error;
    if (!Await(SSL_get_fd(&session), reads ? POLLIN : POLLOUT, deadline)) return error;
  }
}

// OpenSSL checks nothing during the handshake, so that everything can be explained afterwards.
std::unique_ptr<SSL_CTX, Deleter> MakeContext(const TlsIdentity* identity) {
  std::unique_ptr<SSL_CTX, Deleter> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  if (identity == nullptr) return context;
  const auto cas = ParseCertificates(identity->ca_pem);
  const auto chain = ParseCertificates(identity->certificate_pem);
  const auto key = ParsePrivateKey(identity->key_pem);
  if (!cas.ok() || !chain.ok() || !key.ok()) return nullptr;  // cannot happen: they were parsed before
  for (const Certificate& ca : *cas) X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), ca.get());
  SSL_CTX_use_certificate(context.get(), chain->front().get());
  for (size_t i = 1; i < chain->size(); ++i) SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get());
  SSL_CTX_use_PrivateKey(context.get(), key->get());
  return context;
}

void SetHost(SSL& session, const std::string& host) {
  in6_addr any;
  if (inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(&session), host.c_str());
    return;
  }
  SSL_set1_host(&session, host.c_str());
  SSL_set_tlsext_host_name(&session, host.c_str());
}

absl::Status ExplainCertificate(const std::string& host, SSL& session) {
  const Certificate theirs(SSL_get1_peer_certificate(&session));
  const long verdict = SSL_get_verify_result(&session);
  if (theirs == nullptr || verdict == X509_V_OK) return absl::OkStatus();
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return absl::FailedPreconditionError(fmt::format(
        "its certificate is for {}, expected {}, the name in --workers; give it a certificate with that name "
        "(subjectAltName), or use a name in --workers that its certificate has",
        NamesOf(*theirs), host));
  }
  const absl::Status valid = CheckValidity(*theirs);
  if (!valid.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("its certificate {}; renew the file of its --ssl-certfile ({})",
                    std::string(valid.message()), DescribeCertificate(*theirs)));
  }
  return absl::FailedPreconditionError(
      fmt::format("its certificate is {}, which no CA of --worker-ssl-ca-certs has signed ({}); expected one "
                  "of these CAs: "
                  "give the worker such a certificate, or add its CA to --worker-ssl-ca-certs",
                  DescribeCertificate(*theirs), X509_verify_cert_error_string(verdict)));
}

bool IsAlert(int reason) { return reason > SSL_AD_REASON_OFFSET; }

absl::Status SpeaksTls() {
  return absl::FailedPreconditionError(
      "it speaks TLS, expected plain text; give this coordinator --worker-ssl-certfile, "
      "--worker-ssl-keyfile and --worker-ssl-ca-certs");
}

absl::Status SpeaksNoTls(int reason) {
  return absl::FailedPreconditionError(
      fmt::format("it does not speak TLS ({}), expected TLS; start it with --ssl-certfile, --ssl-keyfile and "
                  "--ssl-ca-certs, or this coordinator without --worker-ssl-certfile",
                  ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason))));
}

absl::Status RefusesOurs(const TlsIdentity& identity, int reason) {
  return absl::FailedPreconditionError(fmt::format(
      "it refuses this coordinator's certificate ({}): --worker-ssl-certfile is {}; expected a client "
      "certificate from one of the CAs of the worker's --ssl-ca-certs: give this coordinator such a "
      "certificate",
      IsAlert(reason) ? SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET) : "it ends the connection",
      identity.description));
}

absl::Status ExplainHandshake(const TlsIdentity* identity, int ssl_error) {
  const int reason = ERR_GET_REASON(ERR_peek_error());
  if (ssl_error != SSL_ERROR_SSL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return absl::OkStatus();  // the worker has ended, or is silent
  if (IsAlert(reason)) return identity == nullptr ? SpeaksTls() : RefusesOurs(*identity, reason);
  return identity == nullptr ? absl::OkStatus() : SpeaksNoTls(reason);
}

absl::Status Shake(const std::string& host, const TlsIdentity* identity, int fd, Clock::time_point deadline) {
  const auto context = MakeContext(identity);
  if (context == nullptr) return absl::OkStatus();
  const std::unique_ptr<SSL, Deleter> session(SSL_new(context.get()));
  SetHost(*session, host);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(session.get(), kHttp2, sizeof kHttp2);
  SSL_set_fd(session.get(), fd);
  const int shaken = RunBy(deadline, *session, [&] { return SSL_connect(session.get()); });
  if (shaken != SSL_ERROR_NONE) return ExplainHandshake(identity, shaken);
  if (identity == nullptr) return SpeaksTls();
  if (const absl::Status wrong = ExplainCertificate(host, *session); !wrong.ok()) return wrong;
  // With TLS 1.3 the worker checks our certificate after the handshake has ended on this side. Then it sends
  // its HTTP/2 settings, or ends the connection, with an alert or (as gRPC does) without one.
  char first;
  const int read = RunBy(deadline, *session, [&] { return SSL_read(session.get(), &first, sizeof first); });
  if (read == SSL_ERROR_NONE || read == SSL_ERROR_WANT_READ) return absl::OkStatus();
  return RefusesOurs(*identity, ERR_GET_REASON(ERR_peek_error()));
}

}  // namespace

absl::Status ProbeTls(const std::string& address, const TlsIdentity* identity,
                      std::chrono::milliseconds patience) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const Clock::time_point deadline = Clock::now() + patience;
  // An error counts only if it is found twice: a worker that ends at this moment does not refuse anything.
  absl::Status found;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const FileDescriptor socket = ConnectBy(host, address.substr(colon + 1), deadline);
    if (socket.get() < 0) return absl::OkStatus();
    found = Shake(host, identity, socket.get(), deadline);
    ERR_clear_error();
    if (found.ok()) break;
  }
  return found;
}

}  // namespace numoe::execution
