// Memory, transfers and synchronisation for kernel tests that run on a device and on a simulated one alike.
//
// A test is linked with one of two implementations: device_buffer_host.cc (memory of the host with exactly
// the requested size, so that ASan sees overruns, filled with 0xff; launches have run when they return), or
// device_buffer_cuda.cc, which uses the CUDA runtime. Errors end the process, because a test cannot handle
// them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "common/base/check.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

namespace numoe {

void* AllocateOnDevice(size_t bytes);
void FreeOnDevice(void* memory);
void CopyToDevice(void* device, const void* host, size_t bytes);
void CopyFromDevice(void* host, const void* device, size_t bytes);

/// Returns when all work launched on the null stream is done.
void Synchronise();

/// On the host: runs `body` once per legal execution (tests/cuda_host/schedule.h). On a device: once.
void RunUnderAllSchedules(const std::function<void()>& body);

/// The number of loads of matrix rows from shared memory that `body` makes, and how many had a bank conflict.
/// Only the host counts them: on a device `body` runs and the result is nullopt.
struct BankConflictCount {
  uint64_t loads = 0;
  uint64_t conflicts = 0;
};
std::optional<BankConflictCount> CountBankConflicts(const std::function<void()>& body);

/// `size` values of T on the device, for the lifetime of the object. New values are NaN (0xff bytes), so that
/// a kernel that reads values before they are written is noticed. The address is 256-byte aligned.
template <class T>
class DeviceBuffer {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  explicit DeviceBuffer(size_t size)
      : size_(size), data_(static_cast<T*>(AllocateOnDevice(size * sizeof(T)))) {}
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) { Upload(values); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { FreeOnDevice(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

  void Upload(const std::vector<T>& values) {
    NUMOE_CHECK_EQ(values.size(), size_);
    CopyToDevice(data_, values.data(), size_ * sizeof(T));
  }
  /// Waits for the null stream first.
  std::vector<T> Download() const {
    std::vector<T> values(size_);
    Synchronise();
    CopyFromDevice(values.data(), data_, size_ * sizeof(T));
    return values;
  }

 private:
  const size_t size_;
  T* const data_;
};

}  // namespace numoe
