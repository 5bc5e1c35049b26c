#include "coordinator/serving/api/responses_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

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

// Whose a response is: the key's that came with it, also where the server has none to compare it with. The
// key itself is not kept.
uint64_t OwnerOf(const net::HttpRequest& request) {
  if (request.caller.tenant != 0) return static_cast<uint64_t>(request.caller.tenant);
  return std::hash<std::string>{}(std::string(request.Header("authorization")) + "\n" +
                                  std::string(request.Header("x-api-key")));
}

net::ApiError NoSuchResponse(const std::string& id) {
  return {.http_status = 404,
          .message = "no such response: " + id.substr(0, 100) + "; it was not stored, or is no longer"};
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

// The exchange of an answer that nobody waits for: what it says is kept by its writer. Until the request is
// accepted, whoever asked is told what is wrong with it. It counts among its key's requests until it ends.
class BackgroundExchange final : public net::Exchange {
 public:
  BackgroundExchange(std::shared_ptr<net::Exchange> asked, boost::asio::thread_pool& pool)
      : request_(WithoutBody(asked->request())),
        asked_(std::move(asked)),
        place_(asked_->Place()),
        strand_(boost::asio::make_strand(pool)) {}

  /// `fail` is told of what goes wrong from now on.
  void Accept(const ordered_json& queued, std::function<void(const net::ApiError&)> fail) {
    fail_ = std::move(fail);
    asked_->Post([asked = asked_, queued] { ReplyJson(asked, queued); });
    asked_.reset();  // its connection may be closed long before the answer is made
  }

  const net::HttpRequest& request() const override { return request_; }
  /// REQUIRES: not accepted. The body counts among those in hand until it is read here.
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
  void OnGone(std::function<void()>) override {}  // it is not for one connection
  void Post(std::function<void()> work) override { boost::asio::post(strand_, std::move(work)); }
  boost::asio::any_io_executor Executor() override { return strand_; }
  std::shared_ptr<net::RequestPlace> Place() override { return place_; }
  void CountTokens(int) override {}

 private:
  const net::HttpRequest request_;        // without its body
  std::shared_ptr<net::Exchange> asked_;  // null: accepted
  const std::shared_ptr<net::RequestPlace> place_;
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
              // Answers in the background fill a key's places: it must still be able to look and to cancel.
              .counted = answer == &ResponsesRoutes::Create,
              .body_max = answer == &ResponsesRoutes::Create || answer == &ResponsesRoutes::Count
                              ? limits::kHttpBodyBytesMax
                              : limits::kHttpCommandBytesMax});
  };
  add("POST", "/v1/responses", "An answer to items of a conversation, kept for later (OpenAI)",
      &ResponsesRoutes::Create);
  add("POST", "/v1/responses/input_tokens", "The length of such a request's prompt in tokens",
      &ResponsesRoutes::Count);
  add("GET", "/v1/responses/{}", "An answer that was kept", &ResponsesRoutes::Get);
  add("DELETE", "/v1/responses/{}", "Forgets an answer", &ResponsesRoutes::Delete);
  add("POST", "/v1/responses/{}/cancel", "Ends an answer that is made in the background",
      &ResponsesRoutes::Cancel);
  add("GET", "/v1/responses/{}/input_items", "What an answer was given to", &ResponsesRoutes::Input);
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

Dialect ResponsesRoutes::DialectOf(uint64_t owner, std::function<void(const ordered_json&)> accepted) {
  const auto fields = std::make_shared<ResponsesFields>();
  Dialect dialect{.read = nullptr, .write = nullptr, .id_prefix = "resp_"};
  dialect.read = [this, owner, fields](const ordered_json& body, const GenerationDefaults& defaults) {
    return ReadResponsesRequest(
        body, defaults, [this, owner](const std::string& id) { return Items(owner, id); }, *fields);
  };
  dialect.write = [this, owner, fields, accepted](
                      const GenerationRequest&,
                      AnswerContext context) -> absl::StatusOr<std::unique_ptr<AnswerWriter>> {
    const auto keep = [this, owner, fields](const ordered_json& response) {
      return !fields->store || responses_.Put(owner, response["id"],
                                              {DumpJson(response), DumpJson(fields->input),
                                               response["status"] == "in_progress"});
    };
    if (accepted == nullptr) return std::make_unique<ResponsesWriter>(std::move(context), *fields, keep);
    ordered_json response = NewResponse(context, *fields, "in_progress");
    if (!keep(response)) {
      return absl::ResourceExhaustedError(fmt::format(
          "the responses that are made in the background for this key have no room for this one: "
          "expected at most {} MiB and {} of them together; try again when one of them has ended, "
          "or send a shorter input",
          (limits::kStoredResponsesBytesMax / 2) >> 20, limits::kStoredResponsesMax / 2));
    }
    response["status"] = "queued";
    accepted(response);
    // One that was deleted meanwhile stays so.
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
  // The task holds the exchange, and this function.
  const std::weak_ptr<BackgroundExchange> weak = background;
  auto accepted = [this, weak, owner](const ordered_json& queued) {
    const auto fail = [this, owner, id = queued["id"].get<std::string>()](const net::ApiError& error) {
      auto stored = responses_.Get(owner, id);
      if (!stored) return;
      ordered_json response = ordered_json::parse(stored->response);
      response["status"] = "failed";
      response["error"] = {{"code", "server_error"}, {"message", error.message}};
      responses_.Put(owner, id, {DumpJson(response), stored->input});
    };
    weak.lock()->Accept(queued, fail);
  };
  std::make_shared<GenerationTask>(deps_, running_, background, DialectOf(owner, std::move(accepted)))
      ->Start(preparers_);
}

void ResponsesRoutes::Get(const std::shared_ptr<net::Exchange>& exchange) {
  const net::HttpRequest& request = exchange->request();
  if (request.Query("stream") == "true")
    return exchange->ReplyError(
        net::BadRequest("stream", "'stream': expected false: what was said is not told again"));
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

// What is kept may be megabytes, which no connection's thread reads.
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
