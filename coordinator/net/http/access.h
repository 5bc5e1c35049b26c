// Access: who may ask, as whom, and how much at once.
//
// Keys come from flags and from files. A file has one key a line, and behind the key what it is to have:
// "KEY name=NAME weight=N"; '#' begins a comment. A key without a name is called key-N by its number. A file
// is read again when it changes: one without a key takes every key of it away, one that is malformed, cannot
// be read or has gone leaves the last good keys, and the log says which of them it was. Where no source of
// keys was named, everybody may; where one was, and no key is left, nobody. A key is brought as
// "Authorization: Bearer KEY" or, as Anthropic's clients do, "x-api-key: KEY"; comparing takes the same time
// whatever is wrong. A key is known to the rest of the program by its number and name only (caller.h).
// Thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/watched_file.h"
#include "coordinator/net/http/caller.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::net {

struct AccessOptions {
  std::vector<std::string> keys;
  std::filesystem::path key_file;        // empty: none
  std::vector<std::string> admin_keys;   // whose callers may change what is others'
  std::filesystem::path admin_key_file;  // empty: none
  int requests_per_key_max = 0;          // sequences of them at once; 0: any number
};

class Access {
 public:
  /// One request's place among those of its key; gives it back when destroyed. Must not outlive the Access.
  class Slot final : public RequestPlace {
   public:
    /// `counted`: it takes a place; else it only says whose the request is.
    Slot(Access& access, Caller caller, bool counted)
        : access_(access), caller_(std::move(caller)), counted_(counted) {}
    ~Slot() override;
    Slot(const Slot&) = delete;

    bool Widen(int sequences) override;
    const Caller& caller() const { return caller_; }

   private:
    Access& access_;
    const Caller caller_;
    const bool counted_;
    int sequences_ = 1;  // guarded by the Access's mutex
  };

  /// INVALID_ARGUMENT: a key that is empty or no word, a file without one, or the same key, name or word
  /// behind a key twice; names the flags that were given and the line, and never shows a key.
  static absl::StatusOr<std::unique_ptr<Access>> Create(AccessOptions options);

  /// Whether requests need a key.
  bool guarded() const { return guarded_; }
  /// UNAUTHENTICATED: no key, or none of ours. RESOURCE_EXHAUSTED: the key's requests are as many as may be;
  /// never for one that is not `counted`.
  absl::StatusOr<std::shared_ptr<Slot>> Enter(const HttpRequest& request, bool counted = true);

 private:
  struct Key {
    std::string text;
    Caller caller;
    const char* flag = "";  // that it came by
  };
  // A file of keys and what it had when it was last good.
  struct KeyFile {
    const char* flag;
    std::filesystem::path path;
    bool admin;
    WatchedFile watched;
    std::vector<Key> keys;
    bool gone = false;   // and the log has said so
    bool stale = false;  // it has changed since it was good
  };

  explicit Access(AccessOptions options);
  static absl::StatusOr<std::vector<Key>> ReadKeys(const KeyFile& file);
  absl::StatusOr<std::vector<Key>> FlagKeys() const;
  absl::Status Rebuild() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Caller* Find(std::string_view key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessOptions options_;
  const bool guarded_;
  Mutex mutex_;
  std::vector<KeyFile> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<Key> keys_ ABSL_GUARDED_BY(mutex_);  // of flags and files together
  int last_tenant_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> numbers_ ABSL_GUARDED_BY(mutex_);  // of keys, also of many that are gone
  std::chrono::steady_clock::time_point next_try_ ABSL_GUARDED_BY(mutex_);
  std::string said_ ABSL_GUARDED_BY(mutex_);  // what was wrong with the files when they were read last
  std::map<int, int> running_ ABSL_GUARDED_BY(mutex_);  // by tenant; only tenants with requests
};

}  // namespace numoe::net
