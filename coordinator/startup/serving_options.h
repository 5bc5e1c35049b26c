// ServingOptions: what the command line, the environment and the file tell the coordinator, in the words that
// operators of vLLM and SGLang know.
//
// ReadServingOptions reads every flag once (common/base/flags.h) and returns values, so that no other code
// reads the text of a flag. It also checks flags that depend on each other. INVALID_ARGUMENT names the
// flags, what was found and what is expected, also for a flag on the command line that changes nothing when
// combined with the others (common/base/unused_flags.h); FAILED_PRECONDITION names an instruction set that
// this machine lacks. The results are plain values. The main thread calls it before any other thread starts.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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

/// How the coordinator reaches the expert workers.
struct WorkerAccess {
  std::vector<std::string> addresses;  // HOST:PORT or unix:PATH
  TlsFiles tls{.flag_prefix = "worker-"};
  execution::DataPath data_path = execution::DataPath::kAuto;
  std::optional<gid_t> shared_memory_group;
  int64_t start_timeout_ms = 60'000;  // 0: no limit
};

/// kAuto: a GPU if there is one that can be used, otherwise the CPU.
enum class DeviceKind : uint8_t { kAuto, kCpu, kCuda };

/// Where attention and dense layers run, and in which formats.
struct DeviceOptions {
  DeviceKind kind = DeviceKind::kAuto;
  std::optional<int> ordinal;  // number of the GPU, if the flag has one
  struct Bytes {
    uint64_t bytes = 0;
    std::string text;  // as the operator wrote it
  };
  std::optional<Bytes> gpu_memory;  // maximum to use; all that is free if nullopt
  int threads = 0;                  // of the CPU device; 0: one for each core that this process may use
  Isa isa = Isa::kScalar;           // the one that the CPU uses, also where the flag says auto
  bool isa_chosen = false;          // --isa names one
  Precision precision = Precision::kFast;
  std::optional<WeightFormat> dense_format;  // as published if nullopt
};

/// Returns the value of --device: "cuda:1".
std::string DeviceWord(const DeviceOptions& device);

/// How the API is served, and who may use it.
struct ApiOptions {
  net::ServerOptions server;
  net::AccessOptions access;
  std::string port_file;
  std::string reasoning_parser = "auto";  // words of parsing/output_format.h; auto needs the vocabulary
  std::string tool_call_parser = "auto";
  std::string chat_template;  // a file; the model's own template if empty
  serving::SamplingLocks locked;
  double request_timeout_s = 0;  // 0: no limit
};

struct ServingOptions {
  std::string model;
  std::vector<std::string> served_model_names;
  WorkerAccess workers;
  DeviceOptions device;
  CapacityRequest capacity;
  ApiOptions api;

  // The engine's.
  int queue_max = 256;
  bool deterministic = false;
  bool prefix_caching = true;
  bool share_prefix_cache = false;
  double decode_stretch_max = 2;
  int deferred_experts = 0;
  TokenThreshold overlap = Measured{};
  std::string expert_heat_file;  // no file if empty
  int64_t worker_deadline_ms = 60'000;

  // The process's.
  bool plan = false;  // print how much memory the model takes, and end
  bool core_dumps = false;
  int64_t drain_timeout_ms = 30'000;
  int64_t live_deadline_ms = 300'000;
  std::string memory_reservations = "auto";
  std::string otlp_endpoint;  // nothing is traced if empty
  double trace_ratio = 1;
  LogOptions log{.program = "numoe-coordinator"};

  std::set<std::string, std::less<>> typed;  // names of the flags on the command line
  std::vector<std::string> notes;  // to log: flags of the environment or the file that change nothing
};

/// The exit code with which to leave at once, after the parser has printed its text; or the options.
using ServingCommand = std::variant<int, ServingOptions>;

absl::StatusOr<ServingCommand> ReadServingOptions(int argc, char** argv);

}  // namespace numoe::startup
