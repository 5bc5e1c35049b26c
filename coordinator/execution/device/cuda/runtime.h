// Runtime: the functions of a driver that the CUDA device needs: memory, streams, graphs, the matrix library.
//
// There are two implementations: CudaRuntime (cuda_runtime.h), and on machines without a GPU the tests'
// simulation, which runs the same kernels on the CPU in stream order. Work is enqueued and runs in its
// stream's order; the next Synchronize returns the first error of any work. Such an error ends the process,
// because no later work would run; a supervisor restarts it. Allocation fails with RESOURCE_EXHAUSTED, which
// states how much was requested and how much is free. Streams, events and graphs belong to their runtime and
// end before it; memory frees itself. One thread, the engine's, except for CopyNow and the destruction of
// memory, which any thread may do.
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

/// The properties of a card, which the start log and --plan print.
struct DeviceFacts {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t shared_bytes_max = 0;  // shared memory of one block
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;         // when the card was opened
  int driver_version = 0;          // 13000 means 13.0
  bool ends_long_kernels = false;  // the driver has a time limit for kernels
};

/// Memory of the device, or memory of the host that is also mapped into the device's address space.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* device() const = 0;
  /// nullptr if the host cannot access it.
  virtual std::byte* host() const = 0;
  virtual size_t bytes() const = 0;
};

/// A point in a stream's work. The same type as CUDA's cudaEvent_t.
using Event = CUevent_st*;

/// A captured sequence of work that is launched as a whole.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// A moment in a stream's work; two of them measure the time of the work between them.
class Timestamp {
 public:
  virtual ~Timestamp() = default;
};

/// c [rows, columns] = a [rows, depth] . b [columns, depth]^T in BF16 with fp32 sums. All matrices are
/// row-major and in device memory; `*_stride` is the number of elements from one row to the next.
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
  /// Allocates pinned host memory that is mapped into the device's address space.
  virtual absl::StatusOr<std::unique_ptr<Memory>> AllocateHost(size_t bytes) = 0;
  /// Pins existing host memory, which must be page-aligned, and maps it into the device's address space; does
  /// not own it.
  virtual absl::StatusOr<std::unique_ptr<Memory>> RegisterHost(absl::Span<std::byte> memory) = 0;
  /// The same for memory that this process may only read: the device must not write to it.
  virtual absl::StatusOr<std::unique_ptr<Memory>> RegisterHostReadOnly(
      absl::Span<const std::byte> memory) = 0;

  /// If `urgent`, blocks of this stream's kernels are scheduled before waiting blocks of other streams'
  /// kernels.
  virtual absl::StatusOr<Stream> NewStream(bool urgent = false) = 0;
  virtual absl::StatusOr<Event> NewEvent() = 0;
  virtual void Copy(void* to, const void* from, size_t bytes, Stream stream) = 0;  // any direction
  /// Copies and waits for the copy, independently of the streams. May be called by any thread.
  virtual absl::Status CopyNow(void* to, const void* from, size_t bytes) = 0;
  virtual void Clear(void* memory, size_t bytes, Stream stream) = 0;  // to zero bytes
  virtual void Multiply(const MatrixProduct& product, Stream stream) = 0;
  /// Records all work that is in the stream now; replaces an earlier record of the event.
  virtual void Record(Event event, Stream stream) = 0;
  /// Makes later work of the stream wait for the work that was recorded last; does nothing if there is none.
  virtual void Wait(Stream stream, Event event) = 0;
  /// Makes the host wait for the work that was recorded last, but not for work that was enqueued later.
  virtual absl::Status Await(Event event) = 0;
  /// Waits for all work in the stream. Later launches of the calling thread use this card.
  virtual absl::Status Synchronize(Stream stream) = 0;

  virtual absl::StatusOr<std::unique_ptr<Timestamp>> NewTimestamp() = 0;
  virtual void Stamp(Timestamp& stamp, Stream stream) = 0;
  /// REQUIRES: both were stamped, and the work before them was waited for.
  virtual absl::StatusOr<double> SecondsBetween(const Timestamp& first, const Timestamp& last) = 0;

  /// From now until EndCapture, work that is enqueued on `stream` does not run but becomes a graph.
  virtual absl::Status BeginCapture(Stream stream) = 0;
  virtual absl::StatusOr<std::unique_ptr<Graph>> EndCapture(Stream stream) = 0;
  virtual void Launch(Graph& graph, Stream stream) = 0;
};

}  // namespace numoe::execution::cuda
