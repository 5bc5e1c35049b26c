// HostMemory: what memory of this host a process may still plan with, next to the other NUMoE processes on
// it.
//
// Workers and coordinators start together and take their memory over minutes, so each of them alone finds all
// of it free. Therefore a process writes down what it will take before it takes it, and plans with what the
// others leave. What a reservation still withholds from others is what it promises less what its process
// holds of it already: anonymous memory and, unless it promised private memory only, shared memory. A
// coordinator also maps shared memory that its workers promised (mailbox segments), which must not count
// twice. Of a process that /proc hides (hidepid) that is not known, nor which cgroup it is in: it withholds
// all of it, of the machine.
//
// A folder holds a file for each process, named by its PID namespace, PID and start time, which says
// "PROGRAM BYTES KIND", where KIND is private or all. Its process keeps it open and locked (flock): a file
// without a lock is a dead process's, and whoever finds it removes it. The folder's own lock makes looking
// and reserving one step. Only files and a folder of this user are believed, links never; what makes no sense
// is ignored with a warning. "auto" is /dev/shm/numoe-UID: every Linux has it, it ends with the boot, and it
// is the same for a service and for a shell, which a folder of a login ($XDG_RUNTIME_DIR) or of a unit
// (/run/numoe) is not.
//
// Not seen are processes of other users, and those of other containers even where they share the folder:
// their limits are the plan there (Kubernetes, podman). A cgroup's limit is shared by the processes in it
// only. Called at start, by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace numoe {

/// What a promise is about: private (anonymous) memory, or shared memory as well.
enum class PromisedMemory : uint8_t { kPrivate, kAll };

/// Memory that this process will take. Given back when destroyed, or when the process ends, however.
/// Move-only; one in a process.
class MemoryReservation {
 public:
  /// Of nothing.
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&&) = default;
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  ~MemoryReservation();

 private:
  friend class HostMemory;
  FileDescriptor folder_;
  FileDescriptor file_;
  std::string name_;
};

class HostMemory {
 public:
  struct Other {
    std::string program;
    int process = 0;
    uint64_t bytes = 0;  // that it will take and does not hold yet
  };

  /// Others that look wait until this one is gone. `folder`: "auto", or a path, which is made where it does
  /// not exist. A folder that cannot be used is an error; with "auto" a warning, and the process plans alone.
  static absl::StatusOr<HostMemory> Look(const std::string& folder, const std::filesystem::path& root = "/");

  /// Bytes that the machine and this process's cgroups have left, less what others will take of them;
  /// UINT64_MAX where nothing says.
  uint64_t available() const { return available_; }
  /// Those who leave no more than that.
  const std::vector<Other>& others() const { return others_; }
  /// What others will take, for a sentence: "of 31.50 GiB that are free 20.00 GiB are reserved by
  /// numoe-expert-worker, process 1234"; empty where it is nothing.
  std::string Others() const;
  /// Promises `bytes` more of memory of this kind than this process holds now. `program`: letters, digits and
  /// dashes. REQUIRES: this process has reserved nothing. What fails is an error or a warning as in Look.
  absl::StatusOr<MemoryReservation> Reserve(const std::string& program, uint64_t bytes,
                                            PromisedMemory kind) const;

 private:
  HostMemory() = default;
  absl::Status OpenFolder();
  absl::StatusOr<std::vector<Other>> ReadOthers() const;
  void Subtract(const std::vector<Other>& all);
  absl::StatusOr<MemoryReservation> Write(const std::string& program, uint64_t bytes,
                                          PromisedMemory kind) const;

  std::filesystem::path root_;
  std::filesystem::path path_;  // of the folder
  bool must_ = false;           // the folder was asked for by name
  FileDescriptor folder_;       // locked; none: the process plans alone
  uint64_t free_ = UINT64_MAX;
  uint64_t available_ = UINT64_MAX;
  std::vector<Other> others_;
};

}  // namespace numoe
