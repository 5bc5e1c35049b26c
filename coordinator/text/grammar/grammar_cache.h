// GrammarCache: compiled grammars by source, so that requests with the same schema compile it only once.
//
// If all grammars together take more than `bytes_max`, the least recently used ones are removed; requests
// that still hold one keep it. Errors are not cached. Thread-safe; Get compiles without holding the lock, so
// two requests that bring the same unknown source at the same time may both compile it.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::text {

class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const GrammarVocabulary> vocabulary,
                        size_t bytes_max = limits::kGrammarCacheBytesMax)
      : vocabulary_(std::move(vocabulary)), bytes_max_(bytes_max) {}

  absl::StatusOr<std::shared_ptr<const CompiledGrammar>> Get(const GrammarSource& source);
  size_t size() const;
  const std::shared_ptr<const GrammarVocabulary>& vocabulary() const { return vocabulary_; }

 private:
  struct Entry {
    GrammarSource source;
    std::shared_ptr<const CompiledGrammar> grammar;
  };

  std::shared_ptr<const CompiledGrammar> Find(const GrammarSource& source)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  const size_t bytes_max_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  std::map<GrammarSource, std::list<Entry>::iterator> by_source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace numoe::text
