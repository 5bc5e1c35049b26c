// Access: which API keys are accepted, which caller a key stands for, and how many requests it may have at
// once.
//
// Keys come from flags and from files. A line of a file has one key, followed by optional attributes:
// "KEY name=NAME weight=N"; '#' begins a comment. A key without a name is called key-N after its number. A
// file is read again when it changes. If it has become empty, all of its keys are revoked; if it is
// malformed, cannot be read or does not exist any more, the last good keys stay valid, and the log says which
// of these happened. If no flag names a source of keys, everybody may use the server; if a flag does and no
// key is left, nobody may. A client sends its key as "Authorization: Bearer KEY" or, as Anthropic's clients
// do, as "x-api-key: KEY". Keys are compared in constant time. The rest of the program knows a key by its
// number and name only (caller.h). Thread-safe.
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
  std::filesystem::path key_file;        // empty if there is no such file
  std::vector<std::string> admin_keys;   // their callers may change what belongs to other keys
  std::filesystem::path admin_key_file;  // empty if there is no such file
  int requests_per_key_max = 0;          // sequences that a key may have at once; 0: no limit
};

class Access {
 public:
  /// The slot that one request takes up within its key's limit; the destructor frees it. Must not outlive the
  /// Access.
  class Slot final : public ConcurrencySlot {
   public:
    /// `counted`: the request takes up a slot; otherwise this object only holds the request's caller.
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

  /// INVALID_ARGUMENT: a key is empty or has characters that no header can carry, a file has no key, or a
  /// key, a name or an attribute of a key occurs twice. The message names the flags and the line, and never
  /// shows a key.
  static absl::StatusOr<std::unique_ptr<Access>> Create(AccessOptions options);

  /// Whether requests need a key.
  bool guarded() const { return guarded_; }
  /// UNAUTHENTICATED: the request has no key, or an unknown one. RESOURCE_EXHAUSTED: the key already has as
  /// many requests as it may have; a request that is not `counted` never gets this error.
  absl::StatusOr<std::shared_ptr<Slot>> Enter(const HttpRequest& request, bool counted = true);

 private:
  struct Key {
    std::string text;
    Caller caller;
    const char* flag = "";  // the flag that the key came from
  };
  // A file of keys, with the keys that it had when it was last read without an error.
  struct KeyFile {
    const char* flag;
    std::filesystem::path path;
    bool admin;
    WatchedFile watched;
    std::vector<Key> keys;
    bool gone = false;   // the file does not exist any more, and the log has said so
    bool stale = false;  // the file has changed since it was last read without an error
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
  std::vector<Key> keys_ ABSL_GUARDED_BY(mutex_);  // of all flags and files
  int last_tenant_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> numbers_ ABSL_GUARDED_BY(mutex_);  // by key; also of many revoked keys
  std::chrono::steady_clock::time_point next_try_ ABSL_GUARDED_BY(mutex_);
  // The error of the files when they were last read; "" if there was none.
  std::string last_problem_ ABSL_GUARDED_BY(mutex_);
  std::map<int, int> running_ ABSL_GUARDED_BY(mutex_);  // by tenant; only tenants with requests
};

}  // namespace numoe::net
