// What an API key has of its own in the engine: a share of it, and prefixes that no other key finds.
//
// How long a prompt takes tells whether somebody has asked it before (vLLM's CVE-2025-46570), so prefixes of
// different keys are kept apart by a salt: the key's number, which says nothing of the key and is never given
// to another one. Pure functions.
#pragma once

#include <string>

#include "coordinator/net/http/caller.h"
#include "coordinator/serving/api/api_deps.h"

namespace numoe::serving {

inline engine::Tenant TenantOf(const net::Caller& caller) {
  return {.id = caller.tenant, .weight = caller.weight, .name = caller.name};
}

/// What the caller's salts begin with, and no other tenant's do. "": nobody's are kept apart.
inline std::string PrefixSalt(const net::Caller& caller, const ApiDeps& deps) {
  return caller.tenant == 0 || deps.share_prefix_cache ? "" : std::to_string(caller.tenant) + ":";
}

}  // namespace numoe::serving
