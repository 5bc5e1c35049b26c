#include "coordinator/startup/loaded_model.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"
#include "coordinator/execution/model/hot_experts.h"
#include "coordinator/startup/host_share.h"
#include "coordinator/startup/measured_plan.h"
#include "coordinator/startup/part_options.h"
#include "coordinator/startup/prompt_fetching.h"
#include "coordinator/startup/step_metrics.h"

namespace numoe::startup {
namespace {

// NOT_FOUND if the model has no template and --chat-template names none.
absl::StatusOr<std::unique_ptr<text::ChatTemplate>> LoadChatTemplate(const ServingOptions& options) {
  const std::string& file = options.api.chat_template;
  if (file.empty()) return text::ChatTemplate::Load(options.model);
  const absl::StatusOr<std::string> source = ReadTextFile(file, limits::kJsonFileBytesMax);
  if (!source.ok())
    return absl::InvalidArgumentError("--chat-template: " + std::string(source.status().message()));
  return text::ChatTemplate::Parse(*source, "--chat-template: " + file);
}

absl::Status ReadFiles(const ServingOptions& options, LoadedModel& loaded) {
  ASSIGN_OR_RETURN(loaded.checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(loaded.config, ReadModelConfig(options.model));
  ASSIGN_OR_RETURN(loaded.defaults, ReadGenerationDefaults(options.model));
  ASSIGN_OR_RETURN(loaded.tokenizer, text::Tokenizer::Load(options.model));
  absl::StatusOr<std::unique_ptr<text::ChatTemplate>> chat_template = LoadChatTemplate(options);
  if (!chat_template.ok() && !absl::IsNotFound(chat_template.status())) return chat_template.status();
  if (chat_template.ok()) loaded.chat_template = *std::move(chat_template);
  ASSIGN_OR_RETURN(
      loaded.output_format,
      text::ChooseOutputFormat(*loaded.tokenizer, options.api.reasoning_parser, options.api.tool_call_parser,
                               loaded.chat_template ? loaded.chat_template->source() : std::string_view()));
  return absl::OkStatus();
}

absl::Status AwaitWorkers(const ServingOptions& options, const LoadSurroundings& around,
                          LoadedModel& loaded) {
  ASSIGN_OR_RETURN(const uint64_t fingerprint, loaded.checkpoint->Fingerprint());
  around.doing.Set("waiting for the expert workers");
  const WorkerAccess& workers = options.workers;
  LogInfo("waiting for the workers at {}", fmt::join(workers.addresses, ", "));
  ASSIGN_OR_RETURN(loaded.experts, execution::ExpertFanOut::Connect(
                                       {.addresses = workers.addresses,
                                        .link = {.data_path = workers.data_path,
                                                 .model_fingerprint = fingerprint,
                                                 .hidden_size = loaded.config.hidden_size,
                                                 .num_experts = loaded.config.num_experts,
                                                 .map_experts = loaded.plan.capacity.window > 0,
                                                 .shared_memory_group = workers.shared_memory_group,
                                                 .tls = around.worker_tls},
                                        .start_deadline_ms = workers.start_timeout_ms,
                                        .waiting_for =
                                            [&doing = around.doing](const std::string& missing) {
                                              doing.Set("waiting for the expert workers: " + missing);
                                            }},
                                       around.metrics));
  return absl::OkStatus();
}

absl::Status LoadWeights(const ServingOptions& options, const execution::ModelOptions& model_options,
                         const LoadSurroundings& around, DeviceChoice& choice, LoadedModel& loaded) {
  around.doing.Set("loading the model's weights");
  const Capacity& capacity = loaded.plan.capacity;
  ASSIGN_OR_RETURN(loaded.device, choice.Create(capacity.model_len, /*measure_only=*/false));
  execution::ExpertSlots* slots = nullptr;
  if (capacity.gpu_experts > 0 || capacity.window > 0) {
    ASSIGN_OR_RETURN(
        const execution::ExpertSlotSpec spec,
        execution::SlotSpecOf(*loaded.checkpoint, loaded.config, capacity.gpu_experts, capacity.window));
    ASSIGN_OR_RETURN(slots, loaded.device->ReserveExperts(spec));
  }
  ASSIGN_OR_RETURN(loaded.model, execution::Model::Load(*loaded.checkpoint, loaded.config, model_options,
                                                        *loaded.device, *loaded.experts));
  if (capacity.window > 0) {
    around.doing.Set("pinning the workers' memory");
    RETURN_IF_ERROR(FetchLongPrompts(options.capacity, loaded.config, *loaded.experts, *loaded.device));
  }
  NUMOE_CHECK_EQ(slots != nullptr, capacity.gpu_experts > 0) << "a device has slots where some were planned";
  if (slots == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(loaded.model,
                   execution::HotExperts::Create(std::move(loaded.model), *loaded.checkpoint, *slots,
                                                 {.heat_file = options.expert_heat_file,
                                                  .exchange = !options.deterministic,
                                                  .observe = ObserveHotExpertsWith(around.metrics)}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(const ServingOptions& options, const LoadSurroundings& around) {
  const ScopedDeadlySignals
      deadly;  // loading may take minutes, and an end in between leaves nothing to clean up
  LoadedModel loaded;
  RETURN_IF_ERROR(ReadFiles(options, loaded));
  ASSIGN_OR_RETURN(execution::ModelOptions model_options, ModelOptionsFor(options, loaded.config));
  model_options.observe = ObservePartsWith(around.metrics);
  model_options.observe_expert_execution = ObserveWaysWith(around.metrics);
  ASSIGN_OR_RETURN(DeviceChoice choice, DeviceChoice::Make(options));
  model_options.overlap_tokens = OverlapTokens(options, choice.gpu());
  ASSIGN_OR_RETURN(loaded.plan,
                   PlanOnDevice(options.capacity, *loaded.checkpoint, loaded.config, model_options, choice));
  NUMOE_CHECK_EQ(loaded.plan.gpu, choice.gpu()) << "the plan is for the device that was chosen";
  model_options.kv_blocks = loaded.plan.capacity.kv_blocks;
  ASSIGN_OR_RETURN(loaded.reservation,
                   ReserveHostShare(options.memory_reservations, options.log.program, loaded.plan));
  RETURN_IF_ERROR(AwaitWorkers(options, around, loaded));
  RETURN_IF_ERROR(LoadWeights(options, model_options, around, choice, loaded));
  return loaded;
}

}  // namespace numoe::startup
