// MemorySize: a number of bytes as people read it, in plans of memory and in errors about it.
//
// In GiB with two decimals at one GiB or more, otherwise in MiB with one decimal. A pure function; any
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace numoe {

/// Returns, for example, "12.50 GiB" or "3.0 MiB".
std::string MemorySize(uint64_t bytes);

}  // namespace numoe
