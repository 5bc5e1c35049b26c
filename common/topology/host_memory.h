// HostMemory: how much of this host's memory a process may plan with, next to the other NUMoE processes on
// it.
//
// Workers and coordinators start together and allocate their memory over minutes, so at first each of them
// finds all memory free. Therefore a process reserves what it will allocate before it allocates it, and plans
// with what the reservations of the others leave. A reservation withholds its bytes from the others, minus
// what its process holds already: anonymous memory and, unless it reserved private memory only, shared
// memory. (A coordinator reserves private memory, because it also maps shared memory that its workers
// reserved, the mailbox segments, which must not count twice.) If /proc hides a process (hidepid), neither
// what it holds nor its cgroup is known: its whole reservation is subtracted, and only from the machine's
// memory.
//
// A folder contains a file for each process, whose name consists of the process's PID namespace, PID and
// start time. Its text is "PROGRAM BYTES KIND", where KIND is private or all. The process keeps its file open
// and locked (flock): a file without a lock belongs to a dead process, and the next process that reads the
// folder removes it. A lock on the folder makes reading the others' files and writing one's own a single
// step. The folder and the files must belong to this user and must not be links; other files are ignored with
// a warning. "auto" is /dev/shm/numoe-UID, because every Linux has that folder, it is emptied by a reboot,
// and a service and a shell have the same one, unlike a login's folder ($XDG_RUNTIME_DIR) or a unit's
// (/run/numoe).
//
// Reservations of other users' processes are not seen, nor those in other containers, even if the containers
// share the folder; there the memory limits of the containers divide the memory (Kubernetes, podman). The
// limit of a cgroup is shared only by the processes in it. One thread calls these functions, at the start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace numoe {

/// The kind of memory that a reservation covers: private (anonymous) memory only, or shared memory as well.
enum class PromisedMemory : uint8_t { kPrivate, kAll };

/// Memory that this process will allocate. The reservation ends when this object is destroyed, or with the
/// process, even if it crashes. Move-only; a process has at most one.
class MemoryReservation {
 public:
  /// Reserves nothing.
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
    uint64_t bytes = 0;  // reserved, and not allocated yet
  };

  /// Reads the reservations of the other processes. Other processes that call ReadReservations wait until
  /// this object is destroyed. `folder`: "auto", or a path, which is created if it does not exist. Returns an
  /// error if the folder cannot be used; with "auto" it logs a warning instead, and the process plans as if
  /// no other process had a reservation.
  static absl::StatusOr<HostMemory> ReadReservations(const std::string& folder,
                                                     const std::filesystem::path& root = "/");

  /// Returns the bytes that the machine and this process's cgroups have left, minus the reservations of the
  /// others; UINT64_MAX if nothing bounds the memory.
  uint64_t available() const { return available_; }
  /// Returns the other processes whose reservations were subtracted from the smallest bound.
  const std::vector<Other>& others() const { return others_; }
  /// Returns the reservations of others as part of a sentence: "of 31.50 GiB that are free 20.00 GiB are
  /// reserved by numoe-expert-worker, process 1234"; empty if there are none.
  std::string Others() const;
  /// Reserves `bytes` of this kind of memory in addition to what this process holds now. `program`: letters,
  /// digits and dashes. A failure is an error, or with "auto" a warning, as for ReadReservations. REQUIRES:
  /// this process has no reservation.
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
  bool must_ = false;           // a path was given, so a folder that cannot be used is an error
  FileDescriptor folder_;       // locked; -1 if it cannot be used, so that the others are unknown
  uint64_t free_ = UINT64_MAX;
  uint64_t available_ = UINT64_MAX;
  std::vector<Other> others_;
};

}  // namespace numoe
