// TokenRule: what LogitRules does to one token of a row, as a plain value that can be copied to a device.
//
// A list of rules contains each token once. The bias is applied first, then the penalties, if the token is
// `seen`. A `late` token cannot be drawn while the rules forbid such tokens. LogitRules fills it; plain C++,
// for kernels.
#pragma once

#include <cstdint>

namespace numoe::execution {

struct TokenRule {
  int32_t token = 0;
  float bias = 0;
  int32_t generated = 0;  // how often it was drawn
  bool biased = false;
  bool seen = false;  // whether it is in the prompt or was drawn, so that penalties apply
  bool late = false;  // whether it cannot be drawn before min_tokens
};

}  // namespace numoe::execution
