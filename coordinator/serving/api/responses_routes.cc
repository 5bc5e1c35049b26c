#include "coordinator/serving/api/responses_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/json_reply.h"
#include "coordinator/serving/api/preparation.h"
#include "coordinator/serving/api/responses_request.h"
#include "coordinator/serving/api/responses_writer.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr int kItemsPerPage = 20;
constexpr int kItemsPerPageMax = 100;

// The owner of a response is the key that its request came with, even if the server has no keys to compare it
// with. The key itself is not stored.
uint64_t OwnerOf(const net::HttpRequest& request) {
  if (request.caller.tenant != 0) return static_cast<uint64_t>(request.caller.tenant);
  return std::hash<std::string>{}(std::string(request.Header("authorization")) + "\n" +
                                  std::string(request.Header("x-api-key")));
}

net::ApiError NoSuchResponse(const std::string& id) {
  return {.http_status = 404,
          .message = "no such response: " + id.substr(0, 100) + "; it was not stored, or has been dropped"};
}

bool AsksForBackground(const std::string& body) {
  const auto json = ReadBody(body);
  const auto* object = std::get_if<ordered_json>(&json);
  return object != nullptr && object->value("background", ordered_json()) == true;
}

net::HttpRequest WithoutBody(const net::HttpRequest& request) {
  return {.method = request.method,
          .target = request.target,
          .path = request.path,
          .query = request.query,
          .headers = request.headers,
          .captures = request.captures,
          .body = "",
          .id = request.id,
          .caller = request.caller};
}

// The exchange of an answer in the background, for which no client waits; its writer stores it. Until the
// request is accepted, the client is told its errors. The request counts in its key's limit until it ends.
class BackgroundExchange final : public net::Exchange {
 public:
  BackgroundExchange(std::shared_ptr<net::Exchange> asked, boost::asio::thread_pool& pool)
      : request_(WithoutBody(asked->request())),
        asked_(std::move(asked)),
        slot_(asked_->Slot()),
        strand_(boost::asio::make_strand(pool)) {}

  /// Answers the client with `queued`. `fail` is called with errors that occur later.
  void Accept(net::HttpReply queued, std::function<void(const net::ApiError&)> fail) {
    fail_ = std::move(fail);
    asked_->Post([asked = asked_, queued = std::move(queued)] { asked->Reply(queued); });
    asked_.reset();  // its connection may be closed long before the answer is complete
  }

  const net::HttpRequest& request() const override { return request_; }
  /// REQUIRES: Accept was not called. The body counts in the budget of bodies until it is taken here.
  std::string TakeBody() override { return asked_->TakeBody(); }
  void Reply(net::HttpReply) override {}
  void ReplyError(const net::ApiError& error) override {
    if (fail_ != nullptr) return fail_(error);
    asked_->Post([asked = asked_, error] { asked->ReplyError(error); });
  }
  void BeginStream() override {}
  void BeginBody(net::HttpReply) override {}
  void Send(std::string) override {}
  void EndStream() override {}
  void Break() override {}
  void OnSent(std::function<void()> sent) override { Post(std::move(sent)); }
  void OnGone(std::function<void()>) override {}  // the answer does not depend on a connection
  void Post(std::function<void()> work) override { boost::asio::post(strand_, std::move(work)); }
  boost::asio::any_io_executor Executor() override { return strand_; }
  std::shared_ptr<net::ConcurrencySlot> Slot() override { return slot_; }
  void CountTokens(int) override {}

 private:
  const net::HttpRequest request_;        // without its body
  std::shared_ptr<net::Exchange> asked_;  // null once the request is accepted
  const std::shared_ptr<net::ConcurrencySlot> slot_;
  boost::asio::strand<boost::asio::thread_pool::executor_type> strand_;
  std::function<void(const net::ApiError&)> fail_;
};

}  // namespace

ResponsesRoutes::ResponsesRoutes(const ApiDeps& deps, RunningTasks& running, PreparationPool& preparers)
    : deps_(deps),
      running_(running),
      preparers_(preparers),
      background_(std::make_unique<boost::asio::thread_pool>(1)) {}

ResponsesRoutes::~ResponsesRoutes() { Stop(); }

void ResponsesRoutes::DropWork() { background_.reset(); }

void ResponsesRoutes::Stop() {
  if (background_ == nullptr) return;
  background_->stop();
  background_->join();
}

