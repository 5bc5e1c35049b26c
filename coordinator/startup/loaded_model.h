// LoadedModel: the model and everything that serving needs, in the order in which it is made.
//
// LoadModel finds what is wrong with flags, files or memory before it waits for the workers, and loads the
// weights last. Each member needs only those before it, and the destructor destroys them from the last to the
// first. The main thread calls LoadModel at the start; SIGTERM ends the process meanwhile.
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
  std::unique_ptr<Checkpoint> checkpoint;  // experts are read from it while the coordinator serves
  ModelConfig config;
  GenerationDefaults defaults;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;  // null if the model has none
  text::OutputFormat output_format;
  CapacityPlan plan;
  MemoryReservation reservation;
  std::unique_ptr<execution::ExpertFanOut> experts;
  std::unique_ptr<execution::Device> device;
  std::unique_ptr<execution::Model> model;
};

/// What belongs to the process and outlives the model.
struct LoadSurroundings {
  std::shared_ptr<TlsIdentityWatch> worker_tls;  // null for plain text
  Metrics& metrics;
  StartNote& doing;
};

absl::StatusOr<LoadedModel> LoadModel(const ServingOptions& options, const LoadSurroundings& around);

}  // namespace numoe::startup
