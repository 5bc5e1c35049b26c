// LoadedModel: the model and all that it needs before anybody is served, in the order in which it is made.
//
// LoadModel finds out what is wrong with flags, files or memory before it waits for the workers, and loads
// the weights last. The members stand so that each needs only those before it: the destructor ends them from
// the last. Called at start, by the main thread; SIGTERM ends the process meanwhile.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "common/topology/host_memory.h"
#include "common/transport/tls_identity.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"
#include "coordinator/execution/device/device.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/device_choice.h"
#include "coordinator/startup/serving_options.h"
#include "coordinator/startup/start_note.h"
#include "coordinator/text/chat/chat_template.h"
#include "coordinator/text/parsing/output_format.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::startup {

struct LoadedModel {
  std::unique_ptr<Checkpoint> checkpoint;  // experts are read from it as long as it serves
  ModelConfig config;
  GenerationDefaults defaults;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: the model has none
  text::OutputFormat output_format;
  CapacityPlan plan;
  MemoryReservation reservation;
  std::unique_ptr<execution::ExpertFanOut> experts;
  std::unique_ptr<execution::Device> device;
  std::unique_ptr<execution::Model> model;
};

/// What the whole process outlives its model with.
struct LoadSurroundings {
  std::shared_ptr<TlsIdentityWatch> worker_tls;  // null: plain text
  Metrics& metrics;
  StartNote& doing;
};

absl::StatusOr<LoadedModel> LoadModel(const ServingOptions& options, const LoadSurroundings& around);

}  // namespace numoe::startup
