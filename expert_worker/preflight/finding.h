// Finding: one fact that an operator should know about a machine, good or not.
//
// A plain value. `check` is the name of the check in metrics and documents and never changes. `what` says
// what was found. `advice` says what to do, and is empty if the finding is good.
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
