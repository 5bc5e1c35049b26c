// gRPC's credentials of a TlsIdentity, for both ends: mutual TLS, at least version 1.2.
//
// A server watches its files by itself and takes renewed ones for the connections that come after; it refuses
// clients without TLS and clients without a certificate of its CAs. A channel lives as long as a session, so
// it is made of what is valid when it begins; it refuses a server whose certificate is of no CA of ours or
// not for the name that it was called by. Any thread.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "common/transport/tls_identity.h"

namespace numoe {

/// REQUIRES: ReadTlsIdentity of the files was OK.
std::shared_ptr<grpc::ServerCredentials> TlsServerCredentials(const TlsFiles& files);
std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsIdentity& identity);

}  // namespace numoe
