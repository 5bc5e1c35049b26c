// ProbeTls: finds out why a TLS connection to a worker fails; gRPC only says that it failed.
//
// It repeats the handshake up to twice, as a client that continues where gRPC gives up, and reports what it
// found, what was expected and what to do. It blocks for at most `patience` plus the time in which the host's
// name is looked up. SIGPIPE must be ignored (common/base/signals.h). Any thread.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "common/transport/tls_identity.h"

namespace numoe::execution {

/// `address` is HOST:PORT; `identity` identifies this coordinator, or is null if it speaks plain text.
/// Returns FAILED_PRECONDITION if an operator has to change something; the message says what, and does not
/// contain the worker's name. Returns OK if nothing is wrong with TLS, or if nothing answers.
absl::Status ProbeTls(const std::string& address, const TlsIdentity* identity,
                      std::chrono::milliseconds patience);

}  // namespace numoe::execution
