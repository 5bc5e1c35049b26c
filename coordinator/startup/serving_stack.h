// ServingStack: all parts of a serving coordinator, from its metrics to its HTTP server.
//
// Create opens the port first, where /health says how far the start is, then loads the model; once it
// returns, the API is served. Serve waits for the signal that ends the process and drains. Each member needs
// only those before it, and the destructor destroys them from the last to the first. The API, the engine and
// the server are the exception: they refer to each other, so ~ServingStack first stops each of them. The main
// thread uses it. Errors name the flag, the file, the memory or the worker that is the cause.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "common/transport/tls_identity.h"
#include "coordinator/engine/scheduler/engine.h"
#include "coordinator/net/http/access.h"
#include "coordinator/net/http/server.h"
#include "coordinator/net/http/url_table.h"
#include "coordinator/serving/api/api_deps.h"
#include "coordinator/serving/api/api_service.h"
#include "coordinator/serving/tracing/tracer.h"
#include "coordinator/startup/loaded_model.h"
#include "coordinator/startup/serving_options.h"
#include "coordinator/startup/start_note.h"

namespace numoe::startup {

class ServingStack {
 public:
  static absl::StatusOr<std::unique_ptr<ServingStack>> Create(const ServingOptions& options);
  ServingStack(const ServingStack&) = delete;
  ServingStack& operator=(const ServingStack&) = delete;
  ~ServingStack();

  /// Returns after SIGINT or SIGTERM, once all running requests are finished and sent, or the drain timeout
  /// has passed. REQUIRES: both signals were blocked before the process had a second thread.
  void Serve();

  int port() const { return server_->port(); }

 private:
  explicit ServingStack(const ServingOptions& options) : options_(options) {}
  absl::Status OpenPort();
  absl::Status Load();
  void StartApi();
  absl::StatusOr<std::string> ExpertStats() const;

  const ServingOptions options_;
  StartNote doing_{"reading the model's files"};
  std::atomic<bool> draining_{false};
  Metrics metrics_{MetricOwner::kCoordinator};
  std::shared_ptr<TlsIdentityWatch> worker_tls_;  // null for plain text
  std::unique_ptr<serving::Tracer> tracer_;       // null if nothing is traced
  net::UrlTable starting_, urls_;                 // before the model is loaded, and after
  std::unique_ptr<net::Access> access_;
  std::optional<LoadedModel> loaded_;
  std::optional<text::GrammarCache> grammars_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<serving::ApiDeps> deps_;
  std::unique_ptr<serving::ApiService> service_;
  std::unique_ptr<net::Server> server_;
};

}  // namespace numoe::startup
