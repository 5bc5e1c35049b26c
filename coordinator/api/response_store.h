// ResponseStore: answers of /v1/responses, kept so that they can be asked for again and gone on from.
//
// Held as JSON text, so that its size is known: so many and so many bytes are kept, then the oldest go. Each
// belongs to an owner, and is not there for anybody else. Lost when the program ends. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/http/http_limits.h"

namespace numoe {

struct StoredResponse {
  std::string response;  // the object, as it was answered
  std::string input;     // the list of items it answers, the conversation's before it included
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t count_max = limits::kStoredResponsesMax,
                         size_t bytes_max = limits::kStoredResponsesBytesMax)
      : count_max_(count_max), bytes_max_(bytes_max) {}

  /// Replaces the one of this id. One that is larger than all may be is not kept.
  void Put(uint64_t owner, const std::string& id, StoredResponse stored);
  std::optional<StoredResponse> Get(uint64_t owner, const std::string& id);
  /// False: there was none.
  bool Remove(uint64_t owner, const std::string& id);
  size_t bytes();

 private:
  using Key = std::pair<uint64_t, std::string>;
  struct Entry {
    StoredResponse stored;
    std::list<Key>::iterator age;
  };

  static size_t Bytes(const Key& key, const StoredResponse& stored);
  void Erase(std::map<Key, Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t count_max_, bytes_max_;
  Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<Key> ages_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe
