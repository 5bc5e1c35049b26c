// Balancer: which backend a request goes to. The rules are in coordinator/router/CONTRACT.md.
//
// Knows of each backend how it answered last, what runs on it, and which beginnings of prompts it computed;
// makes decisions and does nothing else. Backends come and go; each has a number of its own that no later one
// gets, so that a number which somebody still has is of that backend or of none. Has no clock: times are
// given to it, in seconds from any fixed moment. Thread-safe.
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

/// kReady takes requests; kDegraded says of itself that it waits for something, and is asked if none is
/// ready; kOut is not asked.
enum class BackendHealth : uint8_t { kReady, kDegraded, kOut };

/// Why a backend was chosen: it computed the prompt's beginning; it had least to do; it keeps an answer that
/// the request names.
enum class PlacedBy : uint8_t { kPrefix, kLoad, kResponse };
inline constexpr size_t kPlacedByCount = 3;
const char* PlacedByName(PlacedBy by);

struct BackendChoice {
  int backend = 0;
  PlacedBy by = PlacedBy::kLoad;
  std::shared_ptr<void> running;  // counts on the backend until the last holder lets go
};

struct BackendState {
  BackendHealth health = BackendHealth::kOut;
  std::string detail;  // why it is not ready
  int running = 0;
  std::array<uint64_t, kPlacedByCount> placed{};  // so far, by PlacedBy
  uint64_t retries = 0;                           // that were placed elsewhere after it
  bool leaving = false;
};

using BackendSet = absl::flat_hash_set<int>;

class Balancer {
 public:
  /// A backend more, which is kOut; its number.
  int Add();
  /// No new request goes to it, whatever it says; what runs goes on. Undone by Return.
  void Leave(int backend);
  void Return(int backend);
  /// Forgets it, unless something runs on it: then false.
  bool Remove(int backend);

  /// What the backend said of itself. One that says nothing, or refuses, is kOut; that requests find it so
  /// between two looks does not put the next one off. The health before; none: there is no such backend.
  std::optional<BackendHealth> Hear(int backend, BackendHealth health, const std::string& detail,
                                    double now_s);
  /// When the backend is to be asked for its health again: soon while it is ready, ever later while it is
  /// not.
  double NextLook(int backend) const;

  /// Backends of `tried` are not chosen again; with any of them, only ready ones are. None: nobody can take
  /// it. The returned BackendChoice must not outlive the Balancer.
  std::optional<BackendChoice> Place(const PromptPrefix& prompt, const BackendSet& tried);
  /// To the backend that keeps the answer, whatever its health. None: it is no more.
  std::optional<BackendChoice> PlaceAt(int backend);
  /// What was placed there is tried elsewhere.
  void CountRetry(int backend);

  void RememberResponse(const std::string& key, int backend);
  std::optional<int> ResponseBackend(const std::string& key);
  /// All backends have forgotten what they computed.
  void ForgetPrefixes();

  /// Of one that is no more: kOut.
  BackendState StateOf(int backend) const;
  size_t prefixes() const;
  /// All, in the order in which they came.
  std::vector<int> backends() const;

 private:
  struct State {
    BackendHealth health = BackendHealth::kOut;
    bool leaving = false;
    std::string detail = "not asked yet";
    double next_look_s = 0;
    double back_off_s = 0;
    int running = 0;
    double load = 0;  // of what runs
    std::array<uint64_t, kPlacedByCount> placed{};
    uint64_t retries = 0;
  };

  State* Find(int backend) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const State* Find(int backend) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return const_cast<Balancer*>(this)->Find(backend);
  }
  std::optional<int> LeastLoaded(const BackendSet& candidates) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BackendSet Candidates(const BackendSet& tried) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  BackendChoice Enter(int backend, PlacedBy by, double load) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<int, State> states_ ABSL_GUARDED_BY(mutex_);
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
  PrefixMap prefixes_ ABSL_GUARDED_BY(mutex_){limits::kRouterPrefixesMax};
  PrefixMap responses_ ABSL_GUARDED_BY(mutex_){limits::kStoredResponsesMax * limits::kRouterBackendsMax};
};

}  // namespace numoe::router
