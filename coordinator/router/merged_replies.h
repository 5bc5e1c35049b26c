// What several backends answered to the same question, put together as one server would have said it.
//
// Pure functions of outside bytes. None of the replies is an object of the kind: the first one's body, or
// "{}".
#pragma once

#include <string>
#include <vector>

namespace numoe::router {

struct NamedReply {
  std::string backend;  // its URL
  std::string body;
};

/// /v1/models: every model once.
std::string MergeModels(const std::vector<NamedReply>& replies);
/// /load, /abort_request and the like: the first one's fields, with the sums of those that are numbers.
std::string MergeSums(const std::vector<NamedReply>& replies);
/// /server_info: the first one's, with everybody's internal_states, in which `backend` says whose they are.
std::string MergeServerInfo(const std::vector<NamedReply>& replies);

}  // namespace numoe::router
