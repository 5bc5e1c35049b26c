// MemorySize: a number of bytes as people read it, in plans of memory and in errors about it.
//
// GiB from one GiB on and MiB below, rounded to hundredths and tenths. A pure function; any thread.
#pragma once

#include <cstdint>
#include <string>

namespace numoe {

/// "12.50 GiB", "3.0 MiB".
std::string MemorySize(uint64_t bytes);

}  // namespace numoe
