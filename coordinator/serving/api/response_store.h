// ResponseStore: answers of /v1/responses, stored so that clients can read and continue them later.
//
// Answers are stored as JSON text, so that their size is known. Their number and their bytes are limited:
// beyond either limit the store drops the oldest answers of the owner with the most, and never those of an
// owner whose share is equal or smaller. Answers in progress are stored as well, so that they can be read and
// cancelled. They count for their owner, may take half of the room, and are dropped only if no owner above
// its equal share has a finished answer. Only its owner can see an answer. All are lost when the program
// ends. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/net/http/http_limits.h"

namespace numoe::serving {

struct StoredResponse {
  std::string response;  // the object as it was answered
  std::string input;     // the list of items that it answers, including the conversation before
  bool in_progress = false;
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t count_max = limits::kStoredResponsesMax,
                         size_t bytes_max = limits::kStoredResponsesBytesMax)
      : count_max_(count_max), bytes_max_(bytes_max) {}

  /// Replaces the response with this id. Returns false if it is not stored because its owner has no room for
  /// it.
  bool Put(uint64_t owner, const std::string& id, StoredResponse stored);
  std::optional<StoredResponse> Get(uint64_t owner, const std::string& id);
  /// Returns false if there was no such response.
  bool Remove(uint64_t owner, const std::string& id);
  size_t bytes();

 private:
  using Key = std::pair<uint64_t, std::string>;
  struct Entry {
    StoredResponse stored;
    std::list<Key>::iterator age;  // the position in its owner's list
  };
  struct Owner {
    size_t bytes = 0;
    size_t count = 0;
    size_t in_progress_bytes = 0;
    std::list<Key> finished, in_progress;  // the oldest first
  };

  static size_t Bytes(const Key& key, const StoredResponse& stored);
  void Erase(std::map<Key, Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomInProgress(uint64_t owner, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseOldest(size_t Owner::*measure, size_t all_max) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t count_max_, bytes_max_;
  Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Owner> owners_ ABSL_GUARDED_BY(mutex_);  // only owners with responses
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe::serving
