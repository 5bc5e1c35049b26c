// ApiError: an error of the API, written as OpenAI's or Anthropic's error object, and the HTTP status of it.
//
// OpenAI's object is {"error": {"message", "type", "param", "code"}}; all four members are always present,
// param and code as strings or null. Anthropic's clients read {"type": "error", "error": {"type",
// "message"}}. Values; thread-safe.
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
/// The HTTP status is 401 for UNAUTHENTICATED, 429 for RESOURCE_EXHAUSTED, 503 for UNAVAILABLE, 504 for
/// DEADLINE_EXCEEDED, 400 for INVALID_ARGUMENT and 500 for everything else.
ApiError FromStatus(const absl::Status& status);

}  // namespace numoe::net
