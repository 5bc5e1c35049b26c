// Caller: who has sent a request, as far as its API key tells.
//
// Access creates it when it accepts a key; the request carries it; handlers read it to keep the data of
// different keys apart. It does not contain the key itself. Value.
#pragma once

#include <string>

namespace numoe::net {

struct Caller {
  int tenant = 0;  // the number of the key, at least 1, constant while the key is known; 0: no keys are used
  int weight = 1;  // the key's share of the engine relative to other keys
  std::string name;    // the key's name for metrics and the log; "" if no keys are used
  bool admin = false;  // may change what belongs to other keys; true for everybody if no keys are used
};

}  // namespace numoe::net
