#include "coordinator/engine/scheduler/fair_shares.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/base/check.h"
#include "coordinator/engine/scheduler/scheduler_limits.h"

namespace numoe::engine {

int64_t FairShares::Account::part() const { return int64_t{limits::kFairQuantumTokens} * weight; }

void FairShares::Account::Take(int64_t tokens) {
  NUMOE_CHECK(weight >= 1 && tokens >= 0);
  spent += tokens;
  round += spent / part();
  spent %= part();
  NUMOE_DCHECK(0 <= spent && left() >= 1);
}

void FairShares::SetActive(const std::map<int, int>& weights) {
  std::optional<int64_t> earliest;
  for (const auto& [tenant, account] : accounts_) {
    if (account.active && weights.count(tenant) > 0)
      earliest = std::min(account.round, earliest.value_or(std::numeric_limits<int64_t>::max()));
  }
  if (!earliest) accounts_.clear();
  round_ = earliest.value_or(0);
  for (auto it = accounts_.begin(); it != accounts_.end();) {
    it->second.active = weights.count(it->first) > 0;
    it = it->second.active || it->second.round >= round_ ? std::next(it) : accounts_.erase(it);
  }
  for (const auto& [tenant, weight] : weights) {
    NUMOE_CHECK_GE(weight, 1) << "tenant " << tenant;
    Account& account = accounts_[tenant];
    if (account.round < round_) account.round = round_;
    account.weight = weight;
    account.active = true;
    account.Take(0);  // with a smaller weight, the tokens already used may amount to more rounds
  }
}

void FairShares::Charge(int tenant, int weight, int64_t tokens) {
  if (accounts_.empty()) return;
  const auto [account, added] = accounts_.try_emplace(tenant, Account{.round = round_, .weight = weight});
  account->second.Take(tokens);
}

}  // namespace numoe::engine
