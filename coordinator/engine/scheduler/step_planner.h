// Which sequences take part in the next step, and with how many tokens: a pure function of their sizes.
//
// Decoding sequences come first (one token each). What is left of step_tokens goes to prompts: tenants take
// turns (fair_shares.h), and each gives what it gets to its running prompts in order, then to those of its
// line that are admitted while sequences and KV blocks allow. When blocks run out, the last running sequence
// in order is preempted: it gives its blocks back and waits again. Blocks that hold a prefix several
// sequences share are counted once for each; preempting one of them frees none. The plan is a printable
// value; the engine carries it out. Rules and invariants: coordinator/engine/scheduler/CONTRACT.md.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "coordinator/engine/scheduler/fair_shares.h"
#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "coordinator/engine/scheduler/tenant_lines.h"
#include "coordinator/execution/device/kv_block.h"

namespace numoe::engine {

struct PlannerLimits {
  int sequences_max = 32;  // running at once
  int step_tokens = 2048;  // in one step, decode and prompt together
  int block_tokens = execution::kKvBlockTokens;
  int mixed_prompt_tokens = 2048;  // in a step in which somebody decodes (step_pacer.h)
  int fixed_chunk_tokens =
      0;  // > 0: prompts are cut at multiples of this whatever the load (deterministic serving)
  // Admission leaves room for so many more tokens of everybody who runs. In simulations whose cache holds
  // half of what is wanted, that ends nine of ten preemptions and gives 4 % more throughput; twice as much
  // adds nothing, and more keeps the batch too small.
  int growth_tokens = 32;
  int prompt_logit_rows = limits::kPromptLogitRowsMax;
};

/// What the planner needs to know of a sequence.
struct SequenceView {
  int64_t tokens = 0;                                        // prompt and output
  int64_t tokens_max = std::numeric_limits<int64_t>::max();  // when it is over
  int64_t cached = 0;  // of a waiting one: what the prefix cache has of it
  int blocks = 0;      // held; of a waiting one: those of the prefix cache
  int shared = 0;  // of the blocks of a running one: held by others too, so that preempting it frees them not
  int idle = 0;    // of the blocks of a waiting one: held by nobody yet, so counted as free
  bool prompt_logits = false;  // wants logits for all its prompt
  int tenant = 0;
};

/// The queue: a line for each tenant. A line is looked at only as far as it is admitted, and one beyond.
struct WaitingLines {
  TenantLines lines;
  absl::FunctionRef<SequenceView(int tenant, int index)> view;
  int kept = 0;  // places for tenants that have nothing here now and are expected back
};

struct PlannedPart {
  int sequence = 0;  // index in `running`, after admission
  int tokens = 0;    // cached + tokens is cached after the step
};

struct StepPlan {
  std::vector<int> admitted;   // tenants: of each the next in its line joins the end of `running`
  std::vector<int> preempted;  // indices in `running` (never admitted ones), descending
  std::vector<PlannedPart> parts;
  std::string ToString() const;
};

/// Both in their order. REQUIRES: in `shares` those tenants contend whose prompts run or who have a line.
StepPlan PlanNextStep(const std::vector<SequenceView>& running, const WaitingLines& waiting, int free_blocks,
                      const PlannerLimits& limits, const FairShares& shares);

}  // namespace numoe::engine
