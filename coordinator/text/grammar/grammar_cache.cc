#include "coordinator/text/grammar/grammar_cache.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::text {

absl::StatusOr<std::shared_ptr<const CompiledGrammar>> GrammarCache::Get(const GrammarSource& source) {
  {
    const MutexLock lock(mutex_);
    if (auto known = Find(source); known != nullptr) return known;
  }
  ASSIGN_OR_RETURN(auto compiled, CompiledGrammar::Compile(source, vocabulary_));
  const MutexLock lock(mutex_);
  if (auto known = Find(source); known != nullptr) return known;
  entries_.push_front({source, compiled});
  by_source_.emplace(source, entries_.begin());
  NUMOE_CHECK_EQ(by_source_.size(), entries_.size());
  DropOldest();
  return compiled;
}

size_t GrammarCache::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

std::shared_ptr<const CompiledGrammar> GrammarCache::Find(const GrammarSource& source) {
  const auto found = by_source_.find(source);
  if (found == by_source_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->grammar;
}

// The newest grammar is kept, whatever its size.
void GrammarCache::DropOldest() {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.grammar->bytes() + entry.source.bytes();
  while (bytes > bytes_max_ && entries_.size() > 1) {
    const Entry& oldest = entries_.back();
    NUMOE_DCHECK_GE(bytes, oldest.grammar->bytes() + oldest.source.bytes());
    bytes -= oldest.grammar->bytes() + oldest.source.bytes();
    by_source_.erase(oldest.source);
    entries_.pop_back();
  }
}

}  // namespace numoe::text
