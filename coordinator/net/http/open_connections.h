// OpenConnections: the open connections of a server, their number, and which one makes room for a new one.
//
// A connection has a regular slot, or a spare one if all regular slots are taken. A connection can be evicted
// unless it has a complete, admitted request. If all regular slots are taken, a new connection evicts the one
// that has been idle for longest, or, if none is idle, the one that has been sending its body for longest.
// Therefore silent clients, slow clients and clients that do not read public answers cannot keep others out.
// A connection and its pending answer hold references to each other until the answer has been sent or the
// client has gone; a server that ends earlier drops the answers. Thread-safe except DropAnswers.
#pragma once

#include <cstddef>
#include <list>
#include <map>

#include "common/base/mutex.h"

namespace numoe::net {

class OpenConnections {
 public:
  class Member {
   public:
    virtual ~Member() = default;
    /// Drops the answer without telling its handler or the client. REQUIRES: the server's threads have ended.
    virtual void DropAnswer() = 0;
    /// Tells the connection to close, because another one has its slot now. May be called on any thread; must
    /// neither close nor destroy the connection before it returns.
    virtual void Evict() = 0;
  };

  explicit OpenConnections(size_t usual_max) : usual_max_(usual_max) {}

  /// Adds a connection, which is idle. Returns whether it has a regular slot.
  bool Add(Member* member);
  /// Removes a connection that has closed. A second call has no effect.
  void Remove(Member* member);
  /// Records that a request was admitted whose body is being read. Returns false if the connection was
  /// evicted.
  bool SetReadingBody(Member* member);
  /// Records that the admitted request is complete. Returns false if the connection was evicted.
  bool SetBusy(Member* member);
  /// Records that the connection has no request any more.
  void SetIdle(Member* member);
  size_t size();
  /// Drops the answers of all connections. REQUIRES: the server's threads have ended.
  void DropAnswers();

 private:
  struct Slot {
    bool usual = false;                  // a regular slot, not a spare one
    std::list<Member*>* line = nullptr;  // idle_ or reading_; null if it cannot be evicted
    std::list<Member*>::iterator at;     // its position in the line
  };
  using Slots = std::map<Member*, Slot>;

  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Slots::iterator slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Move(Member* member, std::list<Member*>* line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slots All();
  bool Has(Member* member);

  const size_t usual_max_;
  Mutex mutex_;
  Slots slots_ ABSL_GUARDED_BY(mutex_);
  // Connections with regular slots, in the order in which they are evicted.
  std::list<Member*> idle_ ABSL_GUARDED_BY(mutex_), reading_ ABSL_GUARDED_BY(mutex_);
  size_t usual_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe::net
