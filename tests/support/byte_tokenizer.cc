#include "tests/support/byte_tokenizer.h"

#include <algorithm>

#include "coordinator/text/tokenizer/segment_encoder.h"

namespace numoe {

ByteTokenizer::ByteTokenizer(const std::vector<std::string>& control, const std::vector<std::string>& pieces,
                             const std::string& first) {
  add_bos_token_ = !first.empty();
  if (add_bos_token_) role_tokens_.emplace_back("bos_token", first);
  for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
  for (const std::string& name : control) {
    const bool special = name[0] == '!';
    tokens_.push_back(special ? name.substr(1) : name);
    control_.Add(tokens_.back(), {static_cast<TokenId>(tokens_.size() - 1), special});
  }
  token_text_bytes_max_ = std::max<size_t>(control_.LongestName(), 1);  // pieces are never made of text
  tokens_.insert(tokens_.end(), pieces.begin(), pieces.end());
}

std::vector<TokenId> ByteTokenizer::EncodeSegments(absl::Span<const TextSegment> segments) const {
  std::vector<TokenId> ids;
  text::CutSpecials(
      segments, control_,
      [&](std::string_view text) {
        for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
      },
      [&](TokenId id) { ids.push_back(id); });
  return ids;
}

std::string_view ByteTokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= VocabSize()) return {};
  return tokens_[static_cast<size_t>(id)];
}

bool ByteTokenizer::IsSpecial(TokenId id) const {
  const auto name = control_.by_id().find(id);
  return name != control_.by_id().end() && control_.by_name().find(name->second)->second.special;
}

std::optional<TokenId> ByteTokenizer::SpecialId(std::string_view name) const {
  const auto it = control_.by_name().find(name);
  if (it == control_.by_name().end()) return std::nullopt;
  return it->second.id;
}

std::vector<std::string> KimiControlTokens() {
  return {"![BOS]",
          "![EOS]",
          "!<|im_end|>",
          "!<|im_user|>",
          "!<|im_assistant|>",
          "!<|im_system|>",
          "<|tool_calls_section_begin|>",
          "<|tool_calls_section_end|>",
          "<|tool_call_begin|>",
          "<|tool_call_argument_begin|>",
          "<|tool_call_end|>",
          "!<|im_middle|>",
          "<think>",
          "</think>"};
}

std::vector<std::string> DeepSeekControlTokens() {
  return {"!<｜begin▁of▁sentence｜>",
          "!<｜end▁of▁sentence｜>",
          "<｜User｜>",
          "<｜Assistant｜>",
          "<｜tool▁calls▁begin｜>",
          "<｜tool▁calls▁end｜>",
          "<｜tool▁call▁begin｜>",
          "<｜tool▁call▁end｜>",
          "<｜tool▁sep｜>",
          "<think>",
          "</think>"};
}

std::vector<std::string> QwenControlTokens() {
  return {"!<|im_start|>", "!<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"};
}

}  // namespace numoe
