// RandomId: numbers that nobody guesses, from the kernel (getentropy(3)).
//
// They name sockets, prove sessions, and tell a process from the one that was there before it. Any thread.
// Ends the process where the kernel has none to give, which it does not have before it has booted.
#pragma once

#include <cstdint>

namespace numoe {

/// Never 0, which stands for "none".
uint64_t RandomId();

}  // namespace numoe
