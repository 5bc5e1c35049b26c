// numoe-expert-worker: serves its slice of a model's experts until SIGTERM, or supervises workers that do so.
#include <cstdio>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "common/transport/grpc_log.h"
#include "expert_worker/startup/fleet.h"
#include "expert_worker/startup/preflight_report.h"
#include "expert_worker/startup/worker_endpoints.h"
#include "expert_worker/startup/worker_options.h"
#include "expert_worker/startup/worker_stack.h"
#include "expert_worker/supervisor/child_process.h"

namespace numoe::worker {
namespace {

int Fail(const absl::Status& status, int exit_code = 2) {
  NUMOE_CHECK(!status.ok() && exit_code != 0)
      << "exit code 0 tells a supervisor that the process was asked to end";
  const std::string line(status.message());
  const bool final = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  if (!ReportToSupervisor(line, final)) std::fprintf(stderr, "numoe-expert-worker: %s\n", line.c_str());
  return exit_code;
}

absl::StatusOr<int> Run(const WorkerOptions& options, int argc, char** argv) {
  RETURN_IF_ERROR(SetupLogging(options.log));
  for (const std::string& note : options.notes) LogWarning("{}", note);
  if (options.preflight) {
    ASSIGN_OR_RETURN(const PreflightReport report, ReportPreflight(options));
    std::fputs(report.text.c_str(), stdout);
    return report.good ? 0 : 1;
  }
  const absl::Status no_dumps = options.core_dumps ? absl::OkStatus() : ForbidCoreDumps();
  if (!no_dumps.ok()) LogWarning("{}", std::string(no_dumps.message()));
  BlockSignals();
  RouteGrpcLog();
  if (options.fleet) {
    RETURN_IF_ERROR(RunFleet(options, {argv + 1, argv + argc}));
  } else {
    ASSIGN_OR_RETURN(const auto worker, WorkerStack::Create(options));
    worker->Serve();
  }
  return 0;
}

}  // namespace
}  // namespace numoe::worker

int main(int argc, char** argv) {
  const auto command = numoe::worker::ReadWorkerOptions(argc, argv);
  if (!command.ok()) return numoe::worker::Fail(command.status());
  if (const int* const code = std::get_if<int>(&*command)) return *code;
  if (const auto* const probe = std::get_if<numoe::worker::ProbeRequest>(&*command)) {
    const absl::Status healthy = numoe::worker::AskHealth(probe->address);
    return healthy.ok() ? 0 : numoe::worker::Fail(healthy, 1);
  }
  const absl::StatusOr<int> code =
      numoe::worker::Run(std::get<numoe::worker::WorkerOptions>(*command), argc, argv);
  return code.ok() ? *code : numoe::worker::Fail(code.status());
}
