// GenerationTask: one request's life from its body to the last byte of its answer.
//
// Prepared on a thread of its own kind (preparation.h), then submitted: a sequence for each choice. Choices
// of one prompt after the first wait for that one's first token, because then the prefix cache has the
// prompt. The client's going away cancels every sequence, and so does an error of one of them: a request is
// answered as a whole. Its deadline, though, ends what has begun to be said, and its client gets that. Lives
// on its exchange's executor; the exchange and the engine hold it as long as it is needed.
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

/// How one API asks and is answered.
struct Dialect {
  RequestReader read;
  // An error: nothing is generated.
  std::function<absl::StatusOr<std::unique_ptr<AnswerWriter>>(const GenerationRequest&, AnswerContext)> write;
  const char* id_prefix;  // of the answer's id
  net::ErrorShape errors = net::ErrorShape::kOpenAi;
  UnaskedThinking unasked_thinking = UnaskedThinking::kAsTrained;
};

class GenerationTask;

/// The requests that are being answered, by the ids they may be called by. Thread-safe.
class RunningTasks {
 public:
  void Add(const std::string& id, const std::shared_ptr<GenerationTask>& task);
  /// Those of this id that the caller may change: its own key's, or anybody's if it is an admin. Of any id
  /// where it is empty.
  std::vector<std::shared_ptr<GenerationTask>> Find(const std::string& id, const net::Caller& caller);
  int size();

 private:
  static constexpr size_t kSweepSizeMin = 64;

  Mutex mutex_;
  // Tasks that have ended are dropped when tasks_ has this size, which is then set to twice what is left.
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

  /// Refuses before any work where the engine has no room.
  void Start(PreparationPool& preparers);
  /// From any thread: ends every choice where it is, with finish reason "abort".
  void Abort();
  /// Whose it is; from any thread.
  const net::Caller& caller() const { return caller_; }

 private:
  void Submit(Prepared prepared);
  bool TakePlaces(size_t sequences);
  void SubmitChoice(size_t index);
  void OnEvent(size_t index, const engine::TokenEvent& event);
  void Tell(const Choice& choice, const ChoiceStep& step);
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
  std::unique_ptr<RequestTrace> trace_;  // null: not recorded
  Choices choices_;
  std::vector<std::optional<SequenceId>> sequences_;  // [choice], while it runs
  std::vector<bool> submitted_;                       // [choice]
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  bool streaming_ = false;  // the head of the stream is out
  bool over_ = false;
};

}  // namespace numoe::serving
