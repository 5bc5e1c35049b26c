#include "coordinator/router/merged_replies.h"

#include <set>

#include "common/json/json_reader.h"

namespace numoe::router {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> Objects(const std::vector<NamedReply>& replies) {
  std::vector<ordered_json> objects;
  for (const NamedReply& reply : replies) {
    auto json = ParseBoundedJson(reply.body);
    if (json.ok() && json->is_object()) objects.push_back(*std::move(json));
  }
  return objects;
}

}  // namespace

std::string MergeModels(const std::vector<NamedReply>& replies) {
  std::vector<ordered_json> objects = Objects(replies);
  if (objects.empty()) return "{}";
  ordered_json all = ordered_json::array();
  std::set<std::string> seen;
  for (const ordered_json& object : objects) {
    const auto models = object.find("data");
    if (models == object.end() || !models->is_array()) continue;
    for (const ordered_json& model : *models) {
      const std::string id = model.is_object() && model.contains("id") ? model["id"].dump() : "";
      if (seen.insert(id).second) all.push_back(model);
    }
  }
  objects[0]["data"] = std::move(all);
  return DumpJson(objects[0]);
}

std::string MergeServerInfo(const std::vector<NamedReply>& replies) {
  ordered_json merged = ordered_json::object();
  ordered_json all = ordered_json::array();
  for (const NamedReply& reply : replies) {
    auto info = ParseBoundedJson(reply.body);
    if (!info.ok() || !info->is_object()) continue;
    const auto states = info->find("internal_states");
    if (states != info->end() && states->is_array()) {
      for (ordered_json& state : *states) {
        if (state.is_object()) state["backend"] = reply.backend;
        all.push_back(std::move(state));
      }
    }
    if (merged.empty()) merged = *std::move(info);
  }
  if (!merged.empty()) merged["internal_states"] = std::move(all);
  return DumpJson(merged);
}

std::string MergeSums(const std::vector<NamedReply>& replies) {
  std::vector<ordered_json> objects = Objects(replies);
  if (objects.empty()) return "{}";
  for (auto& [name, value] : objects[0].items()) {
    for (size_t i = 1; i < objects.size(); ++i) {
      const auto other = objects[i].find(name);
      if (other == objects[i].end() || !value.is_number() || !other->is_number()) continue;
      if (value.is_number_integer() && other->is_number_integer()) {
        value = static_cast<int64_t>(value.get<uint64_t>() + other->get<uint64_t>());
      } else {
        value = value.get<double>() + other->get<double>();
      }
    }
  }
  return DumpJson(objects[0]);
}

}  // namespace numoe::router
