// RangeReader: one thread's reads of file ranges, several in flight at a time.
//
// Begin starts a read, and Await returns the next one that is complete, in any order. It uses io_uring if the
// kernel lets this process use it (containers often do not; a real call decides, not a version), otherwise
// helper threads that call pread. If the file system returns a read in pieces, it is completed. If it refuses
// a direct read, that is repeated through the page cache, and what was added to the cache is dropped again.
// Errors name the file, the offset and what was found; Await returns them. One thread at a time; Await
// everything before destroying it and before freeing a buffer.
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
  int depth = 8;         // the most reads in flight
  bool io_uring = true;  // false means threads, even if io_uring is allowed
};

/// Executes reads: submits them, and returns each once with its number of bytes or -errno.
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

/// Returns null if the kernel or the container forbids io_uring.
std::unique_ptr<ReadQueue> MakeUringQueue(int depth);
std::unique_ptr<ReadQueue> MakeThreadQueue(int depth);

class RangeReader {
 public:
  explicit RangeReader(const RangeReaderOptions& options);

  /// Begins to read [offset, offset + out.size()) of `file`. The first `needed` bytes must exist; the rest,
  /// which was added for alignment, may be beyond the file's end. REQUIRES: in_flight() < depth; for direct
  /// files all is aligned.
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
