// FairShares: decides which tenant is next, by deficit round robin over tokens.
//
// In every round each tenant may use kFairQuantumTokens times its weight. Tokens of prompts and of answers
// are charged when they are computed. A tenant that used more than its part of a round is skipped until later
// rounds have paid for it. A tenant that becomes active starts in the current round of the others, without
// credit for the time in which it was not active; a tenant that stops and comes back still has its debts.
// All debts are forgotten when every tenant that was active before has stopped, because then no tenant waited
// for what was used. Results depend only on the tenants' numbers and the tokens charged, so the same requests
// in the same order give the same result. A value; engine thread only. After Shreedhar and Varghese (SIGCOMM
// 1995); tokens are charged when they are computed, as in VTC (OSDI 2024).
#pragma once

#include <cstdint>
#include <map>

namespace numoe::engine {

class FairShares {
 public:
  /// Sets the tenants that are active now, with their weights: those with prompts to compute or sequences to
  /// admit.
  void SetActive(const std::map<int, int>& weights);
  /// Charges computed tokens to a tenant. Does nothing while no tenant is active.
  void Charge(int tenant, int weight, int64_t tokens);

  /// Returns the round in which the tenant is next; the tenant with the earliest round goes first. REQUIRES:
  /// it is active.
  int64_t Round(int tenant) const { return accounts_.at(tenant).round; }
  /// Returns how many tokens the tenant may still use in its round, at least 1. REQUIRES: it is active.
  int64_t RemainingQuantum(int tenant) const { return accounts_.at(tenant).left(); }
  int Weight(int tenant) const { return accounts_.at(tenant).weight; }

 private:
  struct Account {
    int64_t round = 0;
    int64_t spent = 0;  // tokens used of its part of the round
    int weight = 1;
    bool active = false;

    int64_t part() const;
    int64_t left() const { return part() - spent; }
    void Take(int64_t tokens);
  };

  std::map<int, Account> accounts_;  // of active tenants, and of others with debts
  int64_t round_ = 0;                // the earliest round of an active tenant
};

}  // namespace numoe::engine
