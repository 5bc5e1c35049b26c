#include "coordinator/clients/terminal/start_wait.h"

#include <optional>
#include <string>
#include <thread>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/clients/terminal/answer_view.h"

namespace numoe::clients {
namespace {

constexpr int kHttpUnavailable = 503;

// Returns what a starting server is doing; nullopt if it is not one.
std::optional<std::string> Doing(net::HttpClient& client) {
  const absl::StatusOr<net::FetchedReply> reply = client.Fetch({.path = "/health"});
  if (!reply.ok() || reply->status != kHttpUnavailable) return std::nullopt;
  const auto health = ParseBoundedJson(reply->body);
  if (!health.ok() || !health->is_object() || health->value("status", nlohmann::ordered_json()) != "starting")
    return std::nullopt;
  const auto detail = health->find("detail");
  return detail == health->end() || !detail->is_string() ? "" : WithoutControls(detail->get<std::string>());
}

}  // namespace

void AwaitStart(net::HttpClient& client, const std::function<void(std::string_view doing)>& tell,
                std::chrono::milliseconds between) {
  NUMOE_CHECK_GT(between.count(), 0);
  std::optional<std::string> said;
  for (std::optional<std::string> doing; (doing = Doing(client)).has_value();) {
    if (said != doing) tell(*doing);
    said = doing;
    std::this_thread::sleep_for(between);
  }
  if (said) tell("");
}

}  // namespace numoe::clients
