// Merges the answers of several backends to the same request into the answer that one server would give.
//
// Pure functions of bytes from outside. They return "{}" if no reply is a JSON object.
#pragma once

#include <string>
#include <vector>

namespace numoe::router {

struct NamedReply {
  std::string backend;  // the backend's URL
  std::string body;
};

/// For /v1/models: returns every model once.
std::string MergeModels(const std::vector<NamedReply>& replies);
/// For /load, /abort_request and similar: returns the fields of the first reply, numbers summed over all.
std::string MergeSums(const std::vector<NamedReply>& replies);
/// For /server_info: returns the first reply with the internal_states of all, each of which names its
/// `backend`.
std::string MergeServerInfo(const std::vector<NamedReply>& replies);

}  // namespace numoe::router
