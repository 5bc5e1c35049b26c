// WatchedFile: notices that a file has changed, for keys and certificates that are replaced while we serve.
//
// It calls stat at most once a second and compares device, inode, size, and the times of modification and of
// inode change. The time of modification alone would miss a replacement whose time is older or the same. It
// follows symbolic links, because Kubernetes swaps the link of a mounted secret. One thread at a time.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

namespace numoe {

class WatchedFile {
 public:
  /// Remembers the file's present state: Changed reports later changes only.
  explicit WatchedFile(std::filesystem::path path) : path_(std::move(path)), seen_(ReadState()) {}

  /// Returns true once for every change. A missing file counts as unchanged.
  bool Changed() {
    const auto now = std::chrono::steady_clock::now();
    if (path_.empty() || now - checked_ < std::chrono::seconds(1)) return false;
    checked_ = now;
    const std::optional<State> state = ReadState();
    missing_ = !state;
    if (!state || state == seen_) return false;
    seen_ = state;
    return true;
  }
  /// Whether the file was missing when Changed last called stat.
  bool missing() const { return missing_; }

 private:
  // Device, inode, size, and the times of modification and change in seconds and nanoseconds.
  using State = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t, int64_t, int64_t>;

  std::optional<State> ReadState() const {
    struct stat s = {};
    if (path_.empty() || stat(path_.c_str(), &s) != 0) return std::nullopt;
    return State(s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ctim.tv_sec,
                 s.st_ctim.tv_nsec);
  }

  std::filesystem::path path_;
  std::optional<State> seen_;
  std::chrono::steady_clock::time_point checked_;
  bool missing_ = false;
};

}  // namespace numoe
