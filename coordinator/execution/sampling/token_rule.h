// TokenRule: what LogitRules do to one token of a row, as a plain value that can be copied to a device.
//
// A list of them names each token once. In order: the bias, then the penalties, if the token is `seen`; a
// `late` one cannot come while the rules forbid such tokens. Filled by LogitRules; plain C++, for kernels.
#pragma once

#include <cstdint>

namespace numoe::execution {

struct TokenRule {
  int32_t token = 0;
  float bias = 0;
  int32_t generated = 0;  // times that it was drawn
  bool biased = false;
  bool seen = false;  // in the prompt or drawn: penalties apply
  bool late = false;  // may not come before min_tokens
};

}  // namespace numoe::execution
