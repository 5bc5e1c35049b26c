// RequestBodies: how many bytes of request bodies all connections of a server hold together, and when the
// memory of large ones goes back to the system.
//
// A body takes its share of the budget as its bytes arrive, so that what a client only announces costs
// nothing, and gives it back when it has been read. One API key's bodies take half of it at most, so that
// there is always room for another's. Reading a large one (JSON, templates, tokens) takes many
// times its bytes in small pieces, which the allocator keeps for the next; TrimMemory gives them back when
// the request has ended. Thread-safe; a Share has one owner at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>

#include "common/base/mutex.h"

namespace numoe::net {

class RequestBodies {
 public:
  explicit RequestBodies(size_t bytes_max) : bytes_max_(bytes_max) {}

  /// One request's part of the budget. Given back when released or destroyed.
  class Share {
   public:
    explicit Share(std::shared_ptr<RequestBodies> bodies) : bodies_(std::move(bodies)) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

    /// Whose body it is; before it grows. 0: there are no keys.
    void BelongTo(int tenant) { tenant_ = tenant; }
    /// The body has `bytes` by now, no fewer than before. false: the budget has no room for them.
    bool Grow(size_t bytes);
    /// Whoever has read the body has its memory from now on.
    void Release();

   private:
    const std::shared_ptr<RequestBodies> bodies_;
    int tenant_ = 0;
    size_t bytes_ = 0;
    bool large_ = false;
  };

  size_t bytes_max() const { return bytes_max_; }
  bool HasRoom(int tenant, size_t bytes) const;
  /// Gives free memory back to the system if a request with a large body has ended since the last call, which
  /// may take some tens of milliseconds; whether it did.
  bool TrimMemory();

 private:
  bool Fits(int tenant, size_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, size_t> held_by_ ABSL_GUARDED_BY(mutex_);  // [tenant]; only who holds any
  std::atomic<bool> large_ended_{false};
};

}  // namespace numoe::net
