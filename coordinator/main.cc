// numoe-coordinator: loads a model, finds its expert workers and serves the OpenAI API until SIGTERM.
#include <cstdio>

#include "common/base/check.h"
#include "common/base/core_dumps.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "common/transport/grpc_log.h"
#include "coordinator/startup/measured_plan.h"
#include "coordinator/startup/serving_options.h"
#include "coordinator/startup/serving_stack.h"

namespace numoe {
namespace {

int Fail(const absl::Status& status) {
  NUMOE_CHECK(!status.ok());
  std::fprintf(stderr, "numoe-coordinator: %s\n", std::string(status.message()).c_str());
  return 2;
}

// Prints the plan of --plan. RESOURCE_EXHAUSTED: the model does not fit into this machine.
absl::Status PrintPlan(const startup::ServingOptions& options) {
  ASSIGN_OR_RETURN(const startup::CapacityPlan plan, startup::PlanServing(options));
  for (const std::string& line : plan.Table()) std::printf("%s\n", line.c_str());
  return plan.Check();
}

absl::Status Run(const startup::ServingOptions& options) {
  const absl::Status no_dumps = options.core_dumps ? absl::OkStatus() : ForbidCoreDumps();
  BlockSignals();
  RaiseDescriptorLimit();
  RETURN_IF_ERROR(SetupLogging(options.log));
  for (const std::string& note : options.notes) LogWarning("{}", note);
  if (!no_dumps.ok()) LogWarning("{}", std::string(no_dumps.message()));
  RouteGrpcLog();
  if (options.plan) return PrintPlan(options);
  ASSIGN_OR_RETURN(const auto stack, startup::ServingStack::Create(options));
  stack->Serve();
  return absl::OkStatus();
}

}  // namespace
}  // namespace numoe

int main(int argc, char** argv) {
  const auto command = numoe::startup::ReadServingOptions(argc, argv);
  if (!command.ok()) return numoe::Fail(command.status());
  if (const int* const code = std::get_if<int>(&*command)) return *code;
  const absl::Status status = numoe::Run(std::get<numoe::startup::ServingOptions>(*command));
  return status.ok() ? 0 : numoe::Fail(status);
}
