// Errors from the outside world travel as absl::Status / absl::StatusOr with context; no code here throws.
//
// RETURN_IF_ERROR / ASSIGN_OR_RETURN pass an error up unchanged; Annotate() adds which file, tensor or peer
// it was about. Messages name what was found, what was expected and what to do.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace numoe {

/// Returns the same code with `context` and ": " before the message. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  // Not absl::StrCat: the distribution's Abseil has a string_view of its own that std's does not convert to.
  std::string message(context);
  message.append(": ").append(status.message().data(), status.message().size());
  return absl::Status(status.code(), message);
}

}  // namespace numoe

#define NUMOE_CONCAT_INNER(a, b) a##b
#define NUMOE_CONCAT(a, b) NUMOE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                             \
  do {                                                          \
    if (::absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                           \
    }                                                           \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(NUMOE_CONCAT(status_or_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(holder, target, expression) \
  auto holder = (expression);                              \
  if (!holder.ok()) return std::move(holder).status();     \
  target = std::move(holder).value()
