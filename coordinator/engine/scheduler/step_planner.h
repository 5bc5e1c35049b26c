// Plans which sequences take part in the next step, and with how many tokens: a pure function of their sizes.
//
// Decoding sequences come first, with one token each. The rest of step_tokens goes to prompts: tenants take
// turns (fair_shares.h), and a tenant's tokens go to its running prompts in order, then to sequences of its
// line, which are admitted while the limits of sequences and KV blocks allow it. When there are too few
// blocks, the last running sequence in order is preempted: it releases its blocks and waits again. Blocks of
// a prefix that several sequences share are counted for each of them; preempting one of these sequences does
// not free those blocks. The plan is a printable value, which the scheduler carries out. Rules and
// invariants: coordinator/engine/scheduler/CONTRACT.md.
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
  int sequences_max = 32;  // running at the same time
  int step_tokens = 2048;  // in one step, decode and prompt tokens together
  int block_tokens = execution::kKvBlockTokens;
  int mixed_prompt_tokens = 2048;  // in a step in which sequences decode (step_pacer.h)
  int fixed_chunk_tokens = 0;  // if above 0, prompts are always cut at multiples of this, whatever the load
                               // (deterministic serving)
  // Admission leaves room for this number of further tokens of every running sequence. In simulations whose
  // cache has half of the blocks that are needed, that avoids nine of ten preemptions and gives 4 % more
  // throughput; twice the number adds nothing, and a larger one keeps the batch too small.
  int growth_tokens = 32;
  int prompt_logit_rows = limits::kPromptLogitRowsMax;
};

/// What the planner needs to know about a sequence.
struct SequenceView {
  int64_t tokens = 0;                                        // prompt and output
  int64_t tokens_max = std::numeric_limits<int64_t>::max();  // at which it ends
  int64_t cached = 0;  // tokens with rows; if it waits, those found in the prefix cache
  int blocks = 0;      // held; if it waits, those found in the prefix cache
  int shared = 0;      // if it runs: its blocks that others hold, too; preempting it does not free them
  int idle = 0;        // if it waits: the found blocks that are idle, and therefore counted as free
  bool prompt_logits = false;  // needs logits for all its prompt
  int tenant = 0;
};

/// The queue: a line for each tenant. The planner views a line's sequences up to the first that is not
/// admitted.
struct WaitingLines {
  TenantLines lines;
  absl::FunctionRef<SequenceView(int tenant, int index)> view;
  int kept = 0;  // slots kept for tenants that have no sequence now but are expected back (fair_slots.h)
};

struct PlannedPart {
  int sequence = 0;  // index in `running`, after admission
  int tokens = 0;    // after the step, cached + tokens are cached
};

struct StepPlan {
  std::vector<int> admitted;   // the tenants whose next waiting sequence is appended to `running`, in order
  std::vector<int> preempted;  // indices in `running` before admission, descending
  std::vector<PlannedPart> parts;
  std::string ToString() const;
};

/// Returns the plan. REQUIRES: `running` and the lines are in order, and the tenants with running prompts or
/// with a line are active in `shares`.
StepPlan PlanNextStep(const std::vector<SequenceView>& running, const WaitingLines& waiting, int free_blocks,
                      const PlannerLimits& limits, const FairShares& shares);

}  // namespace numoe::engine
