#include "tests/cuda_host/async_copy.h"

#include <cstdlib>
#include <cstring>

namespace numoe::cuda_host {
namespace {

constexpr int kPoison = 0xff;

void Land(const PendingCopy& copy) {
  std::memcpy(copy.target, copy.source, static_cast<size_t>(copy.source_bytes));
  std::memset(static_cast<char*>(copy.target) + copy.source_bytes, 0,
              static_cast<size_t>(copy.bytes - copy.source_bytes));
}

/// Completes the copies of groups before `group`, in the order in which they were issued.
void LandBefore(int group) {
  Thread& me = Machine::Current().current();
  int left = 0;
  for (int i = 0; i < me.copy_count; ++i) {
    if (me.copies[i].group < group) {
      Land(me.copies[i]);
    } else {
      me.copies[left++] = me.copies[i];
    }
  }
  me.copy_count = left;
}

}  // namespace

void IssueCopy(void* target, const void* source, int bytes, int source_bytes, Place place) {
  Machine& machine = Machine::Current();
  Thread& me = machine.current();
  me.place = place;
  if (source_bytes < 0 || source_bytes > bytes) machine.Fail("cp.async: more source bytes than bytes", place);
  const auto address = reinterpret_cast<uintptr_t>(target) | reinterpret_cast<uintptr_t>(source);
  if (address % static_cast<uintptr_t>(bytes) != 0) {
    machine.Fail("cp.async: an address is not aligned to the copy's size", place);
  }
  const PendingCopy copy{target, source, bytes, source_bytes, me.copy_group};
  const CopyDelivery delivery = machine.schedule().copies;
  if (delivery == CopyDelivery::kEarly ||
      (delivery == CopyDelivery::kRandom && (machine.Random() & 1) != 0)) {
    Land(copy);
    return;
  }
  std::memset(target, kPoison, static_cast<size_t>(bytes));
  if (me.copies == nullptr) {
    me.copies = static_cast<PendingCopy*>(std::malloc(sizeof(PendingCopy) * kPendingCopiesMax));
  }
  if (me.copy_count == kPendingCopiesMax) machine.Fail("cp.async: a thread has 512 copies in flight", place);
  me.copies[me.copy_count++] = copy;
}

void CommitCopies() { ++Machine::Current().current().copy_group; }

void WaitCopies(int groups) { LandBefore(Machine::Current().current().copy_group - groups); }

void WaitAllCopies() { LandBefore(Machine::Current().current().copy_group + 1); }

}  // namespace numoe::cuda_host
