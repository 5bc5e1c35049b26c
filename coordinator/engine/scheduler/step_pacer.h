// StepPacer: how many prompt tokens may join a step without making those who decode wait too long.
//
// A step with prompt tokens takes longer than one that only decodes, and everybody who decodes waits for it.
// The pacer measures both kinds and allows as many prompt tokens as keep a mixed step within `stretch_max`
// times a plain one; what a prompt token costs is learnt from the last steps, more readily upwards than
// downwards. At least kLeastTokens always go, so that a prompt comes to its end. Sarathi-Serve (OSDI 2024)
// calls such steps stall-free; there the budget is a constant that somebody measured. Engine thread only.
#pragma once

namespace numoe::engine {

class StepPacer {
 public:
  /// `stretch_max` 0: no limit.
  explicit StepPacer(double stretch_max) : stretch_max_(stretch_max) {}

  /// A step of `decodes` decode tokens and `prompt_tokens` others took `seconds`.
  void Record(int decodes, int prompt_tokens, double seconds);
  /// Prompt tokens for the next step, in which `decodes` sequences decode; at most `most`. 0 now and then,
  /// when a plain step has to be measured.
  int PromptTokens(int decodes, int most) const;

 private:
  static constexpr int kFirstTokens = 32;  // before anything is known
  static constexpr int kLeastTokens = 8;   // a prompt of 4096 is through in 512 steps
  static constexpr double kAim = 0.9;  // a prompt's tokens cost ever more, and what was learnt is of the past
  static constexpr int kMixedStepsMax =
      64;  // then a plain one: what decoding takes changes with its contexts

  const double stretch_max_;
  double plain_seconds_ = 0;  // of a step that only decodes; 0: unknown
  double token_seconds_ = 0;  // what one more prompt token costs; 0: unknown
  int mixed_steps_ = 0;       // since the last plain one
};

}  // namespace numoe::engine
