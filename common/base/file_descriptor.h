// FileDescriptor: owns one descriptor of a file or a socket, and closes it when destroyed.
//
// Move-only; -1 owns nothing. What a call like open() or socket() returned can be handed over as it is: check
// get() for a failure afterwards. One thread at a time uses an object; several threads may use the descriptor
// itself.
#pragma once

#include <unistd.h>

#include <utility>

#include "common/base/check.h"

namespace numoe {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) { NUMOE_DCHECK_GE(fd, -1); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace numoe
