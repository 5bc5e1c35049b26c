// RecordAnswer: what was asked for and what came of it, in the histograms of requests.
//
// For a sequence that has ended. Times are of its parts as far as it came: one that was never taken up has
// none, and one without a token only its sizes. Any thread.
#pragma once

#include "common/observe/metrics.h"
#include "coordinator/engine/scheduler/sequence.h"

namespace numoe::engine {

void RecordAnswer(const Sequence& s, Metrics& metrics);

}  // namespace numoe::engine
