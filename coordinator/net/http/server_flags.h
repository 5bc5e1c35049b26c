// Flags of a program that serves HTTP: address, keys, TLS and origins, in the same words wherever they are.
//
// Used by main functions only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/flags.h"
#include "coordinator/net/http/server.h"

namespace numoe::net {

/// What the flags fill in.
struct ServerFlags {
  ServerOptions& server;
  AccessOptions& access;
  std::string& port_file;
};

void AddServerFlags(Flags& flags, ServerFlags f);
/// INVALID_ARGUMENT names a flag that lacks another.
absl::Status CheckServerFlags(const ServerOptions& options);
/// --port-file: whether it can be written, which is asked before anything takes long.
absl::Status CheckPortFile(const std::string& path);
/// --port-file: the file is there once it is whole. "": none is asked for.
absl::Status WritePort(const std::string& path, int port);

}  // namespace numoe::net
