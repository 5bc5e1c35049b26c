#include "coordinator/execution/transport/worker_status.h"

#include <fmt/format.h>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace numoe::execution {
namespace {

const char* SliceName(bool by_expert) { return by_expert ? "expert" : "intermediate"; }

}  // namespace

absl::Status CheckFits(const WorkerIdentity& found, size_t index, absl::Span<const WorkerStatus> workers) {
  NUMOE_CHECK_LT(index, workers.size());
  const auto count = static_cast<int>(workers.size());
  if (found.worker_count != count) {
    return absl::FailedPreconditionError(
        fmt::format("it is slice {} of {}, expected one of {}, as many as --workers names; name as many "
                    "there as run, or start all of them with --worker-count={}",
                    found.worker_index, found.worker_count, count, count));
  }
  if (found.worker_index < 0 || found.worker_index >= count) {
    return absl::FailedPreconditionError(fmt::format(
        "it is slice {} of {}, expected 0 to {}; give it a --worker-index below its --worker-count",
        found.worker_index, count, count - 1));
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerStatus& other = workers[i];
    // Also of those that are down, and of its own last session: an answer that began with it goes on.
    if (const std::string& known = other.identity.arithmetic; !known.empty() && known != found.arithmetic) {
      return absl::FailedPreconditionError(fmt::format(
          "it computes with {}, expected {} as {} does or did in the answers that are in the making; start "
          "it "
          "as the others, or all of them as this one, which is taken when those answers have ended",
          absl::CHexEscape(found.arithmetic), absl::CHexEscape(known),
          i == index ? "it" : "worker " + other.address));
    }
    if (i == index || !other.up) continue;
    if (other.identity.slice_by_expert != found.slice_by_expert) {
      return absl::FailedPreconditionError(fmt::format(
          "it was started with --slice={}, expected --slice={} as worker {} has; give all workers the same",
          SliceName(found.slice_by_expert), SliceName(other.identity.slice_by_expert), other.address));
    }
    if (other.identity.worker_index == found.worker_index) {
      return absl::FailedPreconditionError(
          fmt::format("it is slice {} of {}, which worker {} serves already, expected another one; give each "
                      "worker a --worker-index of its own",
                      found.worker_index, count, other.address));
    }
  }
  return absl::OkStatus();
}

}  // namespace numoe::execution
