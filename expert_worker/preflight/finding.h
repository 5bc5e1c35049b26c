// Finding: one thing that an operator should know of a machine, good or not.
//
// A value, no owner. `check` names it in metrics and documents and never changes; `what` says what was found;
// `advice` says what to do, and is empty when good.
#pragma once

#include <string>

namespace numoe::worker {

struct Finding {
  std::string check;
  bool good = true;
  std::string what;
  std::string advice;
};

}  // namespace numoe::worker
