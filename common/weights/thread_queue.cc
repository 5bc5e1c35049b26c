// Reads by helper threads that call pread: as many as reads may be in flight, asleep but for the reads.
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/weights/range_reader.h"

namespace numoe {
namespace {

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(int depth) {
    for (int i = 0; i < depth; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "weight-read");
        Loop();
      });
    }
  }
  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    submitted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(const Read& read) override {
    {
      const std::lock_guard lock(mutex_);
      reads_.push_back(read);
    }
    submitted_.notify_one();
  }

  Result Wait() override {
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [this] { return !results_.empty(); });
    const Result result = results_.front();
    results_.pop_front();
    return result;
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      submitted_.wait(lock, [this] { return stop_ || !reads_.empty(); });
      if (reads_.empty()) return;
      const Read read = reads_.front();
      reads_.pop_front();
      lock.unlock();
      const ssize_t got = pread(read.fd, read.out, read.size, static_cast<off_t>(read.offset));
      const Result result{.slot = read.slot, .bytes = got < 0 ? -errno : got};
      lock.lock();
      results_.push_back(result);
      completed_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable completed_;
  std::deque<Read> reads_;
  std::deque<Result> results_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeThreadQueue(int depth) { return std::make_unique<ThreadQueue>(depth); }

}  // namespace numoe
