// OpenAI's error object, Anthropic's, and which HTTP status each kind of failure gets.
//
// {"error": {"message", "type", "param", "code"}}: all four always present, param and code strings or null.
// Anthropic's clients read {"type": "error", "error": {"type", "message"}}. Values; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace numoe::net {

enum class ErrorShape : uint8_t { kOpenAi, kAnthropic };

struct ApiError {
  int http_status = 500;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param;
  std::optional<std::string> code;

  std::string ToJson(ErrorShape shape = ErrorShape::kOpenAi) const;
};

ApiError BadRequest(const std::string& param, const std::string& message);
/// UNAUTHENTICATED 401, RESOURCE_EXHAUSTED 429, UNAVAILABLE 503, DEADLINE_EXCEEDED 504, INVALID_ARGUMENT 400,
/// everything else 500.
ApiError FromStatus(const absl::Status& status);

}  // namespace numoe::net
