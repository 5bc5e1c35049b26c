// Why TLS to a worker cannot be had: gRPC only says that a connection failed.
//
// Does the handshake twice more by itself, as a client that goes on where gRPC gives up, and says what it
// found, what was expected and what to do. Blocks for at most `patience`, and what the
// name of the host takes to be looked up. SIGPIPE is ignored
// (common/base/signals.h). Any thread.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "common/transport/tls_identity.h"

namespace numoe::execution {

/// `address`: HOST:PORT; `identity`: ours, or null where we speak plain text. FAILED_PRECONDITION: somebody
/// has to change something; says what of the worker, without its name. OK: nothing is wrong with TLS, or
/// nobody answers.
absl::Status ProbeTls(const std::string& address, const TlsIdentity* identity,
                      std::chrono::milliseconds patience);

}  // namespace numoe::execution
