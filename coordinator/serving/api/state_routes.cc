#include "coordinator/serving/api/state_routes.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>
#include <utility>
#include <variant>

#include "common/base/version.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/json_reply.h"
#include "coordinator/serving/api/preparation.h"
#include "coordinator/serving/api/probe_routes.h"
#include "coordinator/serving/api/tenant.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

// The fields that benchmark clients read after a run.
ordered_json InternalStates(const engine::EngineStats& stats) {
  return {{"running", stats.running},
          {"waiting", stats.waiting},
          {"kv_blocks_used", stats.kv_blocks_used},
          {"kv_blocks_idle", stats.kv_blocks_idle},
          {"kv_blocks_total", stats.kv_blocks_total},
          {"steps", stats.steps},
          {"stalled_s", stats.stalled_s},
          {"last_step_s", stats.last_step_s},
          {"last_step_tokens", stats.last_step_tokens},
          {"tokens_computed", stats.tokens_computed},
          {"tokens_generated", stats.tokens_generated},
          {"preemptions", stats.preemptions},
          {"prefix_query_tokens", stats.prefix_query_tokens},
          {"prefix_hit_tokens", stats.prefix_hit_tokens}};
}

ordered_json ModelJson(const std::string& name, const ApiDeps& deps) {
  return {{"id", name},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "numoe"},
          {"root", deps.model_path},
          {"parent", nullptr},
          {"max_model_len", deps.max_model_len}};
}

}  // namespace

StateRoutes::StateRoutes(const ApiDeps& deps, RunningTasks& running)
    : deps_(deps), running_(running), waiters_(std::make_unique<boost::asio::thread_pool>(1)) {}

StateRoutes::~StateRoutes() { Stop(); }

void StateRoutes::DropWork() { waiters_.reset(); }

void StateRoutes::Stop() {
  if (waiters_ == nullptr) return;
  waiters_->stop();
  waiters_->join();
}

void StateRoutes::Register(net::UrlTable& urls) {
  const auto add = [&](const char* method, const char* path, const char* summary, Answer answer) {
    urls.Add(
        {.method = method,
         .pattern = path,
         .summary = summary,
         .handle = [this, answer](std::shared_ptr<net::Exchange> exchange) { (this->*answer)(exchange); },
         .counted = false,
         .body_max = limits::kHttpCommandBytesMax});
  };
  AddProbeRoutes(urls, deps_.metrics, deps_.health, deps_.live);
  add("GET", "/health_generate", "The same, tested by generating one token", &StateRoutes::HealthGenerate);
  add("GET", "/v1/models", "The model of this server", &StateRoutes::Models);
  add("GET", "/v1/models/{}", "The same, by its name", &StateRoutes::OneModel);
  add("GET", "/v1/models/{}/{}", "The same, by a name with a slash, as repositories have",
      &StateRoutes::OneModel);
  for (const char* path : {"/model_info", "/get_model_info"})
    add("GET", path, "The model (SGLang)", &StateRoutes::ModelInfo);
  for (const char* path : {"/server_info", "/get_server_info"})
    add("GET", path, "Flags, what was found at the start, and the engine's state (SGLang)",
        &StateRoutes::ServerInfo);
  add("GET", "/expert_stats", "The number of rows that each expert of each layer has computed",
      &StateRoutes::ExpertStats);
  for (const char* path : {"/load", "/get_load"})
    add("GET", path, "The number of running and waiting requests (vLLM)", &StateRoutes::Load);
  add("POST", "/reset_prefix_cache",
      "Empties the key's part of the prefix cache; with an administrator's key the whole cache (vLLM)",
      &StateRoutes::ResetPrefixCache);
  for (const char* method : {"GET", "POST"})
    add(method, "/flush_cache", "The same (SGLang)", &StateRoutes::ResetPrefixCache);
  add("POST", "/abort_request",
      "Ends requests of the key at their current length: {rid} or {abort_all}; an administrator's key may "
      "end any "
      "request (SGLang)",
      &StateRoutes::AbortRequest);
}

