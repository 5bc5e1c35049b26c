#include "coordinator/net/client/model_list.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::net {

absl::StatusOr<std::vector<ModelCard>> ListModels(HttpClient& client) {
  ASSIGN_OR_RETURN(const std::string reply, client.FetchOk({.path = "/v1/models"}));
  const auto parsed = ParseBoundedJson(reply);
  std::vector<ModelCard> models;
  if (parsed.ok() && parsed->is_object() && parsed->contains("data") && (*parsed)["data"].is_array()) {
    for (const nlohmann::ordered_json& entry : (*parsed)["data"]) {
      if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
      ModelCard card{.id = entry["id"]};
      if (entry.contains("max_model_len") && entry["max_model_len"].is_number_unsigned())
        card.max_model_len = entry["max_model_len"];
      models.push_back(std::move(card));
    }
  }
  if (models.empty())
    return absl::InvalidArgumentError(fmt::format("{}/v1/models answered '{}'; expected a list of models",
                                                  client.url().ToString(), Printable(reply)));
  return models;
}

}  // namespace numoe::net
