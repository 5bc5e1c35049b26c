#include "coordinator/execution/device/cuda/cuda_runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cuda/cublas_lt.h"
#include "coordinator/execution/device/cuda/kernel_list.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kComputeMajorMin = 8;  // the kernels need cp.async and mma of BF16

absl::Status Check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: {} ({})", call, cudaGetErrorString(code), cudaGetErrorName(code)));
}

// Selects the device of the calling thread, on which its allocations, launches and recordings are made. The
// default of a new thread is the first GPU.
absl::Status UseDevice(int ordinal) {
  thread_local int current = -1;
  if (current == ordinal) return absl::OkStatus();
  RETURN_IF_ERROR(Check(cudaSetDevice(ordinal), "cudaSetDevice"));
  current = ordinal;
  return absl::OkStatus();
}

// Loads all kernels, so that a kernel without code for this card is found here, not at its first launch.
absl::Status LoadKernels(const DeviceFacts& facts) {
  for (const ListedKernel* kernel = listed_kernels; kernel != nullptr; kernel = kernel->next) {
    cudaFuncAttributes attributes{};
    const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel->function);
    if (code == cudaSuccess) continue;
    const char* name = "a kernel";
    cudaFuncGetName(&name, kernel->function);
    return absl::FailedPreconditionError(
        fmt::format("{} cannot run on {}, compute capability {}.{}: {}; build with its architecture in "
                    "NUMOE_CUDA_TARGETS",
                    name, facts.name, facts.compute_major, facts.compute_minor, cudaGetErrorString(code)));
  }
  return absl::OkStatus();
}

enum class Kind : uint8_t { kDevice, kHost, kRegistered };

class CudaMemory final : public Memory {
 public:
  CudaMemory(Kind kind, int ordinal, void* device, void* host, size_t bytes)
      : kind_(kind), ordinal_(ordinal), device_(device), host_(host), bytes_(bytes) {}
  ~CudaMemory() override {
    (void)UseDevice(ordinal_);
    if (kind_ == Kind::kDevice) cudaFree(device_);
    if (kind_ == Kind::kHost) cudaFreeHost(host_);
    if (kind_ == Kind::kRegistered) cudaHostUnregister(host_);
  }
  std::byte* device() const override { return static_cast<std::byte*>(device_); }
  std::byte* host() const override { return static_cast<std::byte*>(host_); }
  size_t bytes() const override { return bytes_; }

 private:
  const Kind kind_;
  const int ordinal_;
  void* const device_;
  void* const host_;
  const size_t bytes_;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t executable) : executable_(executable) {}
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  cudaGraphExec_t executable() const { return executable_; }

 private:
  cudaGraphExec_t executable_;
};

class CudaTimestamp final : public Timestamp {
 public:
  explicit CudaTimestamp(cudaEvent_t event) : event_(event) {}
  ~CudaTimestamp() override { cudaEventDestroy(event_); }
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_;
};

class CudaRuntime final : public Runtime {
 public:
  CudaRuntime(int ordinal, DeviceFacts facts) : ordinal_(ordinal), facts_(std::move(facts)) {}
  ~CudaRuntime() override {
    cublas_.reset();
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  absl::Status Start() {
    RETURN_IF_ERROR(LoadKernels(facts_));
    ASSIGN_OR_RETURN(side_stream_, NewStream(/*urgent=*/false));
    ASSIGN_OR_RETURN(workspace_, Allocate(CublasLt::kWorkspaceBytes));
    ASSIGN_OR_RETURN(cublas_, CublasLt::Open(workspace_->device()));
    return absl::OkStatus();
  }

  const DeviceFacts& facts() const override { return facts_; }

  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    void* memory = nullptr;
    const cudaError_t code = cudaMalloc(&memory, bytes);
    if (code != cudaSuccess) return OutOfMemory(code, "the GPU's memory", bytes);
    return std::make_unique<CudaMemory>(Kind::kDevice, ordinal_, memory, nullptr, bytes);
  }

