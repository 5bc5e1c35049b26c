#include "coordinator/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/gguf_model.h"
#include "coordinator/text/tokenizer/gguf_tokenizer.h"
#include "coordinator/text/tokenizer/hf_tokenizer.h"
#include "coordinator/text/tokenizer/tiktoken_tokenizer.h"
#include "coordinator/text/tokenizer/utf8.h"

namespace numoe::text {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::filesystem::path& model_path) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> gguf, GgufModel::Locate(model_path));
  if (gguf) {
    ASSIGN_OR_RETURN(const auto model, GgufModel::Open(*gguf));
    return MakeGgufTokenizer(model->contents(), model->path());
  }
  if (std::filesystem::exists(model_path / "tiktoken.model")) return LoadTiktoken(model_path);
  if (std::filesystem::exists(model_path / "tokenizer.json")) return LoadHfTokenizer(model_path);
  return absl::NotFoundError(fmt::format(
      "{}: expected tiktoken.model or tokenizer.json, found neither; is this the folder of a model?",
      model_path.string()));
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, Specials specials) const {
  const TextSegment segment{std::string(text), specials == Specials::kParse};
  return EncodeSegments(absl::MakeConstSpan(&segment, 1));
}

std::optional<TokenId> Tokenizer::FirstToken() const {
  if (!add_bos_token_) return std::nullopt;
  for (const auto& [role, name] : role_tokens_) {
    if (role == "bos_token") return SpecialId(name);
  }
  return std::nullopt;
}

size_t Tokenizer::FewestTokens(size_t text_bytes) const {
  NUMOE_CHECK_GT(token_text_bytes_max_, 0u);
  return (text_bytes + token_text_bytes_max_ - 1) / token_text_bytes_max_;
}

std::string Tokenizer::Decode(absl::Span<const TokenId> ids, bool skip_special) const {
  StreamDecoder decoder(*this, skip_special);
  std::string text;
  for (TokenId id : ids) text += decoder.Push(id);
  return text + decoder.Flush();
}

std::string StreamDecoder::Push(TokenId id) {
  if (skip_special_ && tokenizer_.IsSpecial(id)) return "";
  pending_.append(tokenizer_.TokenBytes(id));
  // Everything before an incomplete end can be emitted.
  size_t complete = 0;
  while (complete < pending_.size()) {
    const int step = Utf8Step(std::string_view(pending_).substr(complete));
    if (step == 0) break;
    complete += static_cast<size_t>(step > 0 ? step : -step);
  }
  NUMOE_DCHECK_LE(complete, pending_.size());
  std::string text = ReplaceInvalidUtf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::Flush() {
  std::string text = ReplaceInvalidUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace numoe::text
