// A server's answers on a user's terminal: any bytes become text, without control sequences.
#include "common/base/check.h"
#include "coordinator/clients/terminal/answer_view.h"
#include "coordinator/net/client/answer_chunk.h"
#include "coordinator/net/client/sse_reader.h"

namespace {

// Checks that the view's own colours are the only escape sequences.
void CheckText(std::string_view text, bool colour) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0x1b && colour) {
      const size_t end = text.find('m', i);
      NUMOE_CHECK(end != std::string_view::npos && end - i <= 5) << text;
      NUMOE_CHECK_EQ(text.substr(i + 1, end - i).find_first_not_of("[0123456789;m"), std::string_view::npos);
      i = end;
      continue;
    }
    NUMOE_CHECK(c >= ' ' || c == '\n' || c == '\t') << static_cast<int>(c) << " at " << i;
    NUMOE_CHECK_NE(static_cast<int>(c), 0x7f);
    // Control characters of C1 in UTF-8.
    if (c == 0xC2 && i + 1 < text.size())
      NUMOE_CHECK_GE(static_cast<int>(static_cast<unsigned char>(text[i + 1])), 0xA0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool colour : {false, true}) {
    numoe::clients::AnswerView view({.person = true, .colour = colour});
    std::string shown;
    numoe::net::SseReader reader([&](const numoe::net::SseEvent& event) {
      const auto chunk = numoe::net::ReadAnswerChunk(event.data);
      if (chunk.ok()) shown += view.Show(*chunk);
    });
    NUMOE_CHECK(reader.Push(bytes).ok());
    shown += view.Finish();
    CheckText(shown, colour);
    NUMOE_CHECK(shown.empty() || shown.back() == '\n' || (colour && shown.back() == 'm')) << shown;
  }
  return 0;
}
