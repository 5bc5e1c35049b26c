// Access: who may ask, and how much at once.
//
// Keys come from a flag and from a file (one for each line, '#' begins a comment), which is read again when
// it changes: a broken file leaves the last good keys and logs why. No keys at all: everybody may. A key is
// brought as "Authorization: Bearer KEY" or, as Anthropic's clients do, "x-api-key: KEY"; comparing takes the
// same time whatever is wrong. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/watched_file.h"
#include "coordinator/http/exchange.h"

namespace numoe {

struct AccessOptions {
  std::vector<std::string> keys;
  std::filesystem::path key_file;  // empty: none
  int requests_per_key_max = 0;    // at once; 0: any number
};

class Access {
 public:
  /// One request's place among those of its key; gives it back when destroyed. Must not outlive the Access.
  class Slot {
   public:
    Slot(Access& access, std::string key) : access_(access), key_(std::move(key)) {}
    ~Slot();
    Slot(const Slot&) = delete;

   private:
    Access& access_;
    const std::string key_;
  };

  static absl::StatusOr<std::unique_ptr<Access>> Create(AccessOptions options);

  /// UNAUTHENTICATED: no key, or none of ours. RESOURCE_EXHAUSTED: the key's requests are as many as may be;
  /// never for one that is not `counted`, whose slot is null.
  absl::StatusOr<std::shared_ptr<Slot>> Enter(const HttpRequest& request, bool counted = true);

 private:
  explicit Access(AccessOptions options);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Known(std::string_view key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessOptions options_;
  Mutex mutex_;
  WatchedFile watched_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> file_keys_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> running_ ABSL_GUARDED_BY(mutex_);  // by key; only keys with requests
};

}  // namespace numoe
