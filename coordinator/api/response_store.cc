#include "coordinator/api/response_store.h"

namespace numoe {

size_t ResponseStore::Bytes(const Key& key, const StoredResponse& stored) {
  return sizeof(Entry) + key.second.size() + stored.response.size() + stored.input.size();
}

void ResponseStore::Erase(std::map<Key, Entry>::iterator entry) {
  bytes_ -= Bytes(entry->first, entry->second.stored);
  ages_.erase(entry->second.age);
  entries_.erase(entry);
}

void ResponseStore::Put(uint64_t owner, const std::string& id, StoredResponse stored) {
  const Key key(owner, id);
  const MutexLock lock(mutex_);
  if (const auto old = entries_.find(key); old != entries_.end()) Erase(old);
  if (Bytes(key, stored) > bytes_max_) return;
  bytes_ += Bytes(key, stored);
  entries_.emplace(key, Entry{std::move(stored), ages_.insert(ages_.end(), key)});
  while (entries_.size() > count_max_ || bytes_ > bytes_max_) Erase(entries_.find(ages_.front()));
}

std::optional<StoredResponse> ResponseStore::Get(uint64_t owner, const std::string& id) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find({owner, id});
  if (it == entries_.end()) return std::nullopt;
  return it->second.stored;
}

bool ResponseStore::Remove(uint64_t owner, const std::string& id) {
  const MutexLock lock(mutex_);
  const auto it = entries_.find({owner, id});
  if (it == entries_.end()) return false;
  Erase(it);
  return true;
}

size_t ResponseStore::bytes() {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace numoe
