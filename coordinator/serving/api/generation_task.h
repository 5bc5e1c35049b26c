// GenerationTask: one request from its body to the last byte of its answer.
//
// The request is prepared on a thread of the PreparationPool (preparation.h) and then submitted to the engine
// as one sequence for each choice. Further choices of a prompt wait for the first token of its first choice,
// because the prefix cache then contains the prompt. If the client goes away, all sequences are cancelled;
// the same happens if one of them fails, because a request is answered as a whole. At its deadline, however,
// choices that have begun are ended and returned. Runs on its exchange's executor; the exchange and the
// engine hold it as long as it is needed.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/net/http/exchange.h"
#include "coordinator/serving/api/answer_writer.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/preparation.h"
#include "coordinator/serving/api/preparation_pool.h"
#include "coordinator/serving/api/request_trace.h"

namespace numoe::serving {

/// How one API reads requests and writes answers.
struct Dialect {
  RequestReader read;
  // If this returns an error, nothing is generated.
  std::function<absl::StatusOr<std::unique_ptr<AnswerWriter>>(const GenerationRequest&, AnswerContext)> write;
  const char* id_prefix;  // the beginning of the answer's id
  net::ErrorShape errors = net::ErrorShape::kOpenAi;
  UnaskedThinking unasked_thinking = UnaskedThinking::kAsTrained;
};

class GenerationTask;

/// The requests that are being answered, by each of their ids. Thread-safe.
class RunningTasks {
 public:
  void Add(const std::string& id, const std::shared_ptr<GenerationTask>& task);
  /// The tasks with this id that the caller may change: those of its own key, or all if it is an
  /// administrator. An empty id means all ids.
  std::vector<std::shared_ptr<GenerationTask>> Find(const std::string& id, const net::Caller& caller);
  int size();

 private:
  static constexpr size_t kSweepSizeMin = 64;

  Mutex mutex_;
  // When tasks_ reaches this size, tasks that have ended are removed; then it is set to twice the rest.
  size_t sweep_size_ ABSL_GUARDED_BY(mutex_) = kSweepSizeMin;
  std::multimap<std::string, std::weak_ptr<GenerationTask>> tasks_ ABSL_GUARDED_BY(mutex_);
};

/// "chatcmpl-" and 32 random hexadecimal digits. Thread-safe.
std::string NewAnswerId(const char* prefix);

class GenerationTask : public std::enable_shared_from_this<GenerationTask> {
 public:
  GenerationTask(const ApiDeps& deps, RunningTasks& running, std::shared_ptr<net::Exchange> exchange,
                 Dialect dialect)
      : deps_(deps),
        running_(running),
        exchange_(std::move(exchange)),
        caller_(exchange_->request().caller),
        dialect_(std::move(dialect)) {}

  /// Refuses the request before any work if the engine has no room.
  void Start(PreparationPool& preparers);
  /// Ends every choice at its current length, with finish reason "abort". May be called on any thread.
  void Abort();
  /// Who has sent the request. May be called on any thread.
  const net::Caller& caller() const { return caller_; }

 private:
  void Submit(Prepared prepared);
  bool AcquireSlots(size_t sequences);
  void SubmitChoice(size_t index);
  void OnEvent(size_t index, const engine::TokenEvent& event);
  void BeginStream();
  void SendStep(const Choice& choice, const ChoiceStep& step);
  bool Began() const;
  void FinishIfDone();
  void Fail(const net::ApiError& error);
  void CancelAll();

  const ApiDeps& deps_;
  RunningTasks& running_;
  const std::shared_ptr<net::Exchange> exchange_;
  const net::Caller caller_;
  const Dialect dialect_;
  Prepared prepared_;
  std::unique_ptr<AnswerWriter> writer_;
  std::unique_ptr<RequestTrace> trace_;  // null if the request is not recorded
  Choices choices_;
  std::vector<std::optional<SequenceId>> sequences_;  // [choice], while it runs
  std::vector<bool> submitted_;                       // [choice]
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  bool streaming_ = false;  // the head of the stream has been sent
  bool over_ = false;
};

}  // namespace numoe::serving
