#include "coordinator/clients/bench/serve_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>

#include "common/base/check.h"
#include "common/base/descriptors.h"
#include "common/base/status.h"
#include "common/base/unused_flags.h"
#include "common/json/json_reader.h"
#include "coordinator/clients/serving_load/arrivals.h"
#include "coordinator/clients/serving_load/load_plot.h"
#include "coordinator/clients/serving_load/load_report.h"
#include "coordinator/net/client/model_list.h"

namespace numoe::clients {
namespace {

using nlohmann::ordered_json;

constexpr int kWarmupOutputMax = 32;
constexpr int kBarCells = 30;

// The names of the two APIs in the public bench clients, and whether each is the chat API.
const std::map<std::string, bool>& Backends() {
  static const std::map<std::string, bool> backends = {
      {"numoe", false},    {"openai", false},     {"openai-chat", true},    {"vllm", false},
      {"vllm-chat", true}, {"sglang-oai", false}, {"sglang-oai-chat", true}};
  return backends;
}

std::string RateText(double rate) { return std::isinf(rate) ? "inf" : fmt::format("{:g}", rate); }

// One of the loads.
struct Load {
  double request_rate;
  int max_concurrency;  // 0: no limit
};

class ServeBench {
 public:
  explicit ServeBench(const ServeBenchOptions& options) : options_(options) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Prepare());
    ASSIGN_OR_RETURN(std::vector<LoadRequest> requests, Requests(0));
    RETURN_IF_ERROR(WarmUp(requests));
    const std::vector<Load> loads = Loads();
    for (size_t i = 0; i < loads.size(); ++i) {
      if (options_.flush_cache) RETURN_IF_ERROR(FlushCache());
      if (i > 0) {
        ASSIGN_OR_RETURN(requests, Requests(i));
      }
      requests.resize(std::min(requests.size(), static_cast<size_t>(options_.num_prompts)));
      RETURN_IF_ERROR(RunOne(loads[i], std::move(requests)));
    }
    if (options_.plot.empty()) return absl::OkStatus();
    return WriteFile(options_.plot, DrawLoadPlot(model_ + ": latency and throughput", Subtitle(), points_),
                     false);
  }

  bool all_answered() const { return all_answered_; }

 private:
  absl::Status Prepare() {
    if (options_.request_rates.size() > 1 && options_.max_concurrencies.size() > 1)
      return absl::InvalidArgumentError(
          "--request-rate and --max-concurrency both have several values: give several values to one of them "
          "only");
    if (options_.dataset_name != "random" && options_.dataset_path.empty())
      return absl::InvalidArgumentError(
          fmt::format("--dataset-name {} needs --dataset-path", options_.dataset_name));
    NUMOE_CHECK_EQ(Backends().count(options_.backend), 1u) << "the flag takes these names only";
    format_.chat = Backends().at(options_.backend);
    format_.ignore_eos = !options_.disable_ignore_eos;
    if (!options_.extra_request_body.empty()) {
      ASSIGN_OR_RETURN(format_.extra, ParseBoundedJson(options_.extra_request_body));
      if (!format_.extra.is_object())
        return absl::InvalidArgumentError(
            "--extra-request-body is not a JSON object, expected {\"name\": value}");
    }
    ASSIGN_OR_RETURN(
        const net::Url url,
        net::ParseUrl(options_.base_url.empty() ? fmt::format("http://{}:{}", options_.host, options_.port)
                                                : options_.base_url));
    std::vector<net::HttpClient::Header> headers;
    for (const std::string& header : options_.headers) {
      const size_t split = header.find_first_of("=:");
      if (split == std::string::npos)
        return absl::InvalidArgumentError(fmt::format("--header {}: expected KEY=VALUE", header));
      headers.emplace_back(header.substr(0, split), header.substr(header.find_first_not_of(" ", split + 1)));
    }
    ASSIGN_OR_RETURN(client_, net::HttpClient::Create(url, options_.api_key, std::move(headers)));
    ASSIGN_OR_RETURN(const std::vector<net::ModelCard> models, net::ListModels(*client_));
    model_ = format_.model = options_.model.empty() ? models[0].id : options_.model;
    return MakeCounter();
  }

  absl::Status MakeCounter() {
    if (!options_.tokenizer.empty()) {
      ASSIGN_OR_RETURN(counter_, CountByTokenizer(options_.tokenizer));
      return absl::OkStatus();
    }
    auto by_server = CountByServer(*client_, model_);
    if (!by_server.ok())
      return Annotate(
          by_server.status(),
          "the server cannot count the tokens of prompts; give the served model's folder as --tokenizer");
    counter_ = *std::move(by_server);
    return absl::OkStatus();
  }

