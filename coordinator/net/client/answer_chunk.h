// AnswerChunk: the content of one JSON object of an answer, which is a chunk of a stream or a complete
// answer.
//
// Reads OpenAI's chat completions and completions as vLLM, SGLang, llama.cpp and this server write them:
// `delta`, `message` or `text`; reasoning in `reasoning_content` or `reasoning`; usage in any object; content
// that is null. Only the first choice is read. An error object, in a stream or as the body of an HTTP error,
// becomes a Status with the server's message. Any other text is INVALID_ARGUMENT. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe::net {

struct ReportedUsage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
};

struct AnswerChunk {
  // What this chunk adds to the call with this index; the first part of a call has its id and name.
  struct CallPart {
    int64_t index = 0;
    std::string id;
    std::string name;
    std::string arguments;
  };

  bool has_choice = false;
  std::string reasoning;
  std::string content;
  std::vector<CallPart> calls;
  std::string finish_reason;  // "" before the end
  std::optional<ReportedUsage> usage;

  bool says_something() const { return !reasoning.empty() || !content.empty() || !calls.empty(); }
};

absl::StatusOr<AnswerChunk> ReadAnswerChunk(std::string_view json);

/// Describes an HTTP reply that is not 200, for example "401: missing or wrong API key". `body` may be any
/// bytes. The code of the Status is INVALID_ARGUMENT for 400, UNAUTHENTICATED for 401 and 403, NOT_FOUND for
/// 404, UNAVAILABLE for 429 and 503, and UNKNOWN for the rest.
absl::Status HttpError(int http_status, std::string_view body);

}  // namespace numoe::net
