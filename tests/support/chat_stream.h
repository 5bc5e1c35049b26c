// What a client makes of a chat stream: the chunks' deltas put together as OpenAI's SDKs do it.
//
// Checks the form on the way (NUMOE_CHECK, so that fuzz targets can use it): framing, role first and once,
// calls beginning with index, id, type and name in the order of their indices, arguments after that, nothing
// after the finish reason.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace numoe {

struct ChatStream {
  nlohmann::ordered_json message;  // role, content, and what else came
  nlohmann::ordered_json finish_reason;
  int chunks = 0;
};

/// Events of the whole stream ("data: {...}\n\n"...), without usage and [DONE].
ChatStream ReadChatStream(std::string_view events);

}  // namespace numoe