  // Returns the load's requests, followed by those for warming up. Random prompts of different loads differ.
  absl::StatusOr<std::vector<LoadRequest>> Requests(size_t load) {
    const auto count = static_cast<size_t>(options_.num_prompts + options_.warmup_requests);
    if (options_.dataset_name == "random") {
      return RandomRequests({.input_len = options_.random_input_len,
                             .output_len = options_.random_output_len,
                             .range_ratio = options_.random_range_ratio},
                            count, options_.seed + load, *counter_);
    }
    return FileRequests({.path = options_.dataset_path,
                         .sharegpt = options_.dataset_name == "sharegpt",
                         .output_len = options_.sharegpt_output_len},
                        count, options_.seed, *counter_);
  }

  std::vector<Load> Loads() const {
    NUMOE_CHECK(options_.request_rates.size() <= 1 || options_.max_concurrencies.size() <= 1);
    std::vector<Load> loads;
    const std::vector<int> unlimited = {0};
    for (const double rate : options_.request_rates) {
      for (const int limit : options_.max_concurrencies.empty() ? unlimited : options_.max_concurrencies)
        loads.push_back({rate, limit});
    }
    return loads;
  }

  absl::Status WarmUp(const std::vector<LoadRequest>& requests) {
    if (options_.warmup_requests == 0) return absl::OkStatus();
    NUMOE_CHECK(!requests.empty()) << "each dataset has a request";
    LoadPlan plan{.format = format_};
    const size_t count = std::min(requests.size(), static_cast<size_t>(options_.warmup_requests));
    plan.requests.assign(requests.end() - static_cast<std::ptrdiff_t>(count), requests.end());
    plan.arrivals.assign(count, 0.0);
    for (LoadRequest& request : plan.requests)
      request.output_tokens = std::min(request.output_tokens, kWarmupOutputMax);
    const LoadResult result = RunLoad(*client_, plan, {});
    NUMOE_CHECK_EQ(result.requests.size(), count) << "each request has a result";
    for (const RequestResult& request : result.requests) {
      if (request.ok) return absl::OkStatus();
    }
    return absl::UnavailableError("no request succeeded while warming up: " + result.requests[0].error);
  }

  absl::Status FlushCache() {
    const auto reply =
        client_->FetchOk({.path = "/flush_cache", .post = true});  // SGLang's name; vLLM's is below
    if (reply.status().code() != absl::StatusCode::kNotFound) return reply.status();
    return client_->FetchOk({.path = "/reset_prefix_cache", .post = true}).status();
  }

  absl::Status RunOne(const Load& load, std::vector<LoadRequest> requests) {
    NUMOE_CHECK(!requests.empty() && requests.size() <= static_cast<size_t>(options_.num_prompts));
    LoadPlan plan{
        .requests = std::move(requests), .max_concurrency = load.max_concurrency, .format = format_};
    plan.arrivals = PlanArrivals(
        plan.requests.size(),
        {.request_rate = load.request_rate, .burstiness = options_.burstiness, .seed = options_.seed});
    NUMOE_CHECK_EQ(plan.arrivals.size(), plan.requests.size());
    const bool bar = isatty(STDERR_FILENO) == 1 && !options_.disable_tqdm;
    const LoadResult result =
        RunLoad(*client_, plan, bar ? ShowProgress : std::function<void(const LoadRunProgress&)>());
    if (bar) std::fputs("\r\x1b[K", stderr);
    const LoadReport report = Summarise(result);
    all_answered_ = all_answered_ && report.completed > 0;
    const std::string limit = load.max_concurrency == 0 ? "not set" : std::to_string(load.max_concurrency);
    std::fputs(ReportText(report, {{"Backend:", options_.backend},
                                   {"Model:", model_},
                                   {"Prompt lengths counted by:", counter_->Describe()},
                                   {"Traffic request rate:", RateText(load.request_rate)},
                                   {"Max request concurrency:", limit}})
                   .c_str(),
               stdout);
    std::fflush(stdout);
    const bool by_rate = options_.max_concurrencies.size() < 2;
    points_.push_back({by_rate ? RateText(load.request_rate) + " req/s" : limit + " at once", report});
    if (options_.output_file.empty()) return absl::OkStatus();
    ordered_json line = ReportJson(report, Arguments(load, plan.requests.size()));
    if (options_.output_details) line.update(DetailsJson(result));
    return WriteFile(options_.output_file,
                     line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n", true);
  }

  ordered_json Arguments(const Load& load, size_t requests) const {
    char date[32];
    const std::time_t now = std::time(nullptr);
    const size_t written = std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::localtime(&now));
    NUMOE_CHECK_GT(written, 0u) << "the date does not fit";
    const auto optional = [](int value) { return value == 0 ? ordered_json() : ordered_json(value); };
    return {{"date", date},
            {"backend", options_.backend},
            {"model_id", model_},
            {"tokenizer_id", counter_->Describe()},
            {"dataset_name", options_.dataset_name},
            {"num_prompts", requests},
            // JSON has no infinity
            {"request_rate",
             std::isinf(load.request_rate) ? ordered_json("inf") : ordered_json(load.request_rate)},
            {"burstiness", options_.burstiness},
            {"max_concurrency", optional(load.max_concurrency)},
            {"sharegpt_output_len", optional(options_.sharegpt_output_len)},
            {"random_input_len", options_.random_input_len},
            {"random_output_len", options_.random_output_len},
            {"random_range_ratio", options_.random_range_ratio},
            {"seed", options_.seed}};
  }

