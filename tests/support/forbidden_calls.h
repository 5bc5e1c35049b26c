// Runs something as in a container whose seccomp profile forbids a system call.
//
// The filter holds for one thread and those it starts, so the test process stays as it was. The call fails
// with EPERM, as container runtimes have it.
#pragma once

#include <functional>

namespace numoe {

/// Runs `body` on a thread for which system call `number` fails with EPERM.
void WithoutSystemCall(int number, const std::function<void()>& body);

}  // namespace numoe
