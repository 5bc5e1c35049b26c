// Log lines: LogInfo("loaded {} of {} tensors", done, all) and its siblings for the other levels.
//
// The format string is checked by the compiler. Formatting and writing happen in one unit of this program, so
// that no other unit compiles the logging library (spdlog). Where lines go and how they look is
// common/observe/logging.h's business; before it has been set up they go to stdout as spdlog writes them. Any
// thread may log at any time.
#pragma once

#include <fmt/core.h>

#include <utility>

namespace numoe {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Writes one line if lines of this level are enabled. REQUIRES: `arguments` fit `format`, which the compiler
/// checks for calls of the templates below.
void WriteLog(LogLevel level, fmt::string_view format, fmt::format_args arguments);

/// Disables the lines of all levels from now on: for fuzz targets, whose inputs provoke millions of them.
void SilenceLog();

template <typename... T>
void Log(LogLevel level, fmt::format_string<T...> format, T&&... arguments) {
  WriteLog(level, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void LogDebug(fmt::format_string<T...> format, T&&... arguments) {
  WriteLog(LogLevel::kDebug, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void LogInfo(fmt::format_string<T...> format, T&&... arguments) {
  WriteLog(LogLevel::kInfo, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void LogWarning(fmt::format_string<T...> format, T&&... arguments) {
  WriteLog(LogLevel::kWarning, format, fmt::make_format_args(arguments...));
}
template <typename... T>
void LogError(fmt::format_string<T...> format, T&&... arguments) {
  WriteLog(LogLevel::kError, format, fmt::make_format_args(arguments...));
}

}  // namespace numoe
