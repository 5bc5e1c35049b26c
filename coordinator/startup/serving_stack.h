// ServingStack: everything that a serving coordinator is made of, from its metrics to its HTTP server.
//
// Create opens the port first, which says meanwhile what is being done, then loads the model, and serves the
// API once it returns; Serve waits for the signal that ends the process and drains. The members stand in the
// order in which each needs those before it, and the destructor ends them from the last - but that the API,
// the engine and the server hold on to each other, so it first has each of them let go (~ServingStack).
// Main thread. Errors name the flag, the file, the memory or the worker that is in the way.
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

  /// Until SIGINT or SIGTERM comes and what runs is finished, the clients' last bytes included, or the
  /// drain's time is over. REQUIRES: both were blocked before the process had a second thread.
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
  std::shared_ptr<TlsIdentityWatch> worker_tls_;  // null: plain text
  std::unique_ptr<serving::Tracer> tracer_;       // null: nothing is traced
  net::UrlTable starting_, urls_;                 // before, and once the model is loaded
  std::unique_ptr<net::Access> access_;
  std::optional<LoadedModel> loaded_;
  std::optional<text::GrammarCache> grammars_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<serving::ApiDeps> deps_;
  std::unique_ptr<serving::ApiService> service_;
  std::unique_ptr<net::Server> server_;
};

}  // namespace numoe::startup
