// Reads with helper threads that call pread. There is one thread for each read that may be in flight; it
// sleeps except for its reads.
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <thread>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/weights/range_reader.h"

namespace numoe {
namespace {

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(int depth) {
    NUMOE_CHECK_GT(depth, 0);
    for (int i = 0; i < depth; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "weight-read");
        Loop();
      });
    }
  }
  ~ThreadQueue() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    submitted_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(const Read& read) override {
    NUMOE_DCHECK(read.out != nullptr && read.size > 0);
    {
      const MutexLock lock(mutex_);
      reads_.push_back(read);
    }
    submitted_.NotifyOne();
  }

  Result Wait() override {
    const MutexLock lock(mutex_);
    while (results_.empty()) completed_.Wait(mutex_);
    const Result result = results_.front();
    results_.pop_front();
    return result;
  }

 private:
  void Loop() {
    MutexLock lock(mutex_);
    while (true) {
      while (!stop_ && reads_.empty()) submitted_.Wait(mutex_);
      if (reads_.empty()) return;
      const Read read = reads_.front();
      reads_.pop_front();
      lock.Unlock();
      const ssize_t got = pread(read.fd, read.out, read.size, static_cast<off_t>(read.offset));
      const Result result{.slot = read.slot, .bytes = got < 0 ? -errno : got};
      lock.Lock();
      results_.push_back(result);
      completed_.NotifyOne();
    }
  }

  Mutex mutex_;
  CondVar submitted_;
  CondVar completed_;
  std::deque<Read> reads_ ABSL_GUARDED_BY(mutex_);
  std::deque<Result> results_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeThreadQueue(int depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace numoe
