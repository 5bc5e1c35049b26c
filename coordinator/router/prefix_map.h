// PrefixMap: which backend computed which beginning of a prompt last, as far back as there is room.
//
// A beginning is a mark of prompt_prefix.h. Each is one backend's: the last that was asked. The least
// recently used go when the map is full, and of one prompt the longest first. A mark that was the last one of
// a prompt is an *end*: a prompt that goes on behind it is most likely the same conversation, one turn later.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace numoe::router {

struct KnownPrefix {
  int backend = 0;
  size_t marks = 0;  // that it knows
  bool end = false;  // of an earlier prompt
};

class PrefixMap {
 public:
  explicit PrefixMap(size_t entries_max) : entries_max_(entries_max) {}

  /// The longest beginning that a backend for which `usable` holds knows.
  std::optional<KnownPrefix> Find(absl::Span<const uint64_t> marks,
                                  absl::FunctionRef<bool(int)> usable) const;
  void Remember(absl::Span<const uint64_t> marks, int backend);
  /// The backend knows nothing any more.
  void Forget(int backend);

  size_t size() const { return entries_.size(); }
  /// Beginnings that are this backend's.
  size_t size_of(int backend) const;

 private:
  struct Entry {
    int backend = 0;
    bool end = false;
    std::list<uint64_t>::iterator age;
  };

  void Erase(absl::flat_hash_map<uint64_t, Entry>::iterator entry);
  void TakeFrom(int backend);

  const size_t entries_max_;
  absl::flat_hash_map<uint64_t, Entry> entries_;
  std::list<uint64_t> ages_;                // the least recently used first
  absl::flat_hash_map<int, size_t> sizes_;  // of those that have any
};

}  // namespace numoe::router
