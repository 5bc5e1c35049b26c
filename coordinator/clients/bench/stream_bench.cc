#include "coordinator/clients/bench/stream_bench.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/check.h"
#include "common/base/descriptors.h"
#include "common/base/status.h"
#include "common/threading/thread_binding.h"
#include "common/weights/model_config.h"
#include "coordinator/clients/bench/bench_texts.h"
#include "coordinator/clients/bench/paced_engine.h"
#include "coordinator/clients/bench/stream_client.h"
#include "coordinator/net/http/server.h"
#include "coordinator/serving/api/api_service.h"

namespace numoe::clients {
namespace {

constexpr int kOpenSecondsMax = 60;
constexpr char kBody[] = R"({{"messages": [{{"role": "user", "content": {}}}], "stream": true, )"
                         R"("max_tokens": 1000000, "ignore_eos": true, "seed": {}}})";

// Returns this process's threads whose name begins with "http-".
std::vector<pid_t> HttpThreads() {
  std::vector<pid_t> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name.rfind("http-", 0) == 0) threads.push_back(std::stoi(task.path().filename().string()));
  }
  return threads;
}

double CpuSeconds(const std::vector<pid_t>& threads) {
  double sum = 0;
  for (const pid_t thread : threads) {
    int64_t ns = 0;
    std::ifstream(fmt::format("/proc/self/task/{}/schedstat", thread)) >> ns;
    sum += static_cast<double>(ns) / 1e9;
  }
  return sum;
}

// Allocated bytes, and the process's bytes in memory.
struct Memory {
  double heap = 0;
  double resident = 0;
};

Memory MemoryNow() {
  const struct mallinfo2 info = mallinfo2();
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return {static_cast<double>(info.uordblks + info.hblkhd),
          static_cast<double>(resident * sysconf(_SC_PAGESIZE))};
}

double Percentile(std::vector<double>& values, double share) {
  NUMOE_CHECK(!values.empty() && 0 <= share && share <= 1);
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}

class StreamBench {
 public:
  explicit StreamBench(const StreamBenchOptions& options)
      : o_(options), client_([this](int stream, int64_t n) { OnEvent(stream, n); }) {}

  ~StreamBench() {
    client_.CloseAll();
    // The parts that post to connections end before the server does.
    if (server_ != nullptr) server_->Stop();
    if (service_ != nullptr) service_->Stop();
    engine_.reset();
  }

  absl::Status Run() {
    if (static_cast<int>(RaiseDescriptorLimit()) < 2 * o_.streams + 100)
      return absl::ResourceExhaustedError(
          fmt::format("{} descriptors are needed; see ulimit -n", 2 * o_.streams + 100));
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(OpenStreams());
    const Memory opened = MemoryNow();
    measuring_ = true;
    const double cpu = CpuSeconds(http_threads_);
    RETURN_IF_ERROR(client_.ReadFor(o_.seconds));
    Report(opened, CpuSeconds(http_threads_) - cpu);
    return Close();
  }

