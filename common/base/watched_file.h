// WatchedFile: notices that a file has changed, for keys and certificates that are replaced while we serve.
//
// Looks at most once a second and compares the time of modification, so asking costs nothing. Follows
// symbolic links: Kubernetes swaps the link of a mounted secret. One thread at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <utility>

namespace numoe {

class WatchedFile {
 public:
  /// As it is now counts as seen.
  explicit WatchedFile(std::filesystem::path path) : path_(std::move(path)), seen_(Modified()) {}

  /// True once for every change. A file that is missing has not changed.
  bool Changed() {
    const auto now = std::chrono::steady_clock::now();
    if (path_.empty() || now - looked_ < std::chrono::seconds(1)) return false;
    looked_ = now;
    const auto modified = Modified();
    if (modified == seen_ || modified == std::filesystem::file_time_type()) return false;
    seen_ = modified;
    return true;
  }

 private:
  std::filesystem::file_time_type Modified() const {
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path_, error);
    return error ? std::filesystem::file_time_type() : time;
  }

  std::filesystem::path path_;
  std::filesystem::file_time_type seen_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace numoe
