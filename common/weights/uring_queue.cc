// Reads through io_uring: one ring for each RangeReader, a system call for each read.
#include <liburing.h>

#include <cerrno>

#include "common/base/check.h"
#include "common/weights/range_reader.h"

namespace numoe {
namespace {

class UringQueue final : public ReadQueue {
 public:
  ~UringQueue() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  // Seccomp profiles and kernel.io_uring_disabled forbid the set-up; some profiles forbid only
  // io_uring_enter.
  bool Open(int depth) {
    if (io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0) != 0) return false;
    open_ = true;
    io_uring_sqe* probe = io_uring_get_sqe(&ring_);
    io_uring_prep_nop(probe);
    if (io_uring_submit(&ring_) != 1) return false;
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring_, &done) != 0) return false;
    io_uring_cqe_seen(&ring_, done);
    return true;
  }

  void Submit(const Read& read) override {
    NUMOE_DCHECK(read.out != nullptr && 0 < read.size && read.size <= UINT32_MAX);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    NUMOE_CHECK(entry != nullptr) << "the ring must have an entry for each read in flight";
    io_uring_prep_read(entry, read.fd, read.out, static_cast<unsigned>(read.size), read.offset);
    io_uring_sqe_set_data64(entry, static_cast<uint64_t>(read.slot));
    int submitted = 0;
    do {
      submitted = io_uring_submit(&ring_);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    NUMOE_CHECK_EQ(submitted, 1) << "io_uring_submit";
  }

  Result Wait() override {
    io_uring_cqe* done = nullptr;
    int waited = 0;
    do {
      waited = io_uring_wait_cqe(&ring_, &done);
    } while (waited == -EINTR || waited == -EAGAIN);
    NUMOE_CHECK_EQ(waited, 0) << "io_uring_wait_cqe";
    const Result result{.slot = static_cast<int>(io_uring_cqe_get_data64(done)), .bytes = done->res};
    io_uring_cqe_seen(&ring_, done);
    return result;
  }

 private:
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeUringQueue(int depth) {
  auto queue = std::make_unique<UringQueue>();
  if (!queue->Open(depth)) return nullptr;
  return queue;
}

}  // namespace numoe
