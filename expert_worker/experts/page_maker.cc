#include "expert_worker/experts/page_maker.h"

#include "common/base/check.h"

namespace numoe::worker {

absl::Status PageMaker::Make(const Part& part) {
  NUMOE_CHECK(!part.empty());
  if (!Claim(part.size())) return Spill(part);
  const absl::Status made = calls_.make(part);
  Release(part.size());
  return made.ok() ? made : Spill(part);
}

uint64_t PageMaker::spilled() const {
  const MutexLock lock(mutex_);
  return spilled_;
}

bool PageMaker::Claim(size_t bytes) {
  const MutexLock lock(mutex_);
  while (spilled_ == 0) {
    if (calls_.room() >= in_work_ + bytes) {
      in_work_ += bytes;
      return true;
    }
    if (in_work_ == 0) return false;
    ended_.Wait(mutex_);
  }
  return false;
}

void PageMaker::Release(size_t bytes) {
  {
    const MutexLock lock(mutex_);
    NUMOE_CHECK_GE(in_work_, bytes) << "only what was claimed is given back";
    in_work_ -= bytes;
  }
  ended_.NotifyAll();
}

absl::Status PageMaker::Spill(const Part& part) {
  {
    const MutexLock lock(mutex_);
    spilled_ += part.size();
  }
  ended_.NotifyAll();
  return calls_.spill(part);
}

}  // namespace numoe::worker