void ResponsesRoutes::Register(net::UrlTable& urls) {
  const auto add = [&](const char* method, const char* path, const char* summary, Answer answer) {
    urls.Add({.method = method,
              .pattern = path,
              .summary = summary,
              .handle = [this, answer](std::shared_ptr<net::Exchange> e) { (this->*answer)(e); },
              // Answers in the background may take all slots of a key, which must still be able to read and
              // cancel.
              .counted = answer == &ResponsesRoutes::Create,
              .body_max = answer == &ResponsesRoutes::Create || answer == &ResponsesRoutes::Count
                              ? limits::kHttpBodyBytesMax
                              : limits::kHttpCommandBytesMax});
  };
  add("POST", "/v1/responses", "Answers items of a conversation and stores the answer (OpenAI)",
      &ResponsesRoutes::Create);
  add("POST", "/v1/responses/input_tokens", "Counts the tokens of such a request's prompt",
      &ResponsesRoutes::Count);
  add("GET", "/v1/responses/{}", "Returns a stored answer", &ResponsesRoutes::Get);
  add("DELETE", "/v1/responses/{}", "Deletes a stored answer", &ResponsesRoutes::Delete);
  add("POST", "/v1/responses/{}/cancel", "Ends an answer in the background", &ResponsesRoutes::Cancel);
  add("GET", "/v1/responses/{}/input_items", "Returns the items that an answer was given to",
      &ResponsesRoutes::Input);
}

std::optional<ordered_json> ResponsesRoutes::Items(uint64_t owner, const std::string& id) {
  const auto stored = responses_.Get(owner, id);
  if (!stored) return std::nullopt;
  const ordered_json response = ordered_json::parse(stored->response);
  if (response["status"] != "completed" && response["status"] != "incomplete") return std::nullopt;
  ordered_json items = ordered_json::parse(stored->input);
  for (const ordered_json& item : response["output"]) items.push_back(item);
  return items;
}

Dialect ResponsesRoutes::DialectOf(uint64_t owner, Accepted accepted) {
  const auto fields = std::make_shared<ResponsesFields>();
  Dialect dialect{.read = nullptr, .write = nullptr, .id_prefix = "resp_"};
  dialect.read = [this, owner, fields](const ordered_json& body, const GenerationDefaults& defaults) {
    return ReadResponsesRequest(
        body, defaults, [this, owner](const std::string& id) { return Items(owner, id); }, *fields);
  };
  dialect.write = [this, owner, fields, accepted](
                      const GenerationRequest& request,
                      AnswerContext context) -> absl::StatusOr<std::unique_ptr<AnswerWriter>> {
    const auto keep = [this, owner, fields](const ordered_json& response) {
      return !fields->store || responses_.Put(owner, response["id"],
                                              {DumpJson(response), DumpJson(fields->input),
                                               response["status"] == "in_progress"});
    };
    if (accepted == nullptr) return std::make_unique<ResponsesWriter>(std::move(context), *fields, keep);
    ordered_json response = NewResponse(context, *fields, "in_progress");
    if (!keep(response)) {
      return absl::ResourceExhaustedError(
          fmt::format("there is no room for another response in the background of this key: expected at most "
                      "{} MiB and {} "
                      "responses together; try again when one of them has ended, or send a shorter input",
                      (limits::kStoredResponsesBytesMax / 2) >> 20, limits::kStoredResponsesMax / 2));
    }
    response["status"] = "queued";
    accepted(response, request);
    // A response that was deleted meanwhile must not be stored again.
    const auto still_there = [this, owner, keep](const ordered_json& said) {
      if (responses_.Get(owner, said["id"])) keep(said);
    };
    return std::make_unique<ResponsesWriter>(std::move(context), *fields, still_there);
  };
  return dialect;
}

void ResponsesRoutes::Create(const std::shared_ptr<net::Exchange>& exchange) {
  const uint64_t owner = OwnerOf(exchange->request());
  preparers_.Add(exchange, [this, exchange, owner]() -> PreparationPool::Then {
    return [this, exchange, owner, background = AsksForBackground(exchange->request().body)] {
      if (background) return CreateInBackground(exchange, owner);
      std::make_shared<GenerationTask>(deps_, running_, exchange, DialectOf(owner, nullptr))
          ->Start(preparers_);
    };
  });
}

void ResponsesRoutes::CreateInBackground(const std::shared_ptr<net::Exchange>& exchange, uint64_t owner) {
  const auto background = std::make_shared<BackgroundExchange>(exchange, *background_);
  // The task holds the exchange and this function, so this function must not hold the exchange.
  const std::weak_ptr<BackgroundExchange> weak = background;
  auto accepted = [this, weak, owner](const ordered_json& queued, const GenerationRequest& request) {
    const auto fail = [this, owner, id = queued["id"].get<std::string>()](const net::ApiError& error) {
      auto stored = responses_.Get(owner, id);
      if (!stored) return;
      ordered_json response = ordered_json::parse(stored->response);
      response["status"] = "failed";
      response["error"] = {{"code", "server_error"}, {"message", error.message}};
      responses_.Put(owner, id, {DumpJson(response), stored->input});
    };
    weak.lock()->Accept({.body = DumpJson(queued), .headers = IgnoredFieldsHeaders(request.ignored_fields)},
                        fail);
  };
  std::make_shared<GenerationTask>(deps_, running_, background, DialectOf(owner, std::move(accepted)))
      ->Start(preparers_);
}

