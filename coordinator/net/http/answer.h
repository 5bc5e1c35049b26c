// Answer: the Exchange that a connection gives to its handlers, one for each request.
//
// A connection serves one request after the other. Each has a round number, so that calls for a request that
// is over are dropped. An Answer keeps its connection alive until the handler releases it. Threads: see
// exchange.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/net/http/exchange.h"
#include "coordinator/net/http/request_bodies.h"

namespace numoe::net {

/// Receives what handlers call on an Answer; a connection implements it.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  /// Whether the request of this round still waits for its answer.
  virtual bool Answers(uint64_t round) const = 0;
  // REQUIRES for all functions below: the request still waits for its answer.
  virtual void Reply(HttpReply reply) = 0;
  virtual void ReplyError(const ApiError& error) = 0;
  virtual void BeginBody(const HttpReply& head) = 0;
  virtual void SendChunk(const std::string& data) = 0;
  virtual void EndStream() = 0;
  virtual void Break() = 0;
  virtual void NoteFailure(std::string what) = 0;
  virtual void OnSent(std::function<void()> sent) = 0;
  virtual void OnGone(std::function<void()> gone) = 0;
  virtual std::shared_ptr<ConcurrencySlot> Slot() = 0;
  virtual void CountTokens(int tokens) = 0;
  virtual boost::asio::any_io_executor Executor() = 0;
};

class Answer final : public Exchange {
 public:
  Answer(std::shared_ptr<AnswerSink> connection, HttpRequest request, uint64_t round,
         std::shared_ptr<RequestBodies> bodies)
      : connection_(std::move(connection)),
        request_(std::move(request)),
        round_(round),
        body_share_(std::move(bodies)) {}

  const HttpRequest& request() const override { return request_; }
  std::string TakeBody() override;
  void Reply(HttpReply reply) override;
  void ReplyError(const ApiError& error) override;
  void BeginStream() override;
  void BeginBody(HttpReply head) override;
  void Send(std::string data) override;
  void EndStream() override;
  void Break() override;
  void NoteFailure(std::string what) override;
  void OnSent(std::function<void()> sent) override;
  void OnGone(std::function<void()> gone) override;
  void Post(std::function<void()> work) override;
  boost::asio::any_io_executor Executor() override { return connection_->Executor(); }
  std::shared_ptr<ConcurrencySlot> Slot() override { return live() ? connection_->Slot() : nullptr; }
  void CountTokens(int tokens) override;

  /// Used by the connection until the handler is given the request.
  HttpRequest& incoming() { return request_; }
  RequestBodies::Share& body_share() { return body_share_; }

 private:
  bool live() const { return connection_->Answers(round_); }

  const std::shared_ptr<AnswerSink> connection_;
  HttpRequest request_;
  const uint64_t round_;
  RequestBodies::Share body_share_;
};

}  // namespace numoe::net
