// Says whether two processes share a kernel: the boot id of the machine they run on.
//
// Containers of one host have the same boot id; another host never has. Thread-safe.
#pragma once

#include <string>

namespace numoe {

/// Returns "" if the kernel does not say.
std::string HostId();

}  // namespace numoe
