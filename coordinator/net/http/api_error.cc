#include "coordinator/net/http/api_error.h"

#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace numoe::net {
namespace {

using nlohmann::ordered_json;

// Anthropic's error types follow from the status.
const char* AnthropicType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::string ApiError::ToJson(ErrorShape shape) const {
  NUMOE_CHECK(400 <= http_status && http_status < 600) << http_status;
  ordered_json json;
  if (shape == ErrorShape::kAnthropic) {
    json = {{"type", "error"}, {"error", {{"type", AnthropicType(http_status)}, {"message", message}}}};
    if (code) json["error"]["code"] = *code;  // not part of Anthropic's object; coordinator/router reads it
  } else {
    json["error"] = {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
    if (param) json["error"]["param"] = *param;
    if (code) json["error"]["code"] = *code;
  }
  // The message may quote text of a request: bytes that are not UTF-8 are replaced.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ApiError BadRequest(const std::string& param, const std::string& message) {
  ApiError error{.http_status = 400, .message = message};
  if (!param.empty()) error.param = param;
  return error;
}

ApiError FromStatus(const absl::Status& status) {
  NUMOE_CHECK(!status.ok());
  ApiError error{.message = std::string(status.message())};
  if (absl::IsUnauthenticated(status)) {
    error.http_status = 401;
    error.type = "authentication_error";
    error.code = "invalid_api_key";
  } else if (absl::IsResourceExhausted(status)) {
    error.http_status = 429;
    error.type = "rate_limit_error";
    error.code = "queue_full";
  } else if (absl::IsUnavailable(status)) {
    error.http_status = 503;
    error.type = "server_error";
    error.code = "unavailable";
  } else if (absl::IsDeadlineExceeded(status)) {
    error.http_status = 504;
    error.type = "server_error";
    error.code = "deadline_exceeded";
  } else if (absl::IsInvalidArgument(status)) {
    error.http_status = 400;
  } else {
    error.http_status = 500;
    error.type = "server_error";
    error.code = "internal_error";
  }
  return error;
}

}  // namespace numoe::net
