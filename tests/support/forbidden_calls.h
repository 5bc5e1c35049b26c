// Runs a function as in a container whose seccomp profile forbids a system call.
//
// The filter applies to one thread and the threads that it starts, not to the rest of the test process. The
// call fails with EPERM, as with container runtimes.
#pragma once

#include <functional>

namespace numoe {

/// Runs `body` on a thread for which system call `number` fails with EPERM.
void WithoutSystemCall(int number, const std::function<void()>& body);

}  // namespace numoe
