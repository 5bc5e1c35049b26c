#include "coordinator/net/http/server_flags.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace numoe::net {
namespace {

// An unset variable of a shell must not open the port; where it leaves nothing behind "=", the parser takes
// the next flag for the value.
std::string MissingIsWrong(const std::string& value) {
  const bool missing = value.find_first_not_of(" \t\r\n") == std::string::npos || value.starts_with("--");
  return missing ? "found no value, expected one (is a variable of the shell unset?)" : "";
}

void AddKeyFlags(Flags& flags, AccessOptions& access) {
  flags
      .Add("api-key-file", access.key_file,
           "File with one API key a line, as in KEY name=NAME weight=N (its name in /metrics, by default "
           "key-1, key-2 ... in the order of the file at the start, a later key gets the next number; its "
           "share beside the others, by default 1); read again when it changes: an emptied file takes all "
           "its keys away, one that is gone or broken changes nothing; default: open to everybody")
      .Check(MissingIsWrong, "FILE");
  flags
      .Add("api-key", access.keys,
           "API keys, separated by commas; every user of this host can read them in the list of processes: "
           "--api-key-file keeps them to itself")
      .CommaSeparated()
      .Check(MissingIsWrong, "KEYS");
  flags
      .Add(
          "admin-api-key-file", access.admin_key_file,
          "The same for keys that may abort anybody's requests and forget everybody's prefixes; others do so "
          "with their own")
      .Check(MissingIsWrong, "FILE");
  flags
      .Add("admin-api-key", access.admin_keys,
           "Such keys, separated by commas; to be read by every user of this host, too")
      .CommaSeparated()
      .Check(MissingIsWrong, "KEYS");
}

}  // namespace

void AddServerFlags(Flags& flags, ServerFlags f) {
  flags.Add("host", f.server.host,
            "IP address to serve on; default: 127.0.0.1, which only programs of this host reach, or with API "
            "keys 0.0.0.0, which is all addresses");
  flags.Add("port", f.server.port, "Port to serve on; 0: any free one").Range(0, 65535);
  flags.Add("port-file", f.port_file, "File to write the port to once it serves");
  AddKeyFlags(flags, f.access);
  flags
      .Add("max-requests-per-key", f.access.requests_per_key_max,
           "Requests of one API key that compute at once before 429; one with several prompts or answers "
           "counts "
           "for as many as it has, and is taken alone where it has more; 0: any number")
      .NonNegative();
  flags
      .Add("max-connections", f.server.connections_max,
           "Connections of clients at once; a new one takes the place of the one that has asked for nothing "
           "longest, or of one whose request is not whole; where all wait for answers, /health, /metrics and "
           "what else needs no key is answered, "
           "all else is 503")
      .Range(1, 60'000);
  flags.Add("ssl-certfile", f.server.tls_certificate,
            "PEM file with the TLS certificate chain; default: no TLS");
  flags.Add("ssl-keyfile", f.server.tls_key, "PEM file with its key");
  flags
      .Add(
          "allowed-origins", f.server.allowed_origins,
          "Origins whose web pages may ask (CORS), such as https://chat.example.com, separated by commas; *: "
          "all, none: no others; requests of other pages are refused; default: the server's own page and "
          "programs of the user's host, or with API keys all")
      .CommaSeparated();
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
  const std::string tried = path + ".tmp";  // as WritePort writes it
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
