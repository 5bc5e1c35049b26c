// Flags of a program that serves HTTP: address, keys, TLS and origins, the same for all such programs.
//
// Used by main functions only.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "common/base/flags.h"
#include "common/base/unused_flags.h"
#include "coordinator/net/http/server.h"

namespace numoe::net {

/// The options that the flags set.
struct ServerFlags {
  ServerOptions& server;
  AccessOptions& access;
  std::string& port_file;
};

void AddServerFlags(Flags& flags, ServerFlags f);
/// Records the flags that do something only with API keys, where there are none.
void FindUnusedServerFlags(const AccessOptions& access, UnusedFlags& unused);
/// INVALID_ARGUMENT: a flag was given without another one that it needs; the message names both.
absl::Status CheckServerFlags(const ServerOptions& options);
/// Checks that --port-file can be written; called before anything that takes long.
absl::Status CheckPortFile(const std::string& path);
/// Writes --port-file, which appears only when it is complete. Does nothing if `path` is empty.
absl::Status WritePort(const std::string& path, int port);

}  // namespace numoe::net
