#include "coordinator/router/merged_replies.h"

#include <set>

#include "common/weights/json_reader.h"

namespace numoe {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> Objects(const std::vector<std::string>& bodies) {
  std::vector<ordered_json> objects;
  for (const std::string& body : bodies) {
    auto json = ParseBoundedJson(body);
    if (json.ok() && json->is_object()) objects.push_back(*std::move(json));
  }
  return objects;
}

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// All objects' lists of this name, one behind the other, in the first object.
std::string Joined(const std::vector<std::string>& bodies, const char* name, bool each_id_once) {
  std::vector<ordered_json> objects = Objects(bodies);
  if (objects.empty()) return "{}";
  ordered_json all = ordered_json::array();
  std::set<std::string> seen;
  for (const ordered_json& object : objects) {
    const auto list = object.find(name);
    if (list == object.end() || !list->is_array()) continue;
    for (const ordered_json& item : *list) {
      const std::string id = item.is_object() && item.contains("id") ? item["id"].dump() : "";
      if (!each_id_once || seen.insert(id).second) all.push_back(item);
    }
  }
  objects[0][name] = std::move(all);
  return Dump(objects[0]);
}

}  // namespace

std::string MergeModels(const std::vector<std::string>& bodies) { return Joined(bodies, "data", true); }

std::string MergeServerInfo(const std::vector<std::string>& bodies) {
  return Joined(bodies, "internal_states", false);
}

std::string MergeSums(const std::vector<std::string>& bodies) {
  std::vector<ordered_json> objects = Objects(bodies);
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
  return Dump(objects[0]);
}

}  // namespace numoe
