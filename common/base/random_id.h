// RandomId: random numbers that cannot be guessed, from the kernel (getentropy(3)).
//
// They name sockets, authenticate sessions, and tell a restarted process from the one before it. Any thread
// may call it. It ends the process if the kernel has no random numbers, which happens only during boot.
#pragma once

#include <cstdint>

namespace numoe {

/// Returns a random number that is never 0, because 0 stands for "none".
uint64_t RandomId();

}  // namespace numoe
