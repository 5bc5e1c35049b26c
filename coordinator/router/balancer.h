// Balancer: which backend a request goes to. The rules are in coordinator/router/CONTRACT.md.
//
// Knows of each backend how it answered last, what runs on it, and which beginnings of prompts it computed;
// makes decisions and does nothing else. Has no clock: times are given to it, in seconds from any fixed
// moment. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/router/prefix_map.h"
#include "coordinator/router/prompt_prefix.h"

namespace numoe {

/// kReady takes requests; kDegraded says of itself that it waits for something, and is asked if none is
/// ready; kOut is not asked.
enum class BackendHealth : uint8_t { kReady, kDegraded, kOut };

/// Why a backend was chosen: it computed the prompt's beginning; it had least to do; it keeps an answer that
/// the request names.
enum class PlacedBy : uint8_t { kPrefix, kLoad, kResponse };
const char* PlacedByName(PlacedBy by);

struct Placement {
  int backend = 0;
  PlacedBy by = PlacedBy::kLoad;
  std::shared_ptr<void> running;  // counts on the backend until the last holder lets go
};

struct BackendState {
  BackendHealth health = BackendHealth::kOut;
  std::string detail;  // why it is not ready
  int running = 0;
};

class Balancer {
 public:
  explicit Balancer(int backends);

  /// What the backend said of itself. One that says nothing, or refuses, is kOut; that requests find it so
  /// between two looks does not put the next one off.
  void Hear(int backend, BackendHealth health, const std::string& detail, double now_s);
  /// When the backend is to be asked for its health again: soon while it is ready, ever later while it is
  /// not.
  double NextLook(int backend) const;

  /// Backends of `tried` (by index) are not chosen again; with any of them, only ready ones are. None: nobody
  /// can take it. The returned Placement must not outlive the Balancer.
  std::optional<Placement> Place(const PromptPrefix& prompt, const std::vector<bool>& tried);
  /// To the backend that keeps the answer, whatever its health.
  Placement PlaceAt(int backend);

  void RememberResponse(const std::string& key, int backend);
  std::optional<int> ResponseBackend(const std::string& key);
  /// Backends have forgotten what they computed.
  void ForgetPrefixes();

  BackendState StateOf(int backend) const;
  size_t prefixes() const;
  int backends() const { return static_cast<int>(states_.size()); }

 private:
  struct State {
    BackendHealth health = BackendHealth::kOut;
    std::string detail = "not asked yet";
    double next_look_s = 0;
    double back_off_s = 0;
    int running = 0;
    double load = 0;  // of what runs
  };

  State& At(int backend) { return states_[static_cast<size_t>(backend)]; }
  const State& At(int backend) const { return states_[static_cast<size_t>(backend)]; }
  std::optional<int> LeastLoaded(const std::vector<bool>& candidates) const;
  std::vector<bool> Candidates(const std::vector<bool>& tried) const;
  Placement Enter(int backend, PlacedBy by, double load);

  mutable std::mutex mutex_;
  std::vector<State> states_;
  PrefixMap prefixes_;
  PrefixMap responses_;
};

}  // namespace numoe
