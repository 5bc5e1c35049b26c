#include "coordinator/net/http/open_connections.h"

#include "common/base/check.h"

namespace numoe::net {

// Those in spare places stand in no line. Whoever is in the line already stays where it is.
bool OpenConnections::Move(Member* member, std::list<Member*>* line) {
  const auto found = places_.find(member);
  if (found == places_.end()) return false;
  Place& place = found->second;
  if (!place.usual || place.line == line) return true;
  if (place.line != nullptr) place.line->erase(place.at);
  if (line != nullptr) place.at = line->insert(line->end(), member);
  place.line = line;
  return true;
}

void OpenConnections::Remove(Places::iterator place) {
  NUMOE_CHECK(usual_ > 0 || !place->second.usual);
  Move(place->first, nullptr);
  usual_ -= place->second.usual ? 1 : 0;
  places_.erase(place);
}

void OpenConnections::MakeRoom() {
  const std::list<Member*>& line = resting_.empty() ? awaiting_ : resting_;
  if (line.empty()) return;
  Member* const oldest = line.front();
  NUMOE_CHECK(places_.count(oldest) == 1 && places_.at(oldest).line == &line);
  Remove(places_.find(oldest));
  oldest->GiveWay();
}

bool OpenConnections::Enter(Member* member) {
  const MutexLock lock(mutex_);
  if (usual_ >= usual_max_) MakeRoom();
  const bool usual = usual_ < usual_max_;
  usual_ += usual ? 1 : 0;
  NUMOE_CHECK_LE(usual_, usual_max_);
  const bool is_new = places_.emplace(member, Place{.usual = usual, .line = nullptr, .at = {}}).second;
  NUMOE_CHECK(is_new) << "a connection enters once";
  Move(member, &resting_);
  return usual;
}

void OpenConnections::Leave(Member* member) {
  const MutexLock lock(mutex_);
  if (const auto place = places_.find(member); place != places_.end()) Remove(place);
}

bool OpenConnections::Await(Member* member) {
  const MutexLock lock(mutex_);
  return Move(member, &awaiting_);
}

bool OpenConnections::Ask(Member* member) {
  const MutexLock lock(mutex_);
  return Move(member, nullptr);
}

void OpenConnections::Rest(Member* member) {
  const MutexLock lock(mutex_);
  Move(member, &resting_);
}

size_t OpenConnections::size() {
  const MutexLock lock(mutex_);
  return places_.size();
}

OpenConnections::Places OpenConnections::All() {
  const MutexLock lock(mutex_);
  return places_;
}

bool OpenConnections::Has(Member* member) {
  const MutexLock lock(mutex_);
  return places_.count(member) > 0;
}

// Without the lock while a member drops its answer: the last one who holds a connection ends it, which
// leaves.
void OpenConnections::DropAnswers() {
  for (const auto& [member, place] : All()) {
    // One may end another: a task that forwards holds both.
    if (Has(member)) member->DropAnswer();
  }
}

}  // namespace numoe::net
