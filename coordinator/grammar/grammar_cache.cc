#include "coordinator/grammar/grammar_cache.h"

#include "common/base/status.h"

namespace numoe {

absl::StatusOr<std::shared_ptr<const CompiledGrammar>> GrammarCache::Get(const GrammarSource& source) {
  const Key key = {source.kind, source.text};
  {
    const std::lock_guard lock(mutex_);
    if (auto known = Find(key); known != nullptr) return known;
  }
  ASSIGN_OR_RETURN(auto compiled, CompiledGrammar::Compile(source, vocabulary_));
  const std::lock_guard lock(mutex_);
  if (auto known = Find(key); known != nullptr) return known;
  entries_.push_front({source, compiled});
  by_source_.emplace(key, entries_.begin());
  DropOldest();
  return compiled;
}

size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::shared_ptr<const CompiledGrammar> GrammarCache::Find(const Key& key) {
  const auto found = by_source_.find(key);
  if (found == by_source_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->grammar;
}

// The newest stays, whatever its size.
void GrammarCache::DropOldest() {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.grammar->bytes() + entry.source.text.size();
  while (bytes > bytes_max_ && entries_.size() > 1) {
    const Entry& oldest = entries_.back();
    bytes -= oldest.grammar->bytes() + oldest.source.text.size();
    by_source_.erase({oldest.source.kind, oldest.source.text});
    entries_.pop_back();
  }
}

}  // namespace numoe
