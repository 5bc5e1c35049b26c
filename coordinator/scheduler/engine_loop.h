// EngineLoop: the engine thread. Commands in, steps, events out.
//
// Implements Engine (engine.h) over a Model and an ExpertBackend, which it uses from its own thread only and
// which must outlive it. The destructor ends every sequence with kCancelled and joins the thread. The state
// machine is in coordinator/scheduler/CONTRACT.md.
#pragma once

#include <memory>
#include <vector>

#include "common/observe/metrics.h"
#include "coordinator/model/model.h"
#include "coordinator/scheduler/engine.h"
#include "coordinator/scheduler/step_planner.h"
#include "coordinator/transport/expert_backend.h"

namespace numoe {

struct EngineOptions {
  PlannerLimits limits;
  int kv_blocks = 0;          // as the model was loaded with
  int queue_max = 256;        // waiting sequences
  int64_t max_model_len = 0;  // tokens, prompt and output
  int vocab = 0;              // ids from here on are never sampled
  std::vector<TokenId> eos_token_ids;
  int64_t worker_deadline_ms = 60'000;  // how long requests wait for a lost worker
  bool deterministic = false;
  bool prefix_caching = true;
  double decode_stretch_max =
      2;  // a step with prompt tokens against one without, where somebody decodes; 0: any
};

std::unique_ptr<Engine> StartEngine(Model& model, ExpertBackend& experts, const EngineOptions& options,
                                    Metrics& metrics);

}  // namespace numoe
