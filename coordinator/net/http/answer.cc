#include "coordinator/net/http/answer.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "coordinator/net/http/message_heads.h"

namespace numoe::net {

std::string Answer::TakeBody() {
  body_share_.Release();
  return std::move(request_.body);
}

void Answer::Reply(HttpReply reply) {
  if (live()) connection_->Reply(std::move(reply));
}

void Answer::ReplyError(const ApiError& error) {
  if (live()) connection_->ReplyError(error);
}

void Answer::BeginStream() { BeginBody(EventStream()); }

void Answer::BeginBody(HttpReply head) {
  if (live()) connection_->BeginBody(head);
}

void Answer::Send(std::string data) {
  if (live()) connection_->SendChunk(data);
}

void Answer::EndStream() {
  if (live()) connection_->EndStream();
}

void Answer::Break() {
  if (live()) connection_->Break();
}

void Answer::NoteFailure(std::string what) {
  if (live()) connection_->NoteFailure(std::move(what));
}

void Answer::OnSent(std::function<void()> sent) {
  if (live()) connection_->OnSent(std::move(sent));
}

void Answer::OnGone(std::function<void()> gone) {
  if (live()) connection_->OnGone(std::move(gone));
}

void Answer::Post(std::function<void()> work) {
  boost::asio::post(connection_->Executor(),
                    [connection = connection_, round = round_, work = std::move(work)] {
                      if (connection->Answers(round)) work();
                    });
}

void Answer::CountTokens(int tokens) {
  if (live()) connection_->CountTokens(tokens);
}

}  // namespace numoe::net
