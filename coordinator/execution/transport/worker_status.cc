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
    return absl::FailedPreconditionError(fmt::format(
        "it is slice {} of {}, expected one of {}, the number of addresses in --workers; list every "
        "worker there, or start all of them with --worker-count={}",
        found.worker_index, found.worker_count, count, count));
  }
  if (found.worker_index < 0 || found.worker_index >= count) {
    return absl::FailedPreconditionError(fmt::format(
        "it is slice {} of {}, expected 0 to {}; give it a --worker-index below its --worker-count",
        found.worker_index, count, count - 1));
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerStatus& other = workers[i];
    // This includes workers that are down and its own last session: an answer that began with them continues.
    if (const std::string& known = other.identity.numeric_formats;
        !known.empty() && known != found.numeric_formats) {
      return absl::FailedPreconditionError(fmt::format(
          "it computes with {}, expected {} as {} does or did for the answers that are being generated; "
          "start it "
          "like the others, or all of them like this one, which is accepted when those answers have ended",
          absl::CHexEscape(found.numeric_formats), absl::CHexEscape(known),
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
                      "worker a different --worker-index",
                      found.worker_index, count, other.address));
    }
  }
  return absl::OkStatus();
}

}  // namespace numoe::execution
