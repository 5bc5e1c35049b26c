#include "coordinator/startup/host_share.h"

#include <optional>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe::startup {
namespace {

// Returns nullopt if the plan is for a GPU.
absl::StatusOr<std::optional<HostMemory>> LookFor(const std::string& folder, CapacityPlan& plan) {
  std::optional<HostMemory> host;
  NUMOE_CHECK(!plan.gpu || plan.grammars == 0) << "grammars are cached in the host's memory";
  if (plan.gpu) return host;
  ASSIGN_OR_RETURN(host, HostMemory::ReadReservations(folder));
  plan.available = host->available();
  plan.others = host->Others();
  return host;
}

}  // namespace

absl::Status FindHostShare(const std::string& folder, CapacityPlan& plan) {
  return LookFor(folder, plan).status();
}

absl::StatusOr<MemoryReservation> ReserveHostShare(const std::string& folder, const std::string& program,
                                                   CapacityPlan& plan) {
  ASSIGN_OR_RETURN(const std::optional<HostMemory> host, LookFor(folder, plan));
  for (const std::string& line : plan.Table()) LogInfo("{}", line);
  RETURN_IF_ERROR(plan.Check());
  if (!host) return MemoryReservation();
  return host->Reserve(program, plan.total(), PromisedMemory::kPrivate);
}

}  // namespace numoe::startup
