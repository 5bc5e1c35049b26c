// Runtime: what the CUDA device needs of a driver: memory, streams, graphs, the matrix library.
//
// Two implementations: CudaRuntime (cuda_runtime.h), and on machines without a GPU the tests' simulation,
// which runs the same kernels on the CPU in stream order. Work is enqueued and runs in its stream's order;
// the first error of any of it comes out of the next Synchronize, which ends the process: nothing more would
// run, and a supervisor starts it again. Allocation fails with RESOURCE_EXHAUSTED, which says what was asked
// for and what is free. Streams, events and graphs belong to their runtime and end before it; memory frees
// itself, on any thread. One thread, the engine's, but for CopyNow and that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/execution/device/cuda/kernels/stream.h"

struct CUevent_st;

namespace numoe::execution::cuda {

/// What the start log and --plan print of a card.
struct DeviceFacts {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t shared_bytes_max = 0;  // of one block
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;  // when it was opened
  int driver_version = 0;   // 13000: 13.0
  bool ends_long_kernels = false;
};

/// Memory of the device, or of the host at an address that the device can use too.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* device() const = 0;
  /// nullptr where the host cannot reach it.
  virtual std::byte* host() const = 0;
  virtual size_t bytes() const = 0;
};

/// A point in a stream's work. A twin of CUDA's cudaEvent_t.
using Event = CUevent_st*;

/// A captured sequence of work that is launched as one.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// A moment in a stream's work, to tell how long what lies between two of them took.
class Timestamp {
 public:
  virtual ~Timestamp() = default;
};

/// c [rows, columns] = a [rows, depth] . b [columns, depth]^T in BF16 with fp32 sums; all row-major, in
/// device memory, `*_stride` elements from a row to the next.
struct MatrixProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int rows = 0;
  int columns = 0;
  int depth = 0;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
  bool c_is_float = false;  // c is fp32 instead of BF16
  bool accumulate = false;  // c += instead of c =
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const DeviceFacts& facts() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes) = 0;
  /// Pinned host memory, mapped into the device's address space.
  virtual absl::StatusOr<std::unique_ptr<Memory>> AllocateHost(size_t bytes) = 0;
  /// Maps memory that exists, page-aligned, and does not own it.
  virtual absl::StatusOr<std::unique_ptr<Memory>> RegisterHost(absl::Span<std::byte> memory) = 0;
  /// The same of memory that this process itself may only read: the device must not write to it.
  virtual absl::StatusOr<std::unique_ptr<Memory>> RegisterHostReadOnly(
      absl::Span<const std::byte> memory) = 0;

  /// `urgent`: its kernels' blocks go before those of others that wait for room on the device.
  virtual absl::StatusOr<Stream> NewStream(bool urgent = false) = 0;
  virtual absl::StatusOr<Event> NewEvent() = 0;
  virtual void Copy(void* to, const void* from, size_t bytes, Stream stream) = 0;  // any direction
  /// Copies and waits; any thread, beside what the streams do.
  virtual absl::Status CopyNow(void* to, const void* from, size_t bytes) = 0;
  virtual void Clear(void* memory, size_t bytes, Stream stream) = 0;  // to zero bytes
  virtual void Multiply(const MatrixProduct& product, Stream stream) = 0;
  /// The event is what is in the stream now, and no longer what was recorded before.
  virtual void Record(Event event, Stream stream) = 0;
  /// The stream goes on only when what was last recorded is done; at once where nothing was.
  virtual void Wait(Stream stream, Event event) = 0;
  /// The host waits for what was last recorded, and not for what was enqueued since.
  virtual absl::Status Await(Event event) = 0;
  /// Waits for everything in the stream. From here on what the calling thread launches is for this card.
  virtual absl::Status Synchronize(Stream stream) = 0;

  virtual absl::StatusOr<std::unique_ptr<Timestamp>> NewTimestamp() = 0;
  virtual void Stamp(Timestamp& stamp, Stream stream) = 0;
  /// REQUIRES: both were stamped, and what they follow was waited for.
  virtual absl::StatusOr<double> SecondsBetween(const Timestamp& first, const Timestamp& last) = 0;

  /// From here to EndCapture nothing runs: what is enqueued on `stream` becomes a graph.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<Graph>> EndCapture(Stream stream) = 0;
  virtual void Launch(Graph& graph, Stream stream) = 0;
};

}  // namespace numoe::execution::cuda
