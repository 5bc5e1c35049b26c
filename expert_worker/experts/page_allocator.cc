#include "expert_worker/experts/page_allocator.h"

#include "common/base/check.h"

namespace numoe::worker {

absl::Status PageAllocator::Allocate(const Part& part) {
  NUMOE_CHECK(!part.empty());
  if (!Claim(part.size())) return AllocateElsewhere(part);
  const absl::Status allocated = calls_.allocate(part);
  Release(part.size());
  return allocated.ok() ? allocated : AllocateElsewhere(part);
}

uint64_t PageAllocator::bytes_elsewhere() const {
  const MutexLock lock(mutex_);
  return elsewhere_;
}

bool PageAllocator::Claim(size_t bytes) {
  const MutexLock lock(mutex_);
  while (elsewhere_ == 0) {
    if (calls_.free_bytes() >= in_work_ + bytes) {
      in_work_ += bytes;
      return true;
    }
    if (in_work_ == 0) return false;
    ended_.Wait(mutex_);
  }
  return false;
}

void PageAllocator::Release(size_t bytes) {
  {
    const MutexLock lock(mutex_);
    NUMOE_CHECK_GE(in_work_, bytes) << "only claimed bytes may be released";
    in_work_ -= bytes;
  }
  ended_.NotifyAll();
}

absl::Status PageAllocator::AllocateElsewhere(const Part& part) {
  {
    const MutexLock lock(mutex_);
    elsewhere_ += part.size();
  }
  ended_.NotifyAll();
  return calls_.allocate_elsewhere(part);
}

}  // namespace numoe::worker
