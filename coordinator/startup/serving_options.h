// ServingOptions: what the command line, the environment and the file tell the coordinator, in the words that
// operators of vLLM and SGLang know.
//
// ReadServingOptions reads every flag once (common/base/flags.h) and hands out values, not texts: nothing
// behind it looks at a flag's text again. What no single flag shows is checked here, too: INVALID_ARGUMENT
// names the flags, what was found and what is expected; FAILED_PRECONDITION an instruction set that this
// machine lacks. Values, no owner. Main thread, before any other thread starts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "common/transport/tls_identity.h"
#include "coordinator/execution/transport/worker_link.h"
#include "coordinator/net/http/server.h"
#include "coordinator/serving/api/sampling_locks.h"
#include "coordinator/startup/capacity_plan.h"
#include "coordinator/startup/token_threshold.h"

namespace numoe::startup {

/// How the expert workers are reached.
struct WorkerAccess {
  std::vector<std::string> addresses;  // HOST:PORT or unix:PATH
  TlsFiles tls{.flag_prefix = "worker-"};
  execution::DataPath data_path = execution::DataPath::kAuto;
  std::optional<gid_t> shared_memory_group;
  int64_t start_timeout_ms = 60'000;  // 0: for ever
};

/// kAuto: a GPU if there is one that can be used.
enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda };

/// Where attention and dense layers run, and in what.
struct DeviceOptions {
  DeviceKind kind = DeviceKind::kAuto;
  std::optional<int> ordinal;  // of a GPU that was asked for by number
  struct Bytes {
    uint64_t bytes = 0;
    std::string text;  // as the operator wrote it
  };
  std::optional<Bytes> gpu_memory;  // to use at most; nullopt: all that is free
  int threads = 0;                  // on the CPU; 0: every CPU that this process may use
  Isa isa = Isa::kScalar;           // the one that is used, also where the flag says auto
  Precision precision = Precision::kFast;
  std::optional<WeightFormat> dense_format;  // nullopt: as published
};

/// "cuda:1", as the flag takes it.
std::string DeviceWord(const DeviceOptions& device);

/// How the API is served, and to whom.
struct ApiOptions {
  net::ServerOptions server;
  net::AccessOptions access;
  std::string port_file;
  std::string reasoning_parser = "auto";  // words of parsing/output_format.h, which may need the vocabulary
  std::string tool_call_parser = "auto";
  std::string chat_template;  // a file; empty: the model's own
  serving::SamplingLocks locked;
  double request_timeout_s = 0;  // 0: any time
};

struct ServingOptions {
  std::string model;
  std::vector<std::string> served_model_names;
  WorkerAccess workers;
  DeviceOptions device;
  CapacityRequest capacity;
  ApiOptions api;

  // Of the engine.
  int queue_max = 256;
  bool deterministic = false;
  bool prefix_caching = true;
  bool share_prefix_cache = false;
  double decode_stretch_max = 2;
  int deferred_experts = 0;
  TokenThreshold overlap = Measured{};
  std::string expert_heat_file;  // empty: none
  int64_t worker_deadline_ms = 60'000;

  // Of the process.
  bool plan = false;  // say what the model takes of memory, and end
  bool core_dumps = false;
  int64_t drain_timeout_ms = 30'000;
  int64_t live_deadline_ms = 300'000;
  std::string memory_reservations = "auto";
  std::string otlp_endpoint;  // empty: nothing is traced
  double trace_ratio = 1;
  LogOptions log{.program = "numoe-coordinator"};
};

/// The exit code to leave with at once, where the parser has said what there is to say; or the options.
using ServingCommand = std::variant<int, ServingOptions>;

absl::StatusOr<ServingCommand> ReadServingOptions(int argc, char** argv);

}  // namespace numoe::startup
