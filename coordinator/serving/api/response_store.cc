#include "coordinator/serving/api/response_store.h"

#include "common/base/check.h"

namespace numoe::serving {

size_t ResponseStore::Bytes(const Key& key, const StoredResponse& stored) {
  return sizeof(Entry) + key.second.size() + stored.response.size() + stored.input.size();
}

void ResponseStore::Erase(std::map<Key, Entry>::iterator entry) {
  const bool in_progress = entry->second.stored.in_progress;
  const size_t bytes = Bytes(entry->first, entry->second.stored);
  const auto owner = owners_.find(entry->first.first);
  NUMOE_CHECK(owner != owners_.end() && owner->second.count > 0);
  NUMOE_CHECK(bytes_ >= bytes && owner->second.bytes >= bytes);
  NUMOE_CHECK_GE(owner->second.in_progress_bytes, in_progress ? bytes : 0);
  bytes_ -= bytes;
  owner->second.bytes -= bytes;
  owner->second.in_progress_bytes -= in_progress ? bytes : 0;
  (in_progress ? owner->second.in_progress : owner->second.finished).erase(entry->second.age);
  if (--owner->second.count == 0) owners_.erase(owner);
  entries_.erase(entry);
}

bool ResponseStore::HasRoomInProgress(uint64_t owner, size_t bytes) {
  const auto having = owners_.find(owner);
  if (having == owners_.end()) return bytes <= bytes_max_ / 2;
  return having->second.in_progress.size() < count_max_ / 2 &&
         having->second.in_progress_bytes + bytes <= bytes_max_ / 2;
}

// REQUIRES: all owners together exceed `all_max`, so that at least one of them exceeds its share.
void ResponseStore::EraseOldest(size_t Owner::*measure, size_t all_max) {
  NUMOE_CHECK(!owners_.empty());
  const size_t share = all_max / owners_.size();
  const auto rank = [measure](const Owner& owner) {
    return std::pair(!owner.finished.empty(), owner.*measure);
  };
  const Owner* loser = nullptr;
  for (const auto& [number, owner] : owners_) {
    if (owner.*measure <= share || (loser != nullptr && rank(owner) <= rank(*loser))) continue;
    loser = &owner;
  }
  NUMOE_CHECK(loser != nullptr);
  Erase(entries_.find((loser->finished.empty() ? loser->in_progress : loser->finished).front()));
}

bool ResponseStore::Put(uint64_t owner, const std::string& id, StoredResponse stored) {
  const Key key(owner, id);
  const size_t bytes = Bytes(key, stored);
  const MutexLock lock(mutex_);
  if (const auto old = entries_.find(key); old != entries_.end()) Erase(old);
  if (bytes > bytes_max_) return false;
  if (stored.in_progress && !HasRoomInProgress(owner, bytes)) return false;
  Owner& having = owners_[owner];
  bytes_ += bytes;
  having.bytes += bytes;
  having.in_progress_bytes += stored.in_progress ? bytes : 0;
  ++having.count;
  std::list<Key>& line = stored.in_progress ? having.in_progress : having.finished;
  entries_.emplace(key, Entry{std::move(stored), line.insert(line.end(), key)});
  while (entries_.size() > count_max_) EraseOldest(&Owner::count, count_max_);
  while (bytes_ > bytes_max_) EraseOldest(&Owner::bytes, bytes_max_);
  NUMOE_CHECK(entries_.size() <= count_max_ && bytes_ <= bytes_max_);
  NUMOE_DCHECK_EQ(entries_.empty(), owners_.empty());
  return entries_.count(key) > 0;
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

}  // namespace numoe::serving