  std::string Subtitle() const {
    const std::string lengths = options_.dataset_name != "random" ? options_.dataset_name
                                : options_.random_range_ratio == 1
                                    ? fmt::format("random, {} tokens in and {} out",
                                                  options_.random_input_len, options_.random_output_len)
                                    : fmt::format("random, up to {} tokens in and {} out",
                                                  options_.random_input_len, options_.random_output_len);
    return fmt::format("{} requests a load, {}, backend {}", options_.num_prompts, lengths, options_.backend);
  }

  static void ShowProgress(const LoadRunProgress& progress) {
    NUMOE_DCHECK(0 < progress.total && progress.done <= progress.total);
    const auto share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
    const int full = static_cast<int>(share * kBarCells);
    std::string line = fmt::format(
        "\r{:3.0f} % [{:#<{}}{:.<{}}] {}/{}, {} running, {:.1f} s, {:.1f} pieces/s", share * 100, "", full,
        "", kBarCells - full, progress.done, progress.total, progress.running, progress.elapsed_s,
        progress.elapsed_s > 0 ? static_cast<double>(progress.pieces) / progress.elapsed_s : 0);
    if (progress.failed > 0) line += fmt::format(", {} failed", progress.failed);
    std::fputs((line + "\x1b[K").c_str(), stderr);
  }

  static absl::Status WriteFile(const std::string& path, const std::string& text, bool append) {
    std::ofstream file(path, append ? std::ios::app : std::ios::trunc);
    file << text << std::flush;
    return file ? absl::OkStatus() : absl::InvalidArgumentError(path + ": cannot be written");
  }

  const ServeBenchOptions& options_;
  std::unique_ptr<net::HttpClient> client_;
  std::unique_ptr<TokenCounter> counter_;
  LoadRequestFormat format_;
  std::string model_;
  std::vector<LoadPoint> points_;
  bool all_answered_ = true;
};

// Returns what is wrong with a rate, which may be infinite; "" if nothing is.
std::string CheckRate(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && end == text.c_str() + text.size() && value > 0) return "";
  return text + " is neither a number above 0 nor inf";
}

void AddLoadFlags(Flags& serve, ServeBenchOptions& o) {
  serve
      .Add("request-rate", o.request_rates,
           "Requests per second with Poisson arrivals; inf: all at once. Several values, separated by "
           "commas, are run as one load after the other")
      .CommaSeparated()
      .Check(CheckRate, "POSITIVE");
  serve
      .Add("burstiness", o.burstiness,
           "Shape of the gaps between requests: 1 is a Poisson process, smaller values are burstier, larger "
           "ones more even")
      .Check(CheckRate, "POSITIVE");
  serve
      .Add("max-concurrency", o.max_concurrencies,
           "Maximum number of requests at the same time; the latency of a request that has to wait counts "
           "from when it is sent. Several values, separated by commas, are run as one load after the other; "
           "default: no limit")
      .CommaSeparated()
      .Range(1, 1 << 20)
      .HideDefault();
  serve.Add("seed", o.seed, "Seed of the random prompts, lengths and arrivals");
  serve
      .Add("warmup-requests", o.warmup_requests,
           "Requests to send before the measurement, with at most 32 output tokens each")
      .Range(0, 1 << 16);
  serve.AddSwitch("flush-cache", o.flush_cache, "Empty the server's prefix cache before each load");
  serve.AddSwitch(
      "disable-ignore-eos", o.disable_ignore_eos,
      "Let the model end its answers, instead of generating the planned number of tokens (ignore_eos)");
  serve.Add("extra-request-body", o.extra_request_body, "JSON object that is merged into every request");
  serve.AddSwitch("disable-tqdm", o.disable_tqdm, "Show no progress bar");
  serve.Add("output-file", o.output_file, "File to append one line of JSON to for each load");
  serve.AddSwitch("output-details", o.output_details,
                  "Add each request's lengths, times, text and error to --output-file");
  serve.Add("plot", o.plot, "SVG file to draw latency against throughput in, with one point for each load");
}

}  // namespace

