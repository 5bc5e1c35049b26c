#include "coordinator/http/api_error.h"

#include "nlohmann/json.hpp"

namespace numoe {

std::string ApiError::ToJson() const {
  nlohmann::ordered_json error = {
      {"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (param) error["param"] = *param;
  if (code) error["code"] = *code;
  // Text of a request may be quoted in the message: replace what is not UTF-8 instead of failing.
  return nlohmann::ordered_json{{"error", error}}.dump(-1, ' ', false,
                                                       nlohmann::ordered_json::error_handler_t::replace);
}

ApiError BadRequest(const std::string& param, const std::string& message) {
  ApiError error{.http_status = 400, .message = message};
  if (!param.empty()) error.param = param;
  return error;
}

ApiError FromStatus(const absl::Status& status) {
  ApiError error{.message = std::string(status.message())};
  if (absl::IsResourceExhausted(status)) {
    error.http_status = 429;
    error.type = "rate_limit_error";
    error.code = "queue_full";
  } else if (absl::IsUnavailable(status)) {
    error.http_status = 503;
    error.type = "server_error";
    error.code = "unavailable";
  } else if (absl::IsInvalidArgument(status)) {
    error.http_status = 400;
  } else {
    error.http_status = 500;
    error.type = "server_error";
    error.code = "internal_error";
  }
  return error;
}

}  // namespace numoe
