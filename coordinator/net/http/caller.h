// Caller: whose a request is, as far as its API key tells.
//
// Made by Access when a key is let in, carried by the request, read by handlers that keep what belongs to one
// key apart from the others. Holds nothing of the key itself. Value.
#pragma once

#include <string>

namespace numoe::net {

struct Caller {
  int tenant = 0;      // its key's number, from 1 on, for as long as the key is known; 0: there are no keys
  int weight = 1;      // its key's share of the engine beside the other keys'
  std::string name;    // its key's name, for metrics and the log; "" where there are no keys
  bool admin = false;  // it may change what is others'; everybody may where there are no keys
};

}  // namespace numoe::net
