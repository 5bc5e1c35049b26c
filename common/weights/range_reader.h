// RangeReader: one thread's reads of file ranges, several in flight at a time.
//
// Begin starts a read, Await returns the next that is complete, in any order. io_uring where the kernel lets
// this process use it (containers often do not: a real call decides, not a version), else helper threads that
// call pread. A read that the file system gives in pieces is completed; a direct read that it refuses is
// repeated through the page cache, and what that brought in is dropped again. Errors name file, offset and
// what was found; they are results of Await. One thread at a time; Await everything before destroying it and
// before freeing a buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/weights/input_file.h"

namespace numoe {

struct RangeReaderOptions {
  int depth = 8;         // reads in flight at most
  bool io_uring = true;  // false: threads, even where io_uring is allowed
};

/// What carries reads out: submits them, and returns each once with its byte count or -errno.
class ReadQueue {
 public:
  struct Read {
    int fd = -1;
    uint64_t offset = 0;
    std::byte* out = nullptr;
    size_t size = 0;
    int slot = 0;
  };
  struct Result {
    int slot = 0;
    int64_t bytes = 0;  // or -errno
  };
  virtual ~ReadQueue() = default;
  virtual void Submit(const Read& read) = 0;
  virtual Result Wait() = 0;
};

/// Null where the kernel or the container forbids io_uring.
std::unique_ptr<ReadQueue> MakeUringQueue(int depth);
std::unique_ptr<ReadQueue> MakeThreadQueue(int depth);

class RangeReader {
 public:
  explicit RangeReader(const RangeReaderOptions& options);

  /// Reads [offset, offset + out.size()) of `file`, of which the first `needed` bytes must exist: what
  /// aligning added may lie behind the file's end. REQUIRES: in_flight() < depth; direct files: all aligned.
  void Begin(InputFile& file, uint64_t offset, absl::Span<std::byte> out, size_t needed, uint64_t tag);

  struct Done {
    uint64_t tag = 0;
    absl::Status status;
  };
  /// REQUIRES: in_flight() > 0.
  Done Await();

  int in_flight() const { return in_flight_; }
  std::string_view method() const { return method_; }  // "io_uring" | "threads"

 private:
  struct Slot {
    InputFile* file = nullptr;
    uint64_t offset = 0;
    absl::Span<std::byte> out;
    size_t needed = 0;
    size_t done = 0;
    bool direct = false;
    uint64_t tag = 0;
  };
  void Submit(int slot);
  bool Complete(Slot& slot, int64_t result, absl::Status& status);

  std::string_view method_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<Slot> slots_;
  std::vector<int> free_slots_;
  int in_flight_ = 0;
};

}  // namespace numoe
