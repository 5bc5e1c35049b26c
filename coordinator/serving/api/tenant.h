// What each API key has to itself in the engine: its share, and prefixes that no other key can find.
//
// The time that a prompt takes shows whether another client has sent it before (vLLM's CVE-2025-46570), so
// the prefixes of different keys are kept apart by a salt: the key's number, which does not reveal the key
// and is never given to another one. Pure functions.
#pragma once

#include <string>

#include "coordinator/net/http/caller.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::serving {

inline engine::Tenant TenantOf(const net::Caller& caller) {
  return {.id = caller.tenant, .weight = caller.weight, .name = caller.name};
}

/// The beginning of all salts of this caller, and of no other tenant. "" if prefixes are shared by all
/// callers.
inline std::string PrefixSalt(const net::Caller& caller, const ApiDeps& deps) {
  return caller.tenant == 0 || deps.share_prefix_cache ? "" : std::to_string(caller.tenant) + ":";
}

}  // namespace numoe::serving
