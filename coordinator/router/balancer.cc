#include "coordinator/router/balancer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/hash/hash.h"
#include "common/base/check.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {
namespace {

// A prompt of this length, about 8k tokens, takes as much work as decoding an answer.
constexpr double kPromptBytesPerRequest = 32 << 10;

double LoadOf(const PromptPrefix& prompt) {
  return 1 + static_cast<double>(prompt.bytes) / kPromptBytesPerRequest;
}

uint64_t ResponseMark(const std::string& key) { return absl::HashOf(key); }

// Returns whether the request should go to the backend that computed this beginning: if an earlier prompt
// ended there, or if it is at least half of the prompt.
bool IsWorthIt(const KnownPrefix& known, const PromptPrefix& prompt) {
  NUMOE_DCHECK(0 < known.marks && known.marks <= prompt.marks.size());
  return known.end || 2 * MarkBytes(known.marks - 1) >= prompt.bytes;
}

}  // namespace

const char* RouteReasonName(RouteReason by) {
  constexpr const char* kNames[] = {"prefix", "load", "response"};
  static_assert(std::size(kNames) == kRouteReasonCount &&
                static_cast<size_t>(RouteReason::kResponse) + 1 == kRouteReasonCount);
  return kNames[static_cast<size_t>(by)];
}

Balancer::State* Balancer::Find(int backend) {
  const auto it = states_.find(backend);
  return it == states_.end() ? nullptr : &it->second;
}

int Balancer::Add() {
  const MutexLock lock(mutex_);
  states_.try_emplace(next_);
  return next_++;
}

void Balancer::Leave(int backend) {
  const MutexLock lock(mutex_);
  if (State* const state = Find(backend)) state->leaving = true;
}

void Balancer::Return(int backend) {
  const MutexLock lock(mutex_);
  if (State* const state = Find(backend)) state->leaving = false;
}

bool Balancer::Remove(int backend) {
  const MutexLock lock(mutex_);
  const State* const state = Find(backend);
  if (state == nullptr) return true;
  if (state->running > 0) return false;
  prefixes_.Forget(backend);
  responses_.Forget(backend);
  states_.erase(backend);
  return true;
}

std::optional<BackendHealth> Balancer::RecordHealth(int backend, BackendHealth health,
                                                    const std::string& detail, double now_s) {
  const MutexLock lock(mutex_);
  State* const state = Find(backend);
  if (state == nullptr) return std::nullopt;
  NUMOE_DCHECK(state->back_off_s == 0 || state->health == BackendHealth::kOut);
  const BackendHealth before = state->health;
  state->detail = detail;
  if (health == BackendHealth::kOut && before == health && now_s < state->next_check_s) return before;
  // A backend that was out has usually been restarted, and then its prefix cache is empty.
  if (health == BackendHealth::kOut && before != BackendHealth::kOut) prefixes_.Forget(backend);
  state->health = health;
  state->back_off_s = health == BackendHealth::kOut
                          ? std::clamp(2 * state->back_off_s, limits::kRouterBackOffSecondsMin,
                                       limits::kRouterCheckSeconds * 5)
                          : 0;
  state->next_check_s =
      now_s + (health == BackendHealth::kOut ? state->back_off_s : limits::kRouterCheckSeconds);
  return before;
}

double Balancer::NextCheck(int backend) const {
  const MutexLock lock(mutex_);
  const State* const state = Find(backend);
  return state == nullptr ? std::numeric_limits<double>::infinity() : state->next_check_s;
}

BackendSet Balancer::Candidates(const BackendSet& tried) const {
  BackendSet candidates;
  for (const BackendHealth health : {BackendHealth::kReady, BackendHealth::kDegraded}) {
    for (const auto& [backend, state] : states_) {
      if (state.health == health && !state.leaving && !tried.contains(backend)) candidates.insert(backend);
    }
    if (!candidates.empty() || !tried.empty()) break;
  }
  return candidates;
}

