#include "coordinator/net/http/request_bodies.h"

#include <malloc.h>

#include "common/base/check.h"
#include "coordinator/net/http/http_limits.h"

namespace numoe::net {

RequestBodies::Share::~Share() {
  Release();
  if (large_) bodies_->large_ended_.store(true);
}

bool RequestBodies::Share::Grow(size_t bytes) {
  NUMOE_CHECK_GE(bytes, bytes_);
  const size_t more = bytes - bytes_;
  if (more == 0) return true;
  {
    const MutexLock lock(bodies_->mutex_);
    if (!bodies_->Fits(tenant_, more)) return false;
    bodies_->held_ += more;
    bodies_->held_by_[tenant_] += more;
  }
  bytes_ = bytes;
  large_ = bytes >= limits::kHttpLargeBodyBytes;
  return true;
}

void RequestBodies::Share::Release() {
  if (bytes_ == 0) return;
  const MutexLock lock(bodies_->mutex_);
  NUMOE_CHECK_GE(bodies_->held_, bytes_);
  bodies_->held_ -= bytes_;
  const auto own = bodies_->held_by_.find(tenant_);
  NUMOE_CHECK(own != bodies_->held_by_.end() && own->second >= bytes_) << "tenant " << tenant_;
  own->second -= bytes_;
  if (own->second == 0) bodies_->held_by_.erase(own);
  bytes_ = 0;
}

bool RequestBodies::Fits(int tenant, size_t more) const {
  const auto own = held_by_.find(tenant);
  const size_t owned = own == held_by_.end() ? 0 : own->second,
               own_max = tenant == 0 ? bytes_max_ : bytes_max_ / 2;
  NUMOE_CHECK(held_ <= bytes_max_ && owned <= own_max);
  return more <= bytes_max_ - held_ && more <= own_max - owned;
}

bool RequestBodies::HasRoom(int tenant, size_t bytes) const {
  const MutexLock lock(mutex_);
  return Fits(tenant, bytes);
}

bool RequestBodies::TrimMemory() {
  if (!large_ended_.exchange(false)) return false;
  malloc_trim(0);
  return true;
}

}  // namespace numoe::net
