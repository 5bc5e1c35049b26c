// TokenConstraint: decides which tokens may follow in a sequence.
//
// It is asked for a mask once before each token of its sequence is drawn, and is then told the token. It
// belongs to its sequence, and only the engine thread uses it. After every token that its mask allows there
// must be an allowed next token: a sequence without one could not end.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace numoe::execution {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Returns the mask for the next token: token t is allowed if bit t % 64 of word t / 64 is set, and all are
  /// allowed if the mask is empty. Valid until the next call. An error ends the request.
  virtual absl::StatusOr<absl::Span<const uint64_t>> Mask() = 0;
  /// Records the token that was drawn. REQUIRES: the last mask allowed it.
  virtual void Accept(TokenId token) = 0;
  /// Returns whether the model's end tokens end the text even if the request ignores them, because nothing
  /// may follow a complete text.
  virtual bool ends_text() const { return true; }
};

}  // namespace numoe::execution
