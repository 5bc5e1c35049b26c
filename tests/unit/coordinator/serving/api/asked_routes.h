// AskedRoutes: calls routes of the API in tests without a server, with an engine that computes nothing.
//
// Ask finds a request's route as a server does, runs its handler and waits for the one reply; a stream is a
// failure. The tokenizer has a token for each byte. The engine records the calls that it gets. One thread
// calls Ask.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/generation_task.h"
#include "coordinator/serving/api/preparation_pool.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/byte_tokenizer.h"

namespace numoe::serving {

class StillEngine final : public engine::Engine {
 public:
  bool HasRoom(const engine::Tenant&, const engine::TenantLines&) const override { return room; }
  absl::StatusOr<SequenceId> Submit(engine::EngineRequest) override { return refusal; }
  void Cancel(SequenceId) override {}
  engine::EngineStats Stats() const override { return stats; }
  void ResetPrefixCache(const std::string& salt_beginning) override { resets.push_back(salt_beginning); }
  bool Drain(int64_t) override { return true; }

  bool room = true;
  absl::Status refusal = absl::UnavailableError("this engine computes nothing");
  engine::EngineStats stats;
  std::vector<std::string> resets;
};

// Receives the one reply of a handler, from any thread.
class AskedExchange final : public net::Exchange {
 public:
  AskedExchange(net::HttpRequest request, net::ErrorShape errors)
      : request_(std::move(request)), errors_(errors) {}
  const net::HttpRequest& request() const override { return request_; }
  std::string TakeBody() override { return std::move(request_.body); }
  void Reply(net::HttpReply reply) override { reply_.set_value(std::move(reply)); }
  void ReplyError(const net::ApiError& error) override {
    Reply({.status = error.http_status, .body = error.ToJson(errors_)});
  }
  void BeginStream() override { ADD_FAILURE() << request_.path; }
  void BeginBody(net::HttpReply) override { ADD_FAILURE() << request_.path; }
  void Send(std::string) override { ADD_FAILURE() << request_.path; }
  void EndStream() override { ADD_FAILURE() << request_.path; }
  void Break() override { ADD_FAILURE() << request_.path; }
  void OnSent(std::function<void()>) override { ADD_FAILURE() << request_.path; }
  void OnGone(std::function<void()>) override {}  // no client leaves
  void Post(std::function<void()> work) override { work(); }
  boost::asio::any_io_executor Executor() override { return {}; }
  std::shared_ptr<net::ConcurrencySlot> Slot() override { return nullptr; }
  void CountTokens(int) override {}
  net::HttpReply Await() { return reply_.get_future().get(); }

 private:
  net::HttpRequest request_;
  const net::ErrorShape errors_;
  std::promise<net::HttpReply> reply_;
};

class AskedRoutes : public ::testing::Test {
 protected:
  // The reply to "GET /path?name=value" with this body.
  net::HttpReply Ask(const std::string& method, const std::string& path, const std::string& body = "",
                     const net::Caller& caller = {},
                     std::vector<std::pair<std::string, std::string>> query = {}) {
    const auto found = urls_.Find(method, path);
    if (const auto* error = std::get_if<net::ApiError>(&found))
      return {.status = error->http_status, .body = error->ToJson()};
    const net::RouteMatch& match = std::get<net::RouteMatch>(found);
    const auto exchange = std::make_shared<AskedExchange>(net::HttpRequest{.method = method,
                                                                           .target = path,
                                                                           .path = path,
                                                                           .query = std::move(query),
                                                                           .captures = match.captures,
                                                                           .body = body,
                                                                           .id = "asked",
                                                                           .caller = caller},
                                                          match.route->errors);
    match.route->handle(exchange);
    return exchange->Await();
  }
  // The JSON of the same reply, whose status must be 200.
  nlohmann::ordered_json AskJson(const std::string& method, const std::string& path,
                                 const std::string& body = "", const net::Caller& caller = {}) {
    const net::HttpReply reply = Ask(method, path, body, caller);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return nlohmann::ordered_json::parse(reply.body, nullptr, false);
  }
  // The route that answers this method and path.
  const net::Route& Found(const std::string& method, const std::string& path) const {
    return *std::get<net::RouteMatch>(urls_.Find(method, path)).route;
  }

  StillEngine engine_;
  const ByteTokenizer tokenizer_{{"!<end>"}};
  const std::unique_ptr<text::ChatTemplate> chat_template_ =
      text::ChatTemplate::Parse("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}", "t")
          .value();
  Metrics metrics_{MetricOwner::kCoordinator};
  text::GrammarCache grammars_{text::GrammarVocabulary::Build(tokenizer_, {})};
  ApiDeps deps_{.engine = engine_,
                .tokenizer = tokenizer_,
                .chat_template = chat_template_.get(),
                .metrics = metrics_,
                .model_names = {"nano", "nano-2"},
                .fingerprint = "fp_1",
                .model_path = "/models/nano",
                .max_model_len = 1000,
                .grammars = grammars_,
                .health =
                    [] {
                      return HealthReport{"ready", ""};
                    },
                .live =
                    [] {
                      return HealthReport{"alive", ""};
                    },
                .expert_stats = [] { return std::string("[]"); },
                .server_info = {{"port", 8080}}};
  RunningTasks running_;
  net::UrlTable urls_;
  PreparationPool preparers_{1};  // destroyed first, because its jobs use all of the others
};

}  // namespace numoe::serving
