#include "common/base/log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "common/base/check.h"

namespace numoe {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  NUMOE_CHECK(false) << "log level " << static_cast<int>(level);
  return spdlog::level::err;
}

}  // namespace

void WriteLog(LogLevel level, fmt::string_view format, fmt::format_args arguments) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  const spdlog::level::level_enum wanted = SpdlogLevel(level);
  if (!logger->should_log(wanted)) return;
  fmt::memory_buffer line;
  fmt::vformat_to(fmt::appender(line), format, arguments);
  logger->log(wanted, spdlog::string_view_t(line.data(), line.size()));
}

void SilenceLog() { spdlog::set_level(spdlog::level::off); }

}  // namespace numoe
