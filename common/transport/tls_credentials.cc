#include "common/transport/tls_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <vector>

#include "common/base/check.h"

namespace numoe {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kLookEverySeconds = 1;  // the interval of WatchedFile

}  // namespace

std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files) {
  NUMOE_CHECK(!files.certificate.empty() && !files.key.empty() && !files.ca_certs.empty());
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.ca_certs, kLookEverySeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsIdentity& identity) {
  NUMOE_CHECK(!identity.certificate_pem.empty() && !identity.key_pem.empty() && !identity.ca_pem.empty());
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      identity.ca_pem, std::vector<tls::IdentityKeyCertPair>{{identity.key_pem, identity.certificate_pem}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return tls::TlsCredentials(options);
}

}  // namespace numoe
