#include "common/transport/grpc_log.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include <chrono>
#include <map>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSilence(10);
constexpr size_t kLinesKept = 64;  // only a few different lines occur at a time

// Returns whether the same line was not written recently.
bool IsNew(const std::string& line) {
  static Mutex mutex;
  // Never destroyed: threads of gRPC may still log while the process ends.
  static auto* const said ABSL_PT_GUARDED_BY(mutex) = new std::map<std::string, Clock::time_point>;
  const MutexLock lock(mutex);
  const Clock::time_point now = Clock::now();
  if (said->size() >= kLinesKept) said->clear();
  const auto [found, first] = said->emplace(line, now);
  if (!first && now - found->second < kSilence) return false;
  found->second = now;
  return true;
}

void Write(gpr_log_func_args* arguments) {
  const std::string line = ExplainGrpcLine(arguments->message);
  if (!IsNew(line)) return;
  if (arguments->severity == GPR_LOG_SEVERITY_ERROR) {
    LogWarning("{}", line);
  } else {
    LogDebug("{}", line);
  }
}

}  // namespace

void RouteGrpcLog() { gpr_set_log_function(Write); }

std::string ExplainGrpcLine(std::string_view line) {
  const auto has = [line](std::string_view words) { return line.find(words) != std::string_view::npos; };
  if (has("peer did not return a certificate"))
    return "TLS: a client without a certificate was refused; expected one of --ssl-ca-certs";
  if (has("wrong version number") || has("http request"))
    return "TLS: a peer without TLS was refused; give a coordinator --worker-ssl-certfile, "
           "--worker-ssl-keyfile and --worker-ssl-ca-certs";
  if (has("certificate verify failed"))
    return "TLS: a peer was refused because its certificate is not from one of our CAs, or is not valid now";
  if (has("SSL alert number"))
    return fmt::format("TLS: a peer refused our certificate, or did not send its own: {}", line);
  return fmt::format("gRPC: {}", line);
}

}  // namespace numoe
