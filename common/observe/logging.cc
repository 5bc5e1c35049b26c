#include "common/observe/logging.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace numoe {
namespace {

thread_local std::string_view current_request_id;

// Escapes control characters, so that the text is on one line.
void AppendText(std::string_view text, spdlog::memory_buf_t& out) {
  for (const char c : text) {
    if (c == '\n') {
      out.append(std::string_view("\\n"));
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
}

// Appends a JSON string with its quotes. Clients name paths and models, so bytes that are not UTF-8 become
// U+FFFD.
void AppendJson(std::string_view text, spdlog::memory_buf_t& out) {
  using nlohmann::json;
  out.append(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

class LineFormatter final : public spdlog::formatter {
 public:
  LineFormatter(bool json, std::string program) : json_(json), program_(std::move(program)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = message.time.time_since_epoch();
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
    const std::string time =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z", fmt::gmtime(milliseconds / 1000), milliseconds % 1000);
    const std::string_view text(message.payload.data(), message.payload.size());
    const spdlog::string_view_t level_name = spdlog::level::to_string_view(message.level);
    const std::string_view level(level_name.data(), level_name.size());
    json_ ? FormatJson(time, level, text, out) : FormatText(time, level, text, out);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(json_, program_);
  }

 private:
  void FormatText(std::string_view time, std::string_view level, std::string_view text,
                  spdlog::memory_buf_t& out) {
    fmt::format_to(std::back_inserter(out), "{} {:<7} {} ", time, level, program_);
    if (!current_request_id.empty()) {
      out.append(std::string_view("[request "));
      AppendText(current_request_id, out);
      out.append(std::string_view("] "));
    }
    AppendText(text, out);
    out.push_back('\n');
  }

  void FormatJson(std::string_view time, std::string_view level, std::string_view text,
                  spdlog::memory_buf_t& out) {
    fmt::format_to(std::back_inserter(out), R"({{"time":"{}","level":"{}","program":)", time, level);
    AppendJson(program_, out);
    if (!current_request_id.empty()) {
      out.append(std::string_view(R"(,"request_id":)"));
      AppendJson(current_request_id, out);
    }
    out.append(std::string_view(R"(,"message":)"));
    AppendJson(text, out);
    out.append(std::string_view("}\n"));
  }

  const bool json_;
  const std::string program_;
};

// Takes the levels as vLLM, SGLang and Python write them, too: WARNING, warn.
std::optional<spdlog::level::level_enum> ParseLevel(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warning" || name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return std::nullopt;
}

}  // namespace

absl::Status SetupLogging(const LogOptions& options) {
  const auto level = ParseLevel(options.level);
  if (!level.has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("--log-level={}: expected debug, info, warning or error", options.level));
  }
  if (options.format != "text" && options.format != "json") {
    return absl::InvalidArgumentError(fmt::format("--log-format={}: expected text or json", options.format));
  }
  auto logger =
      std::make_shared<spdlog::logger>(options.program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LineFormatter>(options.format == "json", options.program));
  logger->set_level(*level);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

LogScope::LogScope(std::string_view request_id) : outer_(current_request_id) {
  current_request_id = request_id;
}

LogScope::~LogScope() { current_request_id = outer_; }

}  // namespace numoe
