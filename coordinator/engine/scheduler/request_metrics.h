// RecordAnswer: adds the sizes and times of a request to the histograms of requests.
//
// Call it for a sequence that has ended. It records the times of prefill and decode only if the sequence has
// generated a token; otherwise only its sizes. Any thread.
#pragma once

#include "common/observe/metrics.h"
#include "coordinator/engine/scheduler/sequence.h"

namespace numoe::engine {

void RecordAnswer(const Sequence& s, Metrics& metrics);

}  // namespace numoe::engine
