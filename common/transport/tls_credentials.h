// gRPC's credentials for a TlsIdentity, for both ends: mutual TLS, version 1.2 or later.
//
// A server watches its files by itself and uses renewed ones for later connections. It refuses clients
// without TLS and clients without a certificate of its CAs. A channel exists as long as a session, so it uses
// the files that are valid when it begins. It refuses a server whose certificate is not from one of our CAs,
// or not for the name by which it was called. Any thread.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/transport/tls_identity.h"

namespace numoe {

/// REQUIRES: ReadTlsIdentity returned OK for the files.
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsIdentity& identity);

}  // namespace numoe
