// TokenConstraint: which tokens a sequence may say next.
//
// A sequence that has one asks it once before each of its tokens is drawn, and tells it which one it was. It
// belongs to its sequence and is used by the engine's thread alone. Every token that its mask has must lead
// on: a sequence that may say nothing cannot end.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Token t may come if bit t % 64 of word t / 64 is set; empty: any may. Valid until the next call. An
  /// error ends the request.
  virtual absl::StatusOr<absl::Span<const uint64_t>> Mask() = 0;
  /// REQUIRES: the last mask allowed it.
  virtual void Accept(TokenId token) = 0;
  /// The model's end tokens end the text even where the request ignores them: nothing follows what is
  /// complete.
  virtual bool ends_text() const { return true; }
};

}  // namespace numoe::execution