void ResponsesRoutes::Get(const std::shared_ptr<net::Exchange>& exchange) {
  const net::HttpRequest& request = exchange->request();
  if (request.Query("stream") == "true")
    return exchange->ReplyError(net::BadRequest(
        "stream", "'stream': expected false, because a stored response is not streamed again"));
  auto stored = responses_.Get(OwnerOf(request), request.captures[0]);
  if (!stored) return exchange->ReplyError(NoSuchResponse(request.captures[0]));
  exchange->Reply({.body = std::move(stored->response)});
}

void ResponsesRoutes::Delete(const std::shared_ptr<net::Exchange>& exchange) {
  const net::HttpRequest& request = exchange->request();
  const std::string& id = request.captures[0];
  if (!responses_.Remove(OwnerOf(request), id)) return exchange->ReplyError(NoSuchResponse(id));
  for (const auto& task : running_.Find(id, request.caller)) task->Abort();
  ReplyJson(exchange, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

ResponsesRoutes::Made ResponsesRoutes::Cancelled(const net::HttpRequest& request) {
  const std::string& id = request.captures[0];
  const uint64_t owner = OwnerOf(request);
  const auto stored = responses_.Get(owner, id);
  if (!stored) return NoSuchResponse(id);
  ordered_json response = ordered_json::parse(stored->response);
  if (response["background"] != true)
    return net::BadRequest("", "only a response with background: true can be cancelled");
  if (response["status"] == "in_progress") {
    response["status"] = "cancelled";
    responses_.Put(owner, id, {DumpJson(response), stored->input});
    for (const auto& task : running_.Find(id, request.caller)) task->Abort();
  }
  return response;
}

void ResponsesRoutes::Cancel(const std::shared_ptr<net::Exchange>& exchange) {
  ReplyPrepared(exchange, &ResponsesRoutes::Cancelled);
}

void ResponsesRoutes::Count(const std::shared_ptr<net::Exchange>& exchange) {
  ReplyPrepared(exchange, &ResponsesRoutes::Counted);
}

ResponsesRoutes::Made ResponsesRoutes::Counted(const net::HttpRequest& request) {
  auto json = ReadBody(request.body);
  if (auto* error = std::get_if<net::ApiError>(&json)) return std::move(*error);
  ResponsesFields fields;
  const auto history = [this, owner = OwnerOf(request)](const std::string& id) { return Items(owner, id); };
  auto read = ReadResponsesRequest(std::get<ordered_json>(json), deps_.defaults, history, fields);
  if (const auto* error = std::get_if<net::ApiError>(&read)) return *error;
  auto& asked = std::get<GenerationRequest>(read);
  asked.counted_only = true;
  if (auto error = CheckModel(asked, deps_)) return *std::move(error);
  const auto prompts = TokenisePrompts(asked, deps_);
  if (const auto* error = std::get_if<net::ApiError>(&prompts)) return *error;
  return ordered_json{{"object", "response.input_tokens"},
                      {"input_tokens", std::get<0>(prompts).at(0).size()}};
}

void ResponsesRoutes::Input(const std::shared_ptr<net::Exchange>& exchange) {
  ReplyPrepared(exchange, &ResponsesRoutes::InputPage);
}

// A stored response may have megabytes, so no connection's thread reads it.
void ResponsesRoutes::ReplyPrepared(const std::shared_ptr<net::Exchange>& exchange,
                                    Made (ResponsesRoutes::*make)(const net::HttpRequest& request)) {
  preparers_.Add(exchange, [this, exchange, make]() -> PreparationPool::Then {
    auto made = (this->*make)(exchange->request());
    if (auto* error = std::get_if<net::ApiError>(&made))
      return [exchange, error = std::move(*error)] { exchange->ReplyError(error); };
    return [exchange, body = DumpJson(std::get<ordered_json>(made))] { exchange->Reply({.body = body}); };
  });
}

ResponsesRoutes::Made ResponsesRoutes::InputPage(const net::HttpRequest& request) {
  const std::string& id = request.captures[0];
  const auto stored = responses_.Get(OwnerOf(request), id);
  if (!stored) return NoSuchResponse(id);
  ordered_json items = ordered_json::parse(stored->input);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].contains("id")) items[i]["id"] = fmt::format("in_{}_{}", id, i);
  }
  const std::string_view order = request.Query("order"), after = request.Query("after");
  if (order != "asc") std::reverse(items.begin(), items.end());
  int limit = kItemsPerPage;
  const ordered_json asked = ordered_json::parse(request.Query("limit"), nullptr, false);
  if (asked.is_number_integer()) limit = std::clamp(asked.get<int>(), 1, kItemsPerPageMax);
  ordered_json page = ordered_json::array();
  bool begun = after.empty(), more = false;
  for (const ordered_json& item : items) {
    more = begun && static_cast<int>(page.size()) == limit;
    if (more) break;
    if (begun) page.push_back(item);
    begun = begun || item["id"] == std::string(after);
  }
  return ordered_json{{"object", "list"},
                      {"data", page},
                      {"first_id", page.empty() ? ordered_json() : page.front()["id"]},
                      {"last_id", page.empty() ? ordered_json() : page.back()["id"]},
                      {"has_more", more}};
}

}  // namespace numoe::serving
