#include "coordinator/router/prefix_map.h"

#include <iterator>

#include "common/base/check.h"

namespace numoe::router {

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
  NUMOE_DCHECK_GE(backend, 0);
  // From the last mark to the first, so that a prompt's shortest beginning is the most recently used.
  for (size_t i = marks.size(); i-- > 0;) {
    const auto [it, fresh] = entries_.try_emplace(marks[i]);
    Entry& entry = it->second;
    if (fresh) {
      entry.age = ages_.insert(ages_.end(), marks[i]);
    } else {
      ages_.splice(ages_.end(), ages_, entry.age);
      TakeFrom(entry.backend);
    }
    entry.backend = backend;
    entry.end = entry.end || i + 1 == marks.size();
    ++sizes_[backend];
  }
  while (entries_.size() > entries_max_) Erase(entries_.find(ages_.front()));
  NUMOE_CHECK_EQ(ages_.size(), entries_.size());
}

void PrefixMap::Forget(int backend) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto next = std::next(it);
    if (it->second.backend == backend) Erase(it);
    it = next;
  }
}

void PrefixMap::Erase(absl::flat_hash_map<uint64_t, Entry>::iterator entry) {
  TakeFrom(entry->second.backend);
  ages_.erase(entry->second.age);
  entries_.erase(entry);
}

size_t PrefixMap::size_of(int backend) const {
  const auto it = sizes_.find(backend);
  return it == sizes_.end() ? 0 : it->second;
}

void PrefixMap::TakeFrom(int backend) {
  const auto it = sizes_.find(backend);
  NUMOE_CHECK(it != sizes_.end() && it->second > 0) << backend;
  if (--it->second == 0) sizes_.erase(it);
}

}  // namespace numoe::router
