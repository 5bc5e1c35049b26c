// FairShares: whose turn it is, by deficit round robin over tokens.
//
// In every round each tenant may have kFairQuantumTokens times its weight. Tokens are charged as they are
// computed, prompts and answers alike, so what a tenant took beyond its part of a round comes off the next
// ones: it is passed over until the round that it has paid up to. Who begins to ask starts in the round where
// the others are, with nothing saved up from when it asked for nothing; who stops and comes back finds its
// debts. They are forgotten when nobody is left who asked before: nobody waited for what was taken. Pure
// arithmetic on tenants' numbers, so that the same requests in the same order give the same turns. A value;
// engine thread only. After Shreedhar and Varghese (SIGCOMM 1995); charging as it is computed as in VTC (OSDI
// 2024).
#pragma once

#include <cstdint>
#include <map>

namespace numoe::engine {

class FairShares {
 public:
  /// Those who ask for prompts to be computed or sequences to be admitted now, and their weights.
  void Contend(const std::map<int, int>& weights);
  /// Nothing is charged while nobody asks.
  void Charge(int tenant, int weight, int64_t tokens);

  /// The round in which the tenant may go on; the earliest one goes first. REQUIRES: it contends.
  int64_t RoundOf(int tenant) const { return accounts_.at(tenant).round; }
  /// Tokens until its round is over; at least 1. REQUIRES: it contends.
  int64_t LeftOf(int tenant) const { return accounts_.at(tenant).left(); }
  int WeightOf(int tenant) const { return accounts_.at(tenant).weight; }

 private:
  struct Account {
    int64_t round = 0;
    int64_t spent = 0;  // of its part of the round
    int weight = 1;
    bool contends = false;

    int64_t part() const;
    int64_t left() const { return part() - spent; }
    void Take(int64_t tokens);
  };

  std::map<int, Account> accounts_;  // of those who contend, and of others whose round has not come
  int64_t round_ = 0;                // the earliest of those who contend
};

}  // namespace numoe::engine