Flags& AddServeBench(Flags& flags, ServeBenchOptions& o) {
  Flags& serve = flags.Command("serve",
                               "Sends load to a server and reports what its clients see, with the options "
                               "and fields of sglang.bench_serving");
  std::vector<std::string> backends, datasets = {"random", "sharegpt", "custom"};
  for (const auto& [name, chat] : Backends()) backends.push_back(name);
  serve
      .Add("backend", o.backend,
           "API to use: names ending in -chat use /v1/chat/completions, the others /v1/completions")
      .OneOf(backends);
  serve.Add("base-url", o.base_url,
            "URL of the server, http:// or https://; default: http://HOST:PORT from --host and --port");
  serve.Add("url", o.base_url, "Another name of --base-url").HideDefault();
  serve.Add("host", o.host, "Host name or IP address of the server, unless --base-url is given");
  serve.Add("port", o.port, "Port of the server, unless --base-url is given").Range(1, 65535);
  serve.Add("model", o.model, "Name of the model in the API; default: the first model that the server lists");
  serve.Add("api-key", o.api_key, "API key, sent as Authorization: Bearer KEY").Variable("OPENAI_API_KEY");
  serve
      .Add("header", o.headers,
           "HTTP header as KEY=VALUE, sent with every request; can be given several times")
      .HideDefault();
  serve
      .Add("dataset-name", o.dataset_name,
           "Where the prompts come from: random (random English words), sharegpt or custom (the file "
           "--dataset-path)")
      .OneOf(datasets);
  serve.Add("dataset-path", o.dataset_path,
            "File with the prompts. sharegpt: ShareGPT's JSON file; custom: a JSON array or JSON lines of "
            "{\"prompt\": ..., \"output_tokens\": ...}");
  serve.Add(
      "tokenizer", o.tokenizer,
      "Checkpoint whose tokenizer counts the tokens of prompts; default: the server's /tokenize counts them");
  serve.Add("num-prompts", o.num_prompts, "Requests to send for each load").Range(1, 10'000'000);
  constexpr int kLengthMax = 1 << 20;
  serve.Add("random-input-len", o.random_input_len, "Maximum number of tokens in a random prompt")
      .Range(1, kLengthMax);
  serve
      .Add("random-output-len", o.random_output_len,
           "Maximum number of tokens in the answer to a random prompt")
      .Range(1, kLengthMax);
  serve
      .Add("random-range-ratio", o.random_range_ratio,
           "Random lengths are drawn evenly between this share of the maximum and the maximum; 1: all have "
           "the maximum")
      .Range(0.0, 1.0);
  serve
      .Add("sharegpt-output-len", o.sharegpt_output_len,
           "Tokens of every answer to a prompt from a file; default: as the file says")
      .Range(1, kLengthMax)
      .HideDefault();
  AddLoadFlags(serve, o);
  return serve;
}

absl::Status CheckServeFlags(const Flags& serve, const ServeBenchOptions& o) {
  UnusedFlags unused(serve);
  if (!o.base_url.empty()) {
    for (const char* const flag : {"host", "port"})
      unused.Add(flag, "does nothing with --base-url, which has both; leave one of them out");
  }
  if (o.dataset_name == "random") {
    for (const char* const flag : {"dataset-path", "sharegpt-output-len"})
      unused.Add(flag, "does nothing with --dataset-name=random; give --dataset-name=sharegpt or custom");
  } else {
    for (const char* const flag : {"random-input-len", "random-output-len", "random-range-ratio"})
      unused.Add(flag, "does nothing without --dataset-name=random; leave it out");
  }
  if (o.output_file.empty())
    unused.Add("output-details",
               "does nothing without --output-file, to which the details are written; add it");
  const auto at_once = [](double rate) { return std::isinf(rate); };
  if (std::all_of(o.request_rates.begin(), o.request_rates.end(), at_once))
    unused.Add("burstiness",
               "does nothing without --request-rate, because all requests come at once; add it");
  return unused.refusal();
}

int RunServeBench(const ServeBenchOptions& options) {
  RaiseDescriptorLimit();
  ServeBench bench(options);
  const absl::Status status = bench.Run();
  if (status.ok()) return bench.all_answered() ? 0 : 1;
  const char* advice =
      status.code() == absl::StatusCode::kUnavailable
          ? "; is the server running and ready? --base-url, or --host and --port, give its address"
          : "";
  std::fprintf(stderr, "numoe-bench serve: %s%s\n", std::string(status.message()).c_str(), advice);
  return 2;
}

}  // namespace numoe::clients