 private:
  absl::Status Start() {
    ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Load(o_.model));
    ASSIGN_OR_RETURN(chat_template_, text::ChatTemplate::Load(o_.model));
    ASSIGN_OR_RETURN(const text::OutputFormat format, text::ChooseOutputFormat(*tokenizer_, "auto", "auto"));
    grammars_ = std::make_unique<text::GrammarCache>(text::GrammarVocabulary::Build(*tokenizer_, {}));
    std::vector<int> cpus = CpusOfThisThread();
    if (cpus.size() < 2)
      return absl::InvalidArgumentError("found one CPU, expected at least two: one is for the server alone");
    const std::vector<int> server_cpu = {cpus.front()};
    cpus.erase(cpus.begin());
    NUMOE_CHECK(BindThread(pthread_self(), cpus));  // also binds every thread that this one starts
    engine_ = std::make_unique<PacedEngine>(
        PacedEngineOptions{.sequences_max = o_.streams,
                           .tokens_per_second = o_.tokens_per_second,
                           .together = o_.together,
                           .token = tokenizer_->Encode("word", text::Specials::kAsText).front()});
    deps_.emplace(serving::ApiDeps{.engine = *engine_,
                                   .tokenizer = *tokenizer_,
                                   .chat_template = chat_template_.get(),
                                   .metrics = metrics_,
                                   .model_names = {"bench"},
                                   .fingerprint = "",
                                   .max_model_len = 1 << 20,
                                   .output_format = format,
                                   .grammars = *grammars_,
                                   .health =
                                       [] {
                                         return serving::HealthReport{"ready", ""};
                                       },
                                   .live =
                                       [] {
                                         return serving::HealthReport{"alive", ""};
                                       }});
    service_ = std::make_unique<serving::ApiService>(*deps_);
    service_->Register(urls_);
    ASSIGN_OR_RETURN(access_, net::Access::Create({}));
    ASSIGN_OR_RETURN(server_,
                     net::Server::Create(urls_, *access_, metrics_,
                                         {.host = "127.0.0.1", .port = 0, .threads = o_.http_threads}));
    RETURN_IF_ERROR(server_->Start());
    while (http_threads_.size() < static_cast<size_t>(o_.http_threads)) http_threads_ = HttpThreads();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(server_cpu.front()), &set);
    for (const pid_t thread : http_threads_) NUMOE_CHECK_EQ(sched_setaffinity(thread, sizeof set, &set), 0);
    return absl::OkStatus();
  }

  // Reads until each stream has had an event.
  absl::Status OpenStreams() {
    NUMOE_CHECK(server_ != nullptr && begun_ == 0 && !measuring_);
    using Clock = std::chrono::steady_clock;
    lags_.reserve(static_cast<size_t>(o_.streams) *
                  static_cast<size_t>(o_.tokens_per_second * (o_.seconds + 2)));
    before_ = MemoryNow();
    const auto begin = Clock::now();
    const std::string prompt = nlohmann::json(EnglishText(static_cast<size_t>(o_.prompt_bytes))).dump();
    for (int i = 0; i < o_.streams; ++i)
      RETURN_IF_ERROR(client_.Open(server_->port(), fmt::format(kBody, prompt, i)));
    while (begun_ < o_.streams) {
      RETURN_IF_ERROR(client_.ReadFor(0.01));
      if (Clock::now() - begin > std::chrono::seconds(kOpenSecondsMax))
        return absl::DeadlineExceededError(fmt::format("only {} streams of {} began", begun_, o_.streams));
    }
    return absl::OkStatus();
  }

  void OnEvent(int stream, int64_t n) {
    NUMOE_DCHECK(0 <= stream && stream < o_.streams && n >= 0);
    if (n == 0) ++begun_;
    if (!measuring_ || n == 0) return;
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    // The first event has the role but no token.
    const int64_t emitted = engine_->EmittedAt(stream, n - 1);
    NUMOE_CHECK(0 < emitted && emitted <= now) << "token " << n - 1 << " of stream " << stream;
    lags_.push_back(static_cast<double>(now - emitted) / 1e6);
  }

  void Report(const Memory& opened, double cpu_seconds) {
    NUMOE_CHECK(!lags_.empty() && begun_ == o_.streams) << begun_;
    const double streams = o_.streams, seconds = o_.seconds;
    const std::vector<std::pair<const char*, double>> figures = {
        {"events_per_s", static_cast<double>(lags_.size()) / seconds},
        {"core_share", cpu_seconds / seconds},
        {"us_per_event", cpu_seconds * 1e6 / static_cast<double>(lags_.size())},
        {"heap_kb_per_stream", (opened.heap - before_.heap) / streams / 1e3},
        {"resident_kb_per_stream", (opened.resident - before_.resident) / streams / 1e3},
        {"lag_p50_ms", Percentile(lags_, 0.5)},
        {"lag_p99_ms", Percentile(lags_, 0.99)},
        {"lag_max_ms", Percentile(lags_, 1)}};
    std::string line = fmt::format(
        fmt::runtime(
            o_.json
                ? R"({{"bench": "streams", "streams": {}, "tokens_per_s_each": {}, "tokens": "{}", "prompt_bytes": {}, "http_threads": {})"
                : "{} streams of {} token(s)/s, {}, prompts of {} bytes, {} HTTP threads on one core\n"),
        o_.streams, o_.tokens_per_second, o_.together ? "together" : "spread", o_.prompt_bytes,
        o_.http_threads);
    for (const auto& [name, value] : figures)
      line += fmt::format(fmt::runtime(o_.json ? R"(, "{}": {:.4f})" : "  {:24}{:12.3f}\n"), name, value);
    std::puts((line + (o_.json ? "}" : "")).c_str());
    std::fflush(stdout);
  }

  // When clients disconnect, everything that belonged to them is freed.
  absl::Status Close() {
    client_.CloseAll();
    for (int i = 0; i < 1000; ++i) {
      if (engine_->Stats().running == 0) return absl::OkStatus();
      usleep(10'000);
    }
    return absl::InternalError(
        fmt::format("{} sequences run on although their clients left", engine_->Stats().running));
  }

  const StreamBenchOptions& o_;
  Metrics metrics_{MetricOwner::kCoordinator};
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_template_;
  std::unique_ptr<text::GrammarCache> grammars_;
  std::unique_ptr<PacedEngine> engine_;
  std::optional<serving::ApiDeps> deps_;
  net::UrlTable urls_;
  std::unique_ptr<serving::ApiService> service_;
  std::unique_ptr<net::Access> access_;
  std::unique_ptr<net::Server> server_;
  std::vector<pid_t> http_threads_;
  StreamClient client_;
  Memory before_;
  int begun_ = 0;
  bool measuring_ = false;
  std::vector<double> lags_;  // milliseconds
};

}  // namespace

int RunStreamBench(const StreamBenchOptions& options) {
  const absl::Status status = StreamBench(options).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace numoe::clients
