// OpenConnections: the connections of a server that are open, counted and reachable by whoever ends it.
//
// A connection has a usual place, or a spare one if all usual places are taken. A connection without a whole
// request that was admitted can be evicted: if all places are taken, a new connection gets the place of the
// one that has been silent for longest, or, if all have begun a request, of the one that has been sending its
// body for longest. So neither silent clients, nor slow ones, nor those that do not read public answers keep
// others out. A connection that is answering and its answer hold references to each other until the answer
// has been sent or the client has gone; a server that ends before that drops the answers. Thread-safe except
// for DropAnswers.
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
    /// Drops the answer without telling its maker or the client. REQUIRES: the server's threads have ended.
    virtual void DropAnswer() = 0;
    /// Its place is another's now: it is to close. Any thread; must neither close nor end it before it
    /// returns.
    virtual void GiveWay() = 0;
  };

  explicit OpenConnections(size_t usual_max) : usual_max_(usual_max) {}

  /// A new connection, without a request. Whether it has a usual place.
  bool Enter(Member* member);
  /// It is not open any more. Nothing happens the second time.
  void Leave(Member* member);
  /// Its request was let in, and the body is on its way. False: it has given way already.
  bool Await(Member* member);
  /// It has a whole request in hand that was let in. False: it has given way already.
  bool Ask(Member* member);
  /// It has none any more.
  void Rest(Member* member);
  size_t size();
  /// REQUIRES: the server's threads have ended.
  void DropAnswers();

 private:
  struct Place {
    bool usual = false;
    std::list<Member*>* line = nullptr;  // resting_ or awaiting_; null: it does not give way
    std::list<Member*>::iterator at;     // in the line
  };
  using Places = std::map<Member*, Place>;

  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(Places::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Move(Member* member, std::list<Member*>* line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Places All();
  bool Has(Member* member);

  const size_t usual_max_;
  Mutex mutex_;
  Places places_ ABSL_GUARDED_BY(mutex_);
  // In usual places, the longest first.
  std::list<Member*> resting_ ABSL_GUARDED_BY(mutex_), awaiting_ ABSL_GUARDED_BY(mutex_);
  size_t usual_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace numoe::net