void StateRoutes::HealthGenerate(const std::shared_ptr<net::Exchange>& exchange) {
  const HealthReport report = deps_.health();
  if (report.status != "ready") return ReplyHealth(exchange, report);
  engine::EngineRequest generate{.request_id = exchange->request().id,
                                 .prompt = {0},
                                 .cache_salt = "",
                                 .sampling = {.temperature = 0, .seed = {}, .max_tokens = 1},
                                 .constraint = nullptr,
                                 .on_event = nullptr,
                                 .tenant = TenantOf(exchange->request().caller)};
  generate.on_event = [exchange, report](const engine::TokenEvent& event) {
    exchange->Post([exchange, report, status = event.error] {
      if (!status.ok()) return exchange->ReplyError(net::FromStatus(status));
      ReplyHealth(exchange, report);
    });
  };
  const absl::StatusOr<SequenceId> sequence = deps_.engine.Submit(std::move(generate));
  // A full queue means that the server works: it generates tokens.
  if (absl::IsResourceExhausted(sequence.status())) return ReplyHealth(exchange, report);
  if (!sequence.ok()) return exchange->ReplyError(net::FromStatus(sequence.status()));
  exchange->OnGone([this, id = *sequence] { deps_.engine.Cancel(id); });
}

void StateRoutes::Models(const std::shared_ptr<net::Exchange>& exchange) {
  ordered_json models = ordered_json::array();
  for (const std::string& name : deps_.model_names) models.push_back(ModelJson(name, deps_));
  ReplyJson(exchange, {{"object", "list"}, {"data", std::move(models)}});
}

void StateRoutes::OneModel(const std::shared_ptr<net::Exchange>& exchange) {
  const std::string name = fmt::format("{}", fmt::join(exchange->request().captures, "/"));
  if (auto error = CheckModel({.model = name}, deps_)) return exchange->ReplyError(*error);
  ReplyJson(exchange, ModelJson(name, deps_));
}

void StateRoutes::ModelInfo(const std::shared_ptr<net::Exchange>& exchange) {
  ReplyJson(exchange, {{"model_path", deps_.model_path},
                       {"tokenizer_path", deps_.model_path},
                       {"is_generation", true},
                       {"max_model_len", deps_.max_model_len}});
}

void StateRoutes::ServerInfo(const std::shared_ptr<net::Exchange>& exchange) {
  ordered_json info = deps_.server_info;
  info["version"] = Version();
  info["model"] = deps_.model_names.at(0);
  info["max_model_len"] = deps_.max_model_len;
  info["internal_states"] = ordered_json::array({InternalStates(deps_.engine.Stats())});
  ReplyJson(exchange, info);
}

void StateRoutes::ExpertStats(const std::shared_ptr<net::Exchange>& exchange) {
  boost::asio::post(*waiters_, [this, exchange] {
    exchange->Post([exchange, stats = deps_.expert_stats()] {
      if (!stats.ok()) return exchange->ReplyError(net::FromStatus(stats.status()));
      exchange->Reply({.body = *stats});
    });
  });
}

void StateRoutes::Load(const std::shared_ptr<net::Exchange>& exchange) {
  const engine::EngineStats stats = deps_.engine.Stats();
  ReplyJson(exchange, {{"server_load", running_.size()},
                       {"num_running_reqs", stats.running},
                       {"num_waiting_reqs", stats.waiting}});
}

void StateRoutes::ResetPrefixCache(const std::shared_ptr<net::Exchange>& exchange) {
  const net::Caller& caller = exchange->request().caller;
  const std::string own = PrefixSalt(caller, deps_);
  if (!caller.admin && own.empty()) {
    return exchange->ReplyError(
        {.http_status = 403,
         .message = "all keys share the prefix cache (--share-prefix-cache); expected a key of "
                    "--admin-api-key-file, because this empties it for all keys",
         .type = "permission_error",
         .code = "admin_key_needed"});
  }
  deps_.engine.ResetPrefixCache(caller.admin ? "" : own);
  ReplyJson(exchange, ordered_json::object());
}

void StateRoutes::AbortRequest(const std::shared_ptr<net::Exchange>& exchange) {
  auto body = ReadBody(exchange->request().body);
  if (const auto* error = std::get_if<net::ApiError>(&body)) return exchange->ReplyError(*error);
  JsonFields in(std::get<ordered_json>(body));
  std::string id;
  bool all = false;
  for (const char* name : {"rid", "request_id"}) in.String(name, id);
  in.Bool("abort_all", all);
  if (id.empty() && !all) in.Fail("rid", "the id of a request, or abort_all: true");
  if (in.error()) return exchange->ReplyError(*in.error());
  const auto tasks = running_.Find(all ? "" : id, exchange->request().caller);
  for (const auto& task : tasks) task->Abort();
  ReplyJson(exchange, {{"aborted", tasks.size()}});
}

}  // namespace numoe::serving
