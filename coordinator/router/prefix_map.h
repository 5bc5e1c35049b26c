// PrefixMap: remembers which backend last computed which beginning of a prompt.
//
// A beginning is a mark of prompt_prefix.h. Each mark belongs to one backend, the last that got a prompt with
// it. When the map is full, the least recently used marks are removed, and of one prompt the longest first. A
// mark that was the last one of a prompt is an *end*: a longer prompt with it is probably the next turn of
// the same conversation. Not thread-safe.
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
  size_t marks = 0;  // how many of the prompt's marks it has computed
  bool end = false;  // whether an earlier prompt ended there
};

class PrefixMap {
 public:
  explicit PrefixMap(size_t entries_max) : entries_max_(entries_max) {}

  /// Returns the longest beginning that belongs to a backend for which `usable` returns true.
  std::optional<KnownPrefix> Find(absl::Span<const uint64_t> marks,
                                  absl::FunctionRef<bool(int)> usable) const;
  void Remember(absl::Span<const uint64_t> marks, int backend);
  /// Removes the backend's marks.
  void Forget(int backend);

  size_t size() const { return entries_.size(); }
  /// Returns how many marks belong to this backend.
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
  std::list<uint64_t> ages_;                // marks, the least recently used first
  absl::flat_hash_map<int, size_t> sizes_;  // marks of each backend that has any
};

}  // namespace numoe::router
