#include <cuda_runtime.h>

#include <algorithm>

#include "tests/support/device_buffer.h"

namespace numoe {
namespace {

constexpr int kPoison = 0xff;

void Check(cudaError_t error, const char* what) {
  NUMOE_CHECK(error == cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

void RequireGpu() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  NUMOE_CHECK(error == cudaSuccess && devices > 0)
      << "no NVIDIA GPU was found (" << cudaGetErrorString(error) << "), which this test is built for";
}

}  // namespace

void* AllocateOnDevice(size_t bytes) {
  [[maybe_unused]] static const bool there = (RequireGpu(), true);
  void* memory = nullptr;
  Check(cudaMalloc(&memory, std::max<size_t>(bytes, 1)), "cudaMalloc");
  Check(cudaMemset(memory, kPoison, bytes), "cudaMemset");
  return memory;
}

void FreeOnDevice(void* memory) { Check(cudaFree(memory), "cudaFree"); }

void CopyToDevice(void* device, const void* host, size_t bytes) {
  Check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void CopyFromDevice(void* host, const void* device, size_t bytes) {
  Check(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

void Synchronise() { Check(cudaStreamSynchronize(nullptr), "a kernel of the test"); }

std::optional<BankConflictCount> CountBankConflicts(const std::function<void()>& body) {
  body();
  return std::nullopt;
}

void RunUnderAllSchedules(const std::function<void()>& body) { body(); }

}  // namespace numoe
