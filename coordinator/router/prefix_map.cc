#include "coordinator/router/prefix_map.h"

#include "common/base/check.h"

namespace numoe {

PrefixMap::PrefixMap(int backends, size_t entries_max)
    : entries_max_(entries_max), sizes_(static_cast<size_t>(backends)) {}

std::optional<KnownPrefix> PrefixMap::Find(absl::Span<const uint64_t> marks,
                                           absl::FunctionRef<bool(int)> usable) const {
  for (size_t count = marks.size(); count > 0; --count) {
    const auto it = entries_.find(marks[count - 1]);
    if (it != entries_.end() && usable(it->second.backend))
      return KnownPrefix{it->second.backend, count, it->second.end};
  }
  return std::nullopt;
}

void PrefixMap::Remember(absl::Span<const uint64_t> marks, int backend) {
  NUMOE_CHECK(backend >= 0 && static_cast<size_t>(backend) < sizes_.size()) << backend;
  // Backwards, so that of one prompt the shortest beginning is the most recently used.
  for (size_t i = marks.size(); i-- > 0;) {
    const auto [it, fresh] = entries_.try_emplace(marks[i]);
    Entry& entry = it->second;
    if (fresh) {
      entry.age = ages_.insert(ages_.end(), marks[i]);
    } else {
      ages_.splice(ages_.end(), ages_, entry.age);
      --sizes_[static_cast<size_t>(entry.backend)];
    }
    entry.backend = backend;
    entry.end = entry.end || i + 1 == marks.size();
    ++sizes_[static_cast<size_t>(backend)];
  }
  while (entries_.size() > entries_max_) Erase(entries_.find(ages_.front()));
}

void PrefixMap::Forget(int backend) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto next = std::next(it);
    if (it->second.backend == backend) Erase(it);
    it = next;
  }
}

void PrefixMap::Erase(absl::flat_hash_map<uint64_t, Entry>::iterator entry) {
  --sizes_[static_cast<size_t>(entry->second.backend)];
  ages_.erase(entry->second.age);
  entries_.erase(entry);
}

}  // namespace numoe
