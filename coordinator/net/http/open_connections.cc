#include "coordinator/net/http/open_connections.h"

#include "common/base/check.h"

namespace numoe::net {

// Moves a member to the end of `line`, or to no line if it is null. Members with spare slots are in no line,
// and a member that is in `line` already keeps its position. Returns false if the member has been removed or
// evicted.
bool OpenConnections::Move(Member* member, std::list<Member*>* line) {
  const auto found = slots_.find(member);
  if (found == slots_.end()) return false;
  Slot& slot = found->second;
  if (!slot.usual || slot.line == line) return true;
  if (slot.line != nullptr) slot.line->erase(slot.at);
  if (line != nullptr) slot.at = line->insert(line->end(), member);
  slot.line = line;
  return true;
}

void OpenConnections::Erase(Slots::iterator slot) {
  NUMOE_CHECK(usual_ > 0 || !slot->second.usual);
  Move(slot->first, nullptr);
  usual_ -= slot->second.usual ? 1 : 0;
  slots_.erase(slot);
}

void OpenConnections::MakeRoom() {
  const std::list<Member*>& line = idle_.empty() ? reading_ : idle_;
  if (line.empty()) return;
  Member* const oldest = line.front();
  NUMOE_CHECK(slots_.count(oldest) == 1 && slots_.at(oldest).line == &line);
  Erase(slots_.find(oldest));
  oldest->Evict();
}

bool OpenConnections::Add(Member* member) {
  const MutexLock lock(mutex_);
  if (usual_ >= usual_max_) MakeRoom();
  const bool usual = usual_ < usual_max_;
  usual_ += usual ? 1 : 0;
  NUMOE_CHECK_LE(usual_, usual_max_);
  const bool is_new = slots_.emplace(member, Slot{.usual = usual, .line = nullptr, .at = {}}).second;
  NUMOE_CHECK(is_new) << "a connection is added once";
  Move(member, &idle_);
  return usual;
}

void OpenConnections::Remove(Member* member) {
  const MutexLock lock(mutex_);
  if (const auto slot = slots_.find(member); slot != slots_.end()) Erase(slot);
}

bool OpenConnections::SetReadingBody(Member* member) {
  const MutexLock lock(mutex_);
  return Move(member, &reading_);
}

bool OpenConnections::SetBusy(Member* member) {
  const MutexLock lock(mutex_);
  return Move(member, nullptr);
}

void OpenConnections::SetIdle(Member* member) {
  const MutexLock lock(mutex_);
  Move(member, &idle_);
}

size_t OpenConnections::size() {
  const MutexLock lock(mutex_);
  return slots_.size();
}

OpenConnections::Slots OpenConnections::All() {
  const MutexLock lock(mutex_);
  return slots_;
}

bool OpenConnections::Has(Member* member) {
  const MutexLock lock(mutex_);
  return slots_.count(member) > 0;
}

// Does not hold the lock while a member drops its answer: that may release the last reference to a
// connection, whose destructor calls Remove.
void OpenConnections::DropAnswers() {
  for (const auto& [member, slot] : All()) {
    // Dropping an answer may destroy another member, because a task that forwards holds both.
    if (Has(member)) member->DropAnswer();
  }
}

}  // namespace numoe::net
