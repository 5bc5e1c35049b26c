#include "coordinator/router/router_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "common/base/version.h"
#include "common/json/json_reader.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/metrics_text.h"
#include "coordinator/router/forward_task.h"
#include "coordinator/router/merged_replies.h"
#include "nlohmann/json.hpp"

namespace numoe::router {
namespace {

using nlohmann::ordered_json;

// Two threads, as the coordinator has for this, so that a long prompt does not delay the others.
constexpr int kReaders = 2;

bool IsPlainId(const std::string& id) {
  return !id.empty() && id.size() <= limits::kHttpRequestIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

bool OnlyReads(const net::HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// Returns whether the request concerns all tenants. A key that is not an admin's concerns its own tenant; a
// router without keys cannot recognise an admin's key.
bool AsksForEverybody(const net::HttpRequest& request) {
  if (request.caller.tenant != 0) return request.caller.admin;
  return request.Header("authorization").empty() && request.Header("x-api-key").empty();
}

}  // namespace

RouterService::RouterService(Backends& backends, Metrics& metrics)
    : backends_(backends), metrics_(metrics), readers_(kReaders) {}

RouterService::~RouterService() { Stop(); }

void RouterService::Stop() { readers_.join(); }

void RouterService::Register(net::UrlTable& urls) {
  RegisterOwn(urls);
  RegisterForwarded(urls);
  RegisterMerged(urls);
}

void RouterService::RegisterOwn(net::UrlTable& urls) {
  const auto add = [&](const char* path, const char* summary,
                       std::function<void(std::shared_ptr<net::Exchange>)> handle,
                       const char* method = "GET") {
    urls.Add(
        {.method = method, .pattern = path, .summary = summary, .handle = std::move(handle), .open = true});
  };
  const auto health = [this](const std::shared_ptr<net::Exchange>& e) { Health(e); };
  add("/health", "Whether any backend serves, and which do not", health);
  for (const char* method : {"GET", "POST"}) add("/ping", "The same for SageMaker", health, method);
  add("/version", "The program's version", [](const std::shared_ptr<net::Exchange>& e) {
    e->Reply({.body = DumpJson({{"version", Version()}})});
  });
  add("/metrics", "Prometheus text, or OpenMetrics",
      [text = std::make_shared<net::MetricsText>(metrics_)](const std::shared_ptr<net::Exchange>& e) {
        e->Reply(text->ReplyTo(e->request()));
      });
}

void RouterService::RegisterForwarded(net::UrlTable& urls) {
  const auto by_prompt = [this](const std::shared_ptr<net::Exchange>& e) { ByPrompt(e); };
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/generate"}) {
    urls.Add({.method = "POST",
              .pattern = path,
              .summary = "An answer from the backend that computed the prompt's beginning",
              .handle = by_prompt,
              .errors = path == std::string("/v1/messages") ? net::ErrorShape::kAnthropic
                                                            : net::ErrorShape::kOpenAi});
  }
  urls.Add({.method = "POST",
            .pattern = "/v1/responses",
            .summary = "The same, or from the backend that keeps the previous answer",
            .handle = by_prompt});
  urls.Add({.method = "POST",
            .pattern = "/v1/responses/input_tokens",
            .summary = "The tokens of such a request, counted by the backend that keeps the previous answer",
            .handle = by_prompt,
            .counted = false});
  const auto by_response = [this](const std::shared_ptr<net::Exchange>& e) {
    ByResponse(e, e->request().captures[0]);
  };
  for (const auto& [method, path] :
       std::initializer_list<std::pair<const char*, const char*>>{{"GET", "/v1/responses/{}"},
                                                                  {"DELETE", "/v1/responses/{}"},
                                                                  {"POST", "/v1/responses/{}/cancel"},
                                                                  {"GET", "/v1/responses/{}/input_items"}}) {
    urls.Add({.method = method,
              .pattern = path,
              .summary = "Forwarded to the backend that keeps this answer",
              .handle = by_response,
              .counted = false,
              .body_max = limits::kHttpCommandBytesMax});
  }
  const auto anywhere = [this](const std::shared_ptr<net::Exchange>& e) { Anywhere(e); };
  for (const char* path : {"/", "/page/{}", "/openapi.json"}) {
    urls.Add({.method = "GET",
              .pattern = path,
              .summary = "Forwarded to any backend",
              .handle = anywhere,
              .open = true});
  }
  urls.Add({.method = "POST",
            .pattern = "/v1/messages/count_tokens",
            .summary = "Forwarded to any backend",
            .handle = anywhere,
            .counted = false,
            .errors = net::ErrorShape::kAnthropic});
  urls.AddFallback({.method = "", .pattern = "other", .summary = "", .handle = anywhere, .counted = false});
}

void RouterService::RegisterMerged(net::UrlTable& urls) {
  const auto add = [&](const char* method, const char* path, Merge merge, bool command) {
    urls.Add({.method = method,
              .pattern = path,
              .summary = command ? "Sent to all backends" : "The merged answers of all backends",
              .handle = [this, merge, command](
                            const std::shared_ptr<net::Exchange>& e) { AskEverybody(e, merge, command); },
              .counted = false,
              .body_max = limits::kHttpCommandBytesMax});
  };
  add("GET", "/v1/models", MergeModels, false);
  for (const char* path : {"/load", "/get_load"}) add("GET", path, MergeSums, false);
  for (const char* path : {"/server_info", "/get_server_info"}) add("GET", path, MergeServerInfo, false);
  add("POST", "/abort_request", MergeSums, true);
  add("POST", "/reset_prefix_cache", MergeSums, true);
  for (const char* method : {"GET", "POST"}) add(method, "/flush_cache", MergeSums, true);
}

void RouterService::Health(const std::shared_ptr<net::Exchange>& exchange) {
  bool serves = false;
  ordered_json all = ordered_json::array();
  for (const int i : backends_.balancer().backends()) {
    const BackendState state = backends_.balancer().StateOf(i);
    const bool ready = state.health == BackendHealth::kReady;
    serves = serves || ready;
    all.push_back({{"url", backends_.NameOf(i)},
                   {"ready", ready},
                   {"detail", state.detail},
                   {"running", state.running}});
  }
  const char* const status = draining_ ? "draining" : serves ? "ready" : "degraded";
  exchange->Reply(
      {.status = serves && !draining_ ? 200 : 503,
       .body = DumpJson({{"status", status}, {"detail", backends_.Missing()}, {"backends", all}})});
}

bool RouterService::Refused(const std::shared_ptr<net::Exchange>& exchange) {
  if (!draining_) return false;
  exchange->ReplyError(
      net::FromStatus(absl::UnavailableError("the router is draining and takes no new requests")));
  return true;
}

void RouterService::ByPrompt(const std::shared_ptr<net::Exchange>& exchange) {
  if (Refused(exchange)) return;
  boost::asio::post(readers_, [this, exchange] {
    auto prompt = std::make_shared<PromptPrefix>(ReadPromptPrefix(exchange->request().body));
    exchange->Post([this, exchange, prompt] { Forward(exchange, std::move(*prompt)); });
  });
}

void RouterService::Forward(const std::shared_ptr<net::Exchange>& exchange, PromptPrefix prompt) {
  // A second backend would store the response again, or compute it a second time in the background.
  const bool kept = exchange->request().path == "/v1/responses";
  const auto task = std::make_shared<ForwardTask>(backends_, exchange, /*repeatable=*/!kept);
  const std::string previous = prompt.previous_response_id;
  if (previous.empty()) return task->Start(std::move(prompt));
  Locate(exchange, previous, [task, prompt = std::move(prompt)](std::optional<int> backend) {
    backend ? task->StartAt(*backend) : task->Start(prompt);
  });
}

void RouterService::Anywhere(const std::shared_ptr<net::Exchange>& exchange) {
  if (Refused(exchange)) return;
  std::make_shared<ForwardTask>(backends_, exchange, OnlyReads(exchange->request()))->Start({});
}

void RouterService::ByResponse(const std::shared_ptr<net::Exchange>& exchange, const std::string& id) {
  Locate(exchange, id, [this, exchange](std::optional<int> backend) {
    const auto task = std::make_shared<ForwardTask>(backends_, exchange, OnlyReads(exchange->request()));
    backend ? task->StartAt(*backend) : task->Start({});  // any backend answers 404
  });
}

void RouterService::Locate(const std::shared_ptr<net::Exchange>& exchange, const std::string& id,
                           std::function<void(std::optional<int>)> then) {
  if (!IsPlainId(id)) return then(std::nullopt);
  if (const auto known = backends_.balancer().ResponseBackend(id)) return then(known);
  AskAllOptions question{.method = "GET",
                         .target = fmt::format("/v1/responses/{}/input_items?limit=1", id),
                         .body = "",
                         .backends = {},
                         .heads_only = true};
  question.backends = backends_.balancer().backends();
  AskAll(backends_, exchange, std::move(question),
         [this, id, then = std::move(then)](const std::vector<BackendReply>& replies) {
           for (const BackendReply& reply : replies) {
             if (reply.status != 200) continue;
             backends_.balancer().RememberResponse(id, reply.backend);
             return then(reply.backend);
           }
           then(std::nullopt);
         });
}

void RouterService::AskEverybody(const std::shared_ptr<net::Exchange>& exchange, Merge merge, bool command) {
  const net::HttpRequest& request = exchange->request();
  AskAllOptions question{.method = request.method == "HEAD" ? "GET" : request.method,
                         .target = request.target,
                         .body = request.body,
                         .backends = {}};
  for (const int i : backends_.balancer().backends()) {
    // A draining backend still runs requests that may have to be aborted.
    if (command || backends_.balancer().StateOf(i).health != BackendHealth::kOut)
      question.backends.push_back(i);
  }
  // All backends empty their prefix caches for all tenants, so the router forgets where prefixes were.
  const bool forgets = command && request.path != "/abort_request" && AsksForEverybody(request);
  const size_t asked = question.backends.size();
  AskAll(backends_, exchange, std::move(question),
         [this, exchange, merge, forgets, asked](const std::vector<BackendReply>& replies) {
           if (replies.empty()) {
             return exchange->ReplyError(net::FromStatus(
                 absl::UnavailableError("no coordinator serves at the moment: " + backends_.Missing())));
           }
           std::vector<NamedReply> named;
           for (const BackendReply& reply : replies) {
             if (reply.status != 200) return exchange->Reply({.status = reply.status, .body = reply.body});
             named.push_back({backends_.NameOf(reply.backend), reply.body});
           }
           if (forgets && named.size() == asked) backends_.balancer().ForgetPrefixes();
           exchange->Reply({.body = merge(named)});
         });
}

}  // namespace numoe::router