  absl::StatusOr<std::unique_ptr<Memory>> AllocateHost(size_t bytes) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    void* memory = nullptr;
    const cudaError_t code = cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    if (code != cudaSuccess) return OutOfMemory(code, "pinned host memory", bytes);
    return MapHost(Kind::kHost, memory, bytes);
  }

  absl::StatusOr<std::unique_ptr<Memory>> RegisterHost(absl::Span<std::byte> memory) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    RETURN_IF_ERROR(Check(
        cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterMapped | cudaHostRegisterPortable),
        "cudaHostRegister of shared memory"));
    return MapHost(Kind::kRegistered, memory.data(), memory.size());
  }
  // CUDA's documentation requires the read-only flag for memory that is mapped read-only. If
  // cudaDevAttrHostRegisterReadOnlySupported is 0, CUDA rejects it, and the workers compute prompts. Not yet
  // tested on a device.
  absl::StatusOr<std::unique_ptr<Memory>> RegisterHostReadOnly(absl::Span<const std::byte> memory) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    void* const host = const_cast<std::byte*>(memory.data());  // CUDA's interface has no const parameter
    RETURN_IF_ERROR(
        Check(cudaHostRegister(host, memory.size(),
                               cudaHostRegisterMapped | cudaHostRegisterPortable | cudaHostRegisterReadOnly),
              "cudaHostRegister of read-only memory"));
    return MapHost(Kind::kRegistered, host, memory.size());
  }

  absl::StatusOr<Stream> NewStream(bool urgent) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    int least = 0, greatest = 0;
    RETURN_IF_ERROR(
        Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange"));
    cudaStream_t stream = nullptr;
    RETURN_IF_ERROR(
        Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
              "cudaStreamCreate"));
    streams_.push_back(stream);
    return stream;
  }
  absl::StatusOr<Event> NewEvent() override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    events_.push_back(event);
    return event;
  }

  void Copy(void* to, const void* from, size_t bytes, Stream stream) override {
    Keep(Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync"));
  }

  absl::Status CopyNow(void* to, const void* from, size_t bytes) override {
    RETURN_IF_ERROR(UseDevice(ordinal_));
    RETURN_IF_ERROR(
        Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, side_stream_), "cudaMemcpyAsync"));
    return Check(cudaStreamSynchronize(side_stream_), "a copy on the side stream");
  }

  void Clear(void* memory, size_t bytes, Stream stream) override {
    Keep(Check(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync"));
  }

  void Multiply(const MatrixProduct& product, Stream stream) override {
    Keep(cublas_->Multiply(product, stream));
  }

  void Record(Event event, Stream stream) override {
    Keep(Check(cudaEventRecord(event, stream), "cudaEventRecord"));
  }
  void Wait(Stream stream, Event event) override {
    Keep(Check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent"));
  }

  absl::Status Await(Event event) override {
    Keep(Check(cudaEventSynchronize(event), "the GPU's work"));
    NUMOE_CHECK(first_error_.ok()) << facts_.name << ": " << std::string(first_error_.message());
    return absl::OkStatus();
  }

  // After work has failed, this process cannot use the card's context any more; a new process is needed.
  absl::Status Synchronize(Stream stream) override {
    Keep(UseDevice(ordinal_));  // every step begins with Synchronize, so later launches use this device
    Keep(Check(cudaStreamSynchronize(stream), "the GPU's work"));
    NUMOE_CHECK(first_error_.ok()) << facts_.name << ": " << std::string(first_error_.message());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Timestamp>> NewTimestamp() override {
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(Check(cudaEventCreate(&event), "cudaEventCreate"));
    return std::make_unique<CudaTimestamp>(event);
  }

  void Stamp(Timestamp& stamp, Stream stream) override {
    Keep(Check(cudaEventRecord(static_cast<CudaTimestamp&>(stamp).event(), stream), "cudaEventRecord"));
  }

  absl::StatusOr<double> SecondsBetween(const Timestamp& first, const Timestamp& last) override {
    float milliseconds = 0;
    RETURN_IF_ERROR(
        Check(cudaEventElapsedTime(&milliseconds, static_cast<const CudaTimestamp&>(first).event(),
                                   static_cast<const CudaTimestamp&>(last).event()),
              "cudaEventElapsedTime"));
    return milliseconds * 1e-3;
  }

  absl::Status BeginCapture(Stream stream) override {
    // Relaxed, because the memory of a restarted worker is pinned while its first step is being captured.
    return Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  }

  absl::StatusOr<std::unique_ptr<Graph>> EndCapture(Stream stream) override {
    cudaGraph_t graph = nullptr;
    RETURN_IF_ERROR(Check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"));
    cudaGraphExec_t executable = nullptr;
    const absl::Status made = Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    RETURN_IF_ERROR(made);
    auto captured = std::make_unique<CudaGraph>(executable);
    RETURN_IF_ERROR(first_error_);
    return captured;
  }

  void Launch(Graph& graph, Stream stream) override {
    Keep(Check(cudaGraphLaunch(static_cast<CudaGraph&>(graph).executable(), stream), "cudaGraphLaunch"));
  }

 private:
  absl::StatusOr<std::unique_ptr<Memory>> MapHost(Kind kind, void* host, size_t bytes) const {
    void* device = nullptr;
    RETURN_IF_ERROR(Check(cudaHostGetDevicePointer(&device, host, 0), "cudaHostGetDevicePointer"));
    return std::make_unique<CudaMemory>(kind, ordinal_, device, host, bytes);
  }

  static absl::Status OutOfMemory(cudaError_t code, const char* what, size_t bytes) {
    if (code != cudaErrorMemoryAllocation) return Check(code, what);
    cudaGetLastError();  // clears the error, which is not sticky: the caller may request less memory
    size_t free_bytes = 0, all = 0;
    cudaMemGetInfo(&free_bytes, &all);
    return absl::ResourceExhaustedError(
        fmt::format("{}: {} bytes requested, {} of the GPU's {} are free", what, bytes, free_bytes, all));
  }

  void Keep(const absl::Status& status) {
    if (first_error_.ok()) first_error_ = status;
  }

  const int ordinal_;
  const DeviceFacts facts_;
  absl::Status first_error_;
  Stream side_stream_ = nullptr;  // used by CopyNow
  std::unique_ptr<Memory> workspace_;
  std::unique_ptr<CublasLt> cublas_;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

absl::StatusOr<DeviceFacts> ReadFacts(int ordinal) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) {
      return absl::NotFoundError(fmt::format(
          "found no NVIDIA driver (libcuda.so.1), expected one of CUDA {}.{} or later; install it, "
          "give the container a GPU (docker run --gpus all), or use --device=cpu",
          CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
    }
    return absl::FailedPreconditionError(
        fmt::format("the NVIDIA driver is for CUDA {}.{}, expected {}.{} or later; update the driver",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10));
  }
  if (code != cudaSuccess)
    return absl::NotFoundError(fmt::format(
        "found no NVIDIA GPU ({}), expected one that this process may use; see nvidia-smi, or use "
        "--device=cpu",
        cudaGetErrorString(code)));
  if (ordinal < 0 || ordinal >= devices) {
    return absl::NotFoundError(
        fmt::format("found {} GPUs, expected number {} among them; use --device=cuda:0 to cuda:{}", devices,
                    ordinal, devices - 1));
  }
  RETURN_IF_ERROR(UseDevice(ordinal));
  cudaDeviceProp properties{};
  RETURN_IF_ERROR(Check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties"));
  DeviceFacts facts{.name = properties.name,
                    .compute_major = properties.major,
                    .compute_minor = properties.minor,
                    .multiprocessors = properties.multiProcessorCount,
                    .shared_bytes_max = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
                    .memory_bytes = properties.totalGlobalMem};
  size_t free_bytes = 0, all = 0;
  RETURN_IF_ERROR(Check(cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo"));
  facts.free_bytes = free_bytes;
  RETURN_IF_ERROR(Check(cudaDriverGetVersion(&facts.driver_version), "cudaDriverGetVersion"));
  int timeout = 0;
  RETURN_IF_ERROR(Check(cudaDeviceGetAttribute(&timeout, cudaDevAttrKernelExecTimeout, ordinal),
                        "cudaDeviceGetAttribute"));
  facts.ends_long_kernels = timeout != 0;
  if (facts.compute_major < kComputeMajorMin) {
    return absl::FailedPreconditionError(
        fmt::format("{} has compute capability {}.{}, expected {}.0 or later", facts.name,
                    facts.compute_major, facts.compute_minor, kComputeMajorMin));
  }
  return facts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Runtime>> OpenCudaRuntime(int ordinal) {
  ASSIGN_OR_RETURN(DeviceFacts facts, ReadFacts(ordinal));
  auto runtime = std::make_unique<CudaRuntime>(ordinal, std::move(facts));
  RETURN_IF_ERROR(runtime->Start());
  return runtime;
}

}  // namespace numoe::execution::cuda
