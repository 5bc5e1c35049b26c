// Connected Unix sockets for tests of what goes over them.
//
// The caller owns both ends, which are closed with them. Failures are reported through GoogleTest.
#pragma once

#include <sys/socket.h>

#include <array>

#include "common/base/file_descriptor.h"
#include "gtest/gtest.h"

namespace numoe {

inline std::array<FileDescriptor, 2> MakeSockets() {
  int sockets[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  return {FileDescriptor(sockets[0]), FileDescriptor(sockets[1])};
}

}  // namespace numoe
