#include "coordinator/http/server_flags.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

namespace numoe {

void AddServerFlags(Flags& flags, ServerFlags f) {
  flags.Add("host", f.server.host, "IP address to serve on");
  flags.Add("port", f.server.port, "Port to serve on; 0: any free one").Range(0, 65535);
  flags.Add("port-file", f.port_file, "File to write the port to once it serves");
  flags.Add("api-key", f.access.keys, "Accepted API keys, separated by commas; default: open")
      .CommaSeparated();
  flags.Add("api-key-file", f.access.key_file, "File with one API key a line; read again when it changes");
  flags
      .Add("max-requests-per-key", f.access.requests_per_key_max,
           "Requests of one API key at once before 429; 0: any number")
      .NonNegative();
  flags.Add("ssl-certfile", f.server.tls_certificate,
            "PEM file with the TLS certificate chain; default: no TLS");
  flags.Add("ssl-keyfile", f.server.tls_key, "PEM file with its key");
  flags
      .Add("allowed-origins", f.server.allowed_origins,
           "Origins whose web pages may ask (CORS), separated by commas; *: all, none: no others")
      .CommaSeparated();
}

absl::Status CheckServerFlags(const ServerOptions& options) {
  if (options.tls_certificate.empty() == options.tls_key.empty()) return absl::OkStatus();
  const bool has_key = options.tls_certificate.empty();
  return absl::InvalidArgumentError(fmt::format(
      "{} is given without {}: expected both, or neither for plain HTTP",
      has_key ? "--ssl-keyfile" : "--ssl-certfile", has_key ? "--ssl-certfile" : "--ssl-keyfile"));
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

}  // namespace numoe
