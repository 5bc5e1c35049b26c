#include "coordinator/router/balancer.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "common/base/check.h"
#include "common/base/limits.h"

namespace numoe {
namespace {

// A prompt this long is as much work as an answer takes while it is decoded: 8k tokens or so.
constexpr double kPromptBytesPerRequest = 32 << 10;

double LoadOf(const PromptPrefix& prompt) {
  return 1 + static_cast<double>(prompt.bytes) / kPromptBytesPerRequest;
}

uint64_t ResponseMark(const std::string& key) { return absl::HashOf(key); }

// Whether it pays to go where this beginning was computed: it is what an earlier turn ended with, or most of
// the prompt.
bool IsWorthIt(const KnownPrefix& known, const PromptPrefix& prompt) {
  return known.end || 2 * MarkBytes(known.marks - 1) >= prompt.bytes;
}

}  // namespace

const char* PlacedByName(PlacedBy by) {
  constexpr const char* kNames[] = {"prefix", "load", "response"};
  return kNames[static_cast<size_t>(by)];
}

Balancer::Balancer(int backends)
    : states_(static_cast<size_t>(backends)),
      prefixes_(backends, limits::kRouterPrefixesMax),
      responses_(backends, limits::kStoredResponsesMax * static_cast<size_t>(backends)) {
  NUMOE_CHECK_GT(backends, 0);
}

void Balancer::Hear(int backend, BackendHealth health, const std::string& detail, double now_s) {
  const std::lock_guard lock(mutex_);
  State& state = At(backend);
  state.detail = detail;
  if (health == BackendHealth::kOut && state.health == health && now_s < state.next_look_s) return;
  // A backend that was away has started anew, mostly: others may have what it knew, and it has nothing.
  if (health == BackendHealth::kOut && state.health != BackendHealth::kOut) prefixes_.Forget(backend);
  state.health = health;
  state.back_off_s =
      health == BackendHealth::kOut
          ? std::clamp(2 * state.back_off_s, limits::kRouterBackOffSecondsMin, limits::kRouterLookSeconds * 5)
          : 0;
  state.next_look_s = now_s + (health == BackendHealth::kOut ? state.back_off_s : limits::kRouterLookSeconds);
}

double Balancer::NextLook(int backend) const {
  const std::lock_guard lock(mutex_);
  return At(backend).next_look_s;
}

std::vector<bool> Balancer::Candidates(const std::vector<bool>& tried) const {
  const bool again = std::find(tried.begin(), tried.end(), true) != tried.end();
  std::vector<bool> candidates(states_.size());
  for (const BackendHealth health : {BackendHealth::kReady, BackendHealth::kDegraded}) {
    bool any = false;
    for (size_t i = 0; i < states_.size(); ++i) {
      candidates[i] = states_[i].health == health && !(again && tried[i]);
      any = any || candidates[i];
    }
    if (any || again) break;
  }
  return candidates;
}

std::optional<int> Balancer::LeastLoaded(const std::vector<bool>& candidates) const {
  std::optional<int> least;
  const auto rank = [this](int i) { return std::make_pair(At(i).load, prefixes_.size_of(i)); };
  for (int i = 0; i < backends(); ++i) {
    if (candidates[static_cast<size_t>(i)] && (!least || rank(i) < rank(*least))) least = i;
  }
  return least;
}

std::optional<Placement> Balancer::Place(const PromptPrefix& prompt, const std::vector<bool>& tried) {
  const std::lock_guard lock(mutex_);
  const std::vector<bool> candidates = Candidates(tried);
  const std::optional<int> least = LeastLoaded(candidates);
  if (!least) return std::nullopt;
  const double bound =
      limits::kRouterLoadFactorMax * At(*least).load + static_cast<double>(limits::kRouterLoadSlack);
  const auto known = prefixes_.Find(prompt.marks, [&](int i) { return candidates[static_cast<size_t>(i)]; });
  const bool affine = known && IsWorthIt(*known, prompt) && At(known->backend).load <= bound;
  const int chosen = affine ? known->backend : *least;
  prefixes_.Remember(prompt.marks, chosen);
  return Enter(chosen, affine ? PlacedBy::kPrefix : PlacedBy::kLoad, LoadOf(prompt));
}

Placement Balancer::PlaceAt(int backend) {
  const std::lock_guard lock(mutex_);
  return Enter(backend, PlacedBy::kResponse, 1);
}

Placement Balancer::Enter(int backend, PlacedBy by, double load) {
  ++At(backend).running;
  At(backend).load += load;
  return {backend, by, std::shared_ptr<void>(nullptr, [this, backend, load](void*) {
            const std::lock_guard lock(mutex_);
            State& state = At(backend);
            --state.running;
            state.load = state.running == 0 ? 0 : state.load - load;  // no rest of rounding
          })};
}

void Balancer::RememberResponse(const std::string& key, int backend) {
  const std::lock_guard lock(mutex_);
  responses_.Remember({ResponseMark(key)}, backend);
}

std::optional<int> Balancer::ResponseBackend(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto known = responses_.Find({ResponseMark(key)}, [](int) { return true; });
  if (!known) return std::nullopt;
  return known->backend;
}

void Balancer::ForgetPrefixes() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < backends(); ++i) prefixes_.Forget(i);
}

BackendState Balancer::StateOf(int backend) const {
  const std::lock_guard lock(mutex_);
  const State& state = At(backend);
  return {state.health, state.detail, state.running};
}

size_t Balancer::prefixes() const {
  const std::lock_guard lock(mutex_);
  return prefixes_.size();
}

}  // namespace numoe
