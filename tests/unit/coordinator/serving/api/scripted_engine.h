// ScriptedEngine and RecordedExchange: the two ends of a request in the API, for tests of the code between
// them.
//
// The engine stores what is submitted to it, and the test says what it generates; cancelled sequences
// generate nothing more. The exchange stores the answer, and runs posted work when the test calls Run. The
// engine is used by one thread; Post may be called by any thread, the rest of the exchange by the test's
// thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::serving {

class ScriptedEngine final : public engine::Engine {
 public:
  bool HasRoom(const engine::Tenant&, const engine::TenantLines&) const override { return has_room; }
  absl::StatusOr<SequenceId> Submit(engine::EngineRequest request) override {
    if (!refusal.ok()) return refusal;
    submitted.push_back(std::move(request));
    running[next] = submitted.back().on_event;
    return next++;
  }
  void Cancel(SequenceId sequence) override {
    if (running.erase(sequence) > 0) cancelled.push_back(sequence);
  }
  engine::EngineStats Stats() const override { return {}; }
  void ResetPrefixCache(const std::string&) override {}
  bool Drain(int64_t) override { return true; }

  /// Reports the sequence's next tokens; does nothing if it is not running.
  void Generate(SequenceId sequence, engine::TokenEvent event) {
    const auto found = running.find(sequence);
    if (found == running.end()) return;
    const auto on_event = found->second;
    if (event.finish != engine::FinishReason::kNone) running.erase(found);
    event.sequence = sequence;
    on_event(event);
  }

  bool has_room = true;
  absl::Status refusal;
  std::vector<engine::EngineRequest> submitted;
  std::vector<SequenceId> cancelled;
  std::map<SequenceId, std::function<void(const engine::TokenEvent&)>> running;
  SequenceId next = 1;
};

class RecordedExchange final : public net::Exchange {
 public:
  explicit RecordedExchange(std::string body) {
    request_.id = "recorded";  // a server gives every request an id
    request_.body = std::move(body);
  }

  const net::HttpRequest& request() const override { return request_; }
  std::string TakeBody() override { return std::move(request_.body); }
  void Reply(net::HttpReply given) override { reply = std::move(given), over = true; }
  void ReplyError(const net::ApiError& given) override { error = given, over = true; }
  void BeginStream() override { streaming = true; }
  void BeginBody(net::HttpReply given) override { head = std::move(given), streaming = true; }
  void Send(std::string data) override { sent += data; }
  void EndStream() override { over = true; }
  void Break() override { over = true; }
  void OnSent(std::function<void()> then) override { then(); }
  void OnGone(std::function<void()> then) override { on_gone = std::move(then); }
  void Post(std::function<void()> work) override { boost::asio::post(context_, std::move(work)); }
  boost::asio::any_io_executor Executor() override { return context_.get_executor(); }
  std::shared_ptr<net::ConcurrencySlot> Slot() override { return slot; }
  void CountTokens(int count) override { tokens += count; }

  net::HttpRequest& incoming() { return request_; }
  /// Runs the work that was posted until now.
  void Run() {
    context_.restart();
    context_.poll();
  }

  net::HttpReply reply{.status = 0}, head{.status = 0};
  net::ApiError error{.http_status = 0};
  std::string sent;
  bool streaming = false, over = false;
  int tokens = 0;
  std::function<void()> on_gone;
  std::shared_ptr<net::ConcurrencySlot> slot;

 private:
  net::HttpRequest request_;
  boost::asio::io_context context_;
};

}  // namespace numoe::serving
