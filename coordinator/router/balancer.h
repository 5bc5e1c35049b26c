// Balancer: chooses the backend of each request. The rules are in coordinator/router/CONTRACT.md.
//
// The balancer knows each backend's last health, the requests that run on it and the beginnings of prompts
// that it computed; it makes decisions and does nothing else. Backends are added and removed; each has a
// number that no later backend gets, so that an old number never names another backend. The balancer has no
// clock: the caller passes times, in seconds since any fixed moment. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/mutex.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/router/prefix_map.h"
#include "coordinator/router/prompt_prefix.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {

/// A kReady backend takes requests. A kDegraded one has reported that it waits for something; it gets
/// requests if none is ready. A kOut backend gets no requests.
enum class BackendHealth : uint8_t { kReady, kDegraded, kOut };

/// Why a backend was chosen: it has computed the prompt's beginning, it has the least load, or it keeps an
/// answer that the request names.
enum class RouteReason : uint8_t { kPrefix, kLoad, kResponse };
inline constexpr size_t kRouteReasonCount = 3;
const char* RouteReasonName(RouteReason by);

struct BackendChoice {
  int backend = 0;
  RouteReason by = RouteReason::kLoad;
  std::shared_ptr<void> running;  // the request counts as running until the last copy is destroyed
};

struct BackendState {
  BackendHealth health = BackendHealth::kOut;
  std::string detail;  // why it is not ready
  int running = 0;
  std::array<uint64_t, kRouteReasonCount> routed{};  // requests so far, [RouteReason]
  uint64_t retries = 0;                              // requests that another backend tried afterwards
  bool leaving = false;
};

using BackendSet = absl::flat_hash_set<int>;

class Balancer {
 public:
  /// Adds a backend, which is kOut at first, and returns its number.
  int Add();
  /// Sends the backend no new requests, whatever its health; running requests continue. Return undoes this.
  void Leave(int backend);
  void Return(int backend);
  /// Removes the backend; returns false, and keeps it, if a request is running on it.
  bool Remove(int backend);

  /// Records the health that a backend reported; one that does not answer, or refuses, is kOut. If requests
  /// report kOut again between two checks, the next check is not postponed. Returns the health before;
  /// nullopt if there is no such backend.
  std::optional<BackendHealth> RecordHealth(int backend, BackendHealth health, const std::string& detail,
                                            double now_s);
  /// Returns when to check the backend's health again: at short intervals while it is ready, at growing ones
  /// while it is not.
  double NextCheck(int backend) const;

  /// Chooses a backend that is not in `tried`; if `tried` is not empty, only a ready one. Returns nullopt if
  /// no backend can take the request. The BackendChoice must not outlive the Balancer.
  std::optional<BackendChoice> Route(const PromptPrefix& prompt, const BackendSet& tried);
  /// Chooses the backend that keeps the answer, whatever its health; nullopt if it was removed.
  std::optional<BackendChoice> RouteTo(int backend);
  /// Counts a request of this backend that another backend tries now.
  void CountRetry(int backend);

  void RememberResponse(const std::string& key, int backend);
  std::optional<int> ResponseBackend(const std::string& key);
  /// Forgets which backend computed what, because all backends have emptied their prefix caches.
  void ForgetPrefixes();

  /// Returns kOut for a backend that was removed.
  BackendState StateOf(int backend) const;
  size_t prefixes() const;
  /// Returns all backends in the order in which they were added.
  std::vector<int> backends() const;

 private:
  struct State {
    BackendHealth health = BackendHealth::kOut;
    bool leaving = false;
    std::string detail = "not asked yet";
    double next_check_s = 0;
    double back_off_s = 0;
    int running = 0;
    double load = 0;  // the sum over the running requests
    std::array<uint64_t, kRouteReasonCount> routed{};
    uint64_t retries = 0;
  };

  State* Find(int backend) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const State* Find(int backend) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return const_cast<Balancer*>(this)->Find(backend);
  }
  std::optional<int> LeastLoaded(const BackendSet& candidates) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BackendSet Candidates(const BackendSet& tried) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BackendChoice Enter(int backend, RouteReason by, double load) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<int, State> states_ ABSL_GUARDED_BY(mutex_);
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  PrefixMap prefixes_ ABSL_GUARDED_BY(mutex_){limits::kRouterPrefixesMax};
  PrefixMap responses_ ABSL_GUARDED_BY(mutex_){limits::kStoredResponsesMax * limits::kRouterBackendsMax};
};

}  // namespace numoe::router
