#include <cstdlib>
#include <cstring>

#include "tests/cuda_host/matrix.h"
#include "tests/cuda_host/schedule.h"
#include "tests/support/device_buffer.h"

namespace numoe {
namespace {

constexpr size_t kAlignment = 256;  // cudaMalloc's
constexpr int kPoison = 0xff;

}  // namespace

void* AllocateOnDevice(size_t bytes) {
  void* memory = nullptr;
  NUMOE_CHECK_EQ(posix_memalign(&memory, kAlignment, bytes), 0) << bytes << " bytes";
  std::memset(memory, kPoison, bytes);
  return memory;
}

void FreeOnDevice(void* memory) { std::free(memory); }

void CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void CopyFromDevice(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void Synchronise() {}

std::optional<BankConflictCount> CountBankConflicts(const std::function<void()>& body) {
  cuda_host::MatrixLoadConflicts() = {};
  body();
  const cuda_host::BankConflicts& met = cuda_host::MatrixLoadConflicts();
  return BankConflictCount{.loads = met.loads, .conflicts = met.conflicts};
}

void RunUnderAllSchedules(const std::function<void()>& body) { cuda_host::RunUnderAllSchedules(body); }

}  // namespace numoe
