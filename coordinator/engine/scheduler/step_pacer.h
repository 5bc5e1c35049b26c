// StepPacer: limits the prompt tokens of a step so that sequences that decode do not wait too long.
//
// A mixed step, with prompt tokens, takes longer than a plain step, which only decodes, and every sequence
// that decodes waits for it. The pacer measures both kinds, and allows as many prompt tokens as keep a mixed
// step within `stretch_max` times a plain one. It estimates the cost of a prompt token from the last steps,
// and raises the estimate faster than it lowers it. A mixed step may always have at least kLeastTokens, so
// that every prompt is finished. Sarathi-Serve (OSDI 2024) calls such steps stall-free; there the budget is a
// constant that was measured in advance. Engine thread only.
#pragma once

namespace numoe::engine {

class StepPacer {
 public:
  /// `stretch_max`: 0 means no limit.
  explicit StepPacer(double stretch_max) : stretch_max_(stretch_max) {}

  /// Records that a step of `decodes` decode tokens and `prompt_tokens` prompt tokens took `seconds`.
  void Record(int decodes, int prompt_tokens, double seconds);
  /// Returns the number of prompt tokens for the next step, in which `decodes` sequences decode; at most
  /// `most`. It is 0 from time to time, when a plain step has to be measured.
  int PromptTokens(int decodes, int most) const;

 private:
  static constexpr int kFirstTokens = 32;  // before the first measurement
  static constexpr int kLeastTokens = 8;   // a prompt of 4096 tokens takes at most 512 steps
  static constexpr double kAim = 0.9;      // a margin: later tokens of a prompt cost more than measured
  static constexpr int kMixedStepsMax =
      64;  // then a plain step, because the time of decoding changes with the contexts

  const double stretch_max_;
  double plain_seconds_ = 0;  // of a plain step; 0 if unknown
  double token_seconds_ = 0;  // of one more prompt token; 0 if unknown
  int mixed_steps_ = 0;       // since the last plain step
};

}  // namespace numoe::engine
