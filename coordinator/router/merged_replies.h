// What several backends answered to the same question, put together as one server would have said it.
//
// Pure functions of outside bytes. None of the replies is an object of the kind: the first one's body, or
// "{}".
#pragma once

#include <string>
#include <vector>

namespace numoe {

/// /v1/models: every model once.
std::string MergeModels(const std::vector<std::string>& bodies);
/// /load, /abort_request and the like: the first one's fields, with the sums of those that are numbers.
std::string MergeSums(const std::vector<std::string>& bodies);
/// /server_info: the first one's, with everybody's internal_states.
std::string MergeServerInfo(const std::vector<std::string>& bodies);

}  // namespace numoe
