// RequestBodies: how many bytes of request bodies all connections of a server hold together, and when the
// memory of large ones is returned to the operating system.
//
// A body takes its share of the budget as its bytes arrive, so that a size that is only announced costs
// nothing, and gives it back when it has been read. The bodies of one API key take at most half of the
// budget, so that other keys always have room. Reading a large body (JSON, templates, tokens) takes many
// times its size in small allocations, which the allocator keeps for later ones; TrimMemory returns them when
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

  /// One request's part of the budget, which Release and the destructor give back.
  class Share {
   public:
    explicit Share(std::shared_ptr<RequestBodies> bodies) : bodies_(std::move(bodies)) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

    /// Sets the tenant of the body; call it before Grow. 0: no keys are used.
    void BelongTo(int tenant) { tenant_ = tenant; }
    /// Sets the size of what has arrived, which never decreases. Returns false if the budget has no room.
    bool Grow(size_t bytes);
    /// Gives the share back; the code that has read the body is responsible for its memory.
    void Release();

   private:
    const std::shared_ptr<RequestBodies> bodies_;
    int tenant_ = 0;
    size_t bytes_ = 0;
    bool large_ = false;
  };

  size_t bytes_max() const { return bytes_max_; }
  bool HasRoom(int tenant, size_t bytes) const;
  /// Returns free memory to the operating system if a request with a large body has ended since the last
  /// call. That may take some tens of milliseconds. Returns whether it did so.
  bool TrimMemory();

 private:
  bool Fits(int tenant, size_t more) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t bytes_max_;
  mutable Mutex mutex_;
  size_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, size_t> held_by_ ABSL_GUARDED_BY(mutex_);  // [tenant]; only tenants that hold bytes
  std::atomic<bool> large_ended_{false};
};

}  // namespace numoe::net