std::optional<int> Balancer::LeastLoaded(const BackendSet& candidates) const {
  std::optional<int> least;
  std::pair<double, size_t> least_rank;
  for (const auto& [backend, state] : states_) {
    if (!candidates.contains(backend)) continue;
    const std::pair<double, size_t> rank(state.load, prefixes_.size_of(backend));
    if (least && !(rank < least_rank)) continue;
    least = backend;
    least_rank = rank;
  }
  return least;
}

std::optional<BackendChoice> Balancer::Route(const PromptPrefix& prompt, const BackendSet& tried) {
  const MutexLock lock(mutex_);
  const BackendSet candidates = Candidates(tried);
  const std::optional<int> least = LeastLoaded(candidates);
  if (!least) return std::nullopt;
  const double bound =
      limits::kRouterLoadFactorMax * states_.at(*least).load + static_cast<double>(limits::kRouterLoadSlack);
  const auto known = prefixes_.Find(prompt.marks, [&](int i) { return candidates.contains(i); });
  const bool affine = known && IsWorthIt(*known, prompt) && states_.at(known->backend).load <= bound;
  const int chosen = affine ? known->backend : *least;
  NUMOE_CHECK(candidates.contains(chosen)) << "backend " << chosen;
  prefixes_.Remember(prompt.marks, chosen);
  return Enter(chosen, affine ? RouteReason::kPrefix : RouteReason::kLoad, LoadOf(prompt));
}

std::optional<BackendChoice> Balancer::RouteTo(int backend) {
  const MutexLock lock(mutex_);
  if (Find(backend) == nullptr) return std::nullopt;
  return Enter(backend, RouteReason::kResponse, 1);
}

BackendChoice Balancer::Enter(int backend, RouteReason by, double load) {
  NUMOE_DCHECK_GE(load, 1);
  State& entered = states_.at(backend);
  ++entered.routed[static_cast<size_t>(by)];
  ++entered.running;
  entered.load += load;
  return {backend, by, std::shared_ptr<void>(nullptr, [this, backend, load](void*) {
            const MutexLock lock(mutex_);
            State& state = states_.at(backend);  // Remove keeps a backend with running requests
            NUMOE_CHECK_GT(state.running, 0) << "backend " << backend;
            --state.running;
            state.load = state.running == 0 ? 0 : state.load - load;  // removes the rounding error
          })};
}

void Balancer::CountRetry(int backend) {
  const MutexLock lock(mutex_);
  if (State* const state = Find(backend)) ++state->retries;
}

void Balancer::RememberResponse(const std::string& key, int backend) {
  const MutexLock lock(mutex_);
  if (Find(backend) != nullptr) responses_.Remember({ResponseMark(key)}, backend);
}

std::optional<int> Balancer::ResponseBackend(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto known = responses_.Find({ResponseMark(key)}, [](int) { return true; });
  if (!known) return std::nullopt;
  return known->backend;
}

void Balancer::ForgetPrefixes() {
  const MutexLock lock(mutex_);
  for (const auto& [backend, state] : states_) prefixes_.Forget(backend);
}

BackendState Balancer::StateOf(int backend) const {
  const MutexLock lock(mutex_);
  const State* const state = Find(backend);
  if (state == nullptr) return {.detail = "it was removed", .leaving = true};
  BackendState reported{state->health, state->detail,  state->running,
                        state->routed, state->retries, state->leaving};
  if (state->leaving) {
    reported.health = BackendHealth::kOut;
    reported.detail = "its name no longer has this address; its running requests are finished";
  }
  return reported;
}

size_t Balancer::prefixes() const {
  const MutexLock lock(mutex_);
  return prefixes_.size();
}

std::vector<int> Balancer::backends() const {
  const MutexLock lock(mutex_);
  std::vector<int> numbers;
  for (const auto& [backend, state] : states_) numbers.push_back(backend);
  return numbers;
}

}  // namespace numoe::router
