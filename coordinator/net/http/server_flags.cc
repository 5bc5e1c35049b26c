#include "coordinator/net/http/server_flags.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace numoe::net {
namespace {

// Returns what is wrong if a value is missing, as in --api-key-file=$UNSET: that must not open the port to
// everybody. If nothing follows "=", the parser takes the next flag as the value, so a flag is wrong, too.
std::string MissingIsWrong(const std::string& value) {
  const bool missing = value.find_first_not_of(" \t\r\n") == std::string::npos || value.starts_with("--");
  return missing ? "found no value, expected one (is a variable of the shell unset?)" : "";
}

void AddKeyFlags(Flags& flags, AccessOptions& access) {
  flags
      .Add("api-key-file", access.key_file,
           "File with one API key per line, as in KEY name=NAME weight=N. NAME is the key's name in /metrics "
           "(default: key-1, key-2, ... in the order of the file; a key added later gets the next number), N "
           "its share of the engine relative to other keys (default: 1). The file is read again when it "
           "changes: emptying it revokes all its keys, a missing or malformed file changes nothing. Default: "
           "no key is needed")
      .Check(MissingIsWrong, "FILE");
  flags
      .Add("api-key", access.keys,
           "API keys, separated by commas. Every user of this host can read them in the list of processes, "
           "so prefer --api-key-file")
      .CommaSeparated()
      .Check(MissingIsWrong, "KEYS");
  flags
      .Add("admin-api-key-file", access.admin_key_file,
           "File with administrators' API keys, in the format of --api-key-file. An administrator may abort "
           "all requests and clear the prefix cache of all keys, everybody else only their own")
      .Check(MissingIsWrong, "FILE");
  flags
      .Add("admin-api-key", access.admin_keys,
           "Administrators' API keys, separated by commas. Every user of this host can read them in the list "
           "of processes, so prefer --admin-api-key-file")
      .CommaSeparated()
      .Check(MissingIsWrong, "KEYS");
}

}  // namespace

void AddServerFlags(Flags& flags, ServerFlags f) {
  flags.Add("host", f.server.host,
            "IP address to serve on. Default: 127.0.0.1, which only programs on this host can reach; with "
            "API keys 0.0.0.0, which is all addresses");
  flags.Add("port", f.server.port, "TCP port to serve on; 0: any free port (see --port-file)")
      .Range(0, 65535);
  flags.Add("port-file", f.port_file,
            "File that the port number is written to once the server is ready; useful with --port=0");
  AddKeyFlags(flags, f.access);
  flags
      .Add("max-requests-per-key", f.access.requests_per_key_max,
           "Maximum number of unfinished requests of one API key; further ones are refused with status 429. "
           "A coordinator counts a request with several prompts or answers as that many, and accepts one "
           "that exceeds the limit by itself while its key has no other; 0: no limit")
      .NonNegative();
  flags
      .Add("max-connections", f.server.connections_max,
           "Maximum number of client connections. A new one beyond it replaces the connection that has been "
           "idle longest, or else the one that has been sending its request longest; if all wait for "
           "answers, a new one can use only what needs no API key (/health, /metrics, ...) and gets status "
           "503 for the rest")
      .Range(1, 60'000);
  flags.Add("ssl-certfile", f.server.tls_certificate,
            "PEM file with the TLS certificate chain of the server; needs --ssl-keyfile. Default: no TLS");
  flags.Add("ssl-keyfile", f.server.tls_key, "PEM file with the private key of --ssl-certfile");
  flags
      .Add("allowed-origins", f.server.allowed_origins,
           "Origins of web pages that may send requests (CORS), such as https://chat.example.com, separated "
           "by commas; \"*\" allows all, \"none\" only the server's own page. Requests from other pages are "
           "refused. "
           "Default: all with API keys; otherwise the server's own page, and pages and programs on the "
           "user's own host")
      .CommaSeparated();
}

void FindUnusedServerFlags(const AccessOptions& access, UnusedFlags& unused) {
  if (!access.keys.empty() || !access.key_file.empty()) return;
  if (access.requests_per_key_max == 0) return;
  unused.Add(
      "max-requests-per-key",
      "does nothing without API keys, because it counts the requests of each key; add --api-key-file, or "
      "leave the flag out");
}

absl::Status CheckServerFlags(const ServerOptions& options) {
  if (options.tls_certificate.empty() == options.tls_key.empty()) return absl::OkStatus();
  const bool has_key = options.tls_certificate.empty();
  return absl::InvalidArgumentError(fmt::format(
      "{} is given without {}: expected both, or neither for plain HTTP",
      has_key ? "--ssl-keyfile" : "--ssl-certfile", has_key ? "--ssl-certfile" : "--ssl-keyfile"));
}

absl::Status CheckPortFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  const std::string tried = path + ".tmp";  // the name that WritePort uses
  if (folder || !std::ofstream(tried)) {
    return absl::InvalidArgumentError(fmt::format(
        "--port-file: cannot write {}: {}; expected a file in a folder that this user may write to", path,
        folder ? "it is a folder" : std::strerror(errno)));
  }
  std::filesystem::remove(tried, error);
  return absl::OkStatus();
}

absl::Status WritePort(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path + ".tmp");
  file << port << "\n";
  file.close();
  if (!file || std::rename((path + ".tmp").c_str(), path.c_str()) != 0)
    return absl::InvalidArgumentError("--port-file: cannot write " + path);
  return absl::OkStatus();
}

}  // namespace numoe::net
