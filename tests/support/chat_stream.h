// Assembles the deltas of a chat stream's chunks into a message, as OpenAI's SDKs do.
//
// Checks the format of the stream (NUMOE_CHECK, so that fuzz targets can use it): framing, the role first and
// only once, calls that begin with index, id, type and name in the order of their indices, their arguments
// after that, and nothing after the finish reason.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace numoe {

struct ChatStream {
  nlohmann::ordered_json message;  // role, content, and the other fields that were sent
  nlohmann::ordered_json finish_reason;
  int chunks = 0;
};

/// `events` is the whole stream ("data: {...}\n\n"...), without usage and [DONE].
ChatStream ReadChatStream(std::string_view events);

}  // namespace numoe
