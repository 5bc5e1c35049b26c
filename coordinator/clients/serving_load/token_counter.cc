#include "coordinator/clients/serving_load/token_counter.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::clients {
namespace {

using nlohmann::ordered_json;

class ServerCounter final : public TokenCounter {
 public:
  ServerCounter(net::HttpClient& client, const std::string& model) : client_(client), model_(model) {}

  absl::StatusOr<int> Count(std::string_view text) override {
    // vLLM and SGLang read "prompt", llama.cpp reads "content".
    const ordered_json body = {
        {"model", model_}, {"prompt", text}, {"content", text}, {"add_special_tokens", false}};
    ASSIGN_OR_RETURN(const std::string reply, client_.FetchOk({.path = "/tokenize", .body = body.dump()}));
    const auto parsed = ParseBoundedJson(reply);
    if (parsed.ok() && parsed->is_object()) {
      if (const auto count = parsed->find("count"); count != parsed->end() && count->is_number_unsigned())
        return count->get<int>();
      if (const auto tokens = parsed->find("tokens"); tokens != parsed->end() && tokens->is_array())
        return static_cast<int>(tokens->size());
    }
    return absl::InvalidArgumentError(fmt::format("{} answered '{}', expected an object with count or tokens",
                                                  Describe(), Printable(reply)));
  }

  std::string Describe() const override { return client_.url().ToString() + "/tokenize"; }

 private:
  net::HttpClient& client_;
  const std::string model_;
};

class LocalCounter final : public TokenCounter {
 public:
  LocalCounter(std::unique_ptr<text::Tokenizer> tokenizer, const std::string& checkpoint)
      : tokenizer_(std::move(tokenizer)), checkpoint_(checkpoint) {}

  absl::StatusOr<int> Count(std::string_view text) override {
    return static_cast<int>(tokenizer_->Encode(text, text::Specials::kAsText).size());
  }
  std::string Describe() const override { return checkpoint_; }

 private:
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const std::string checkpoint_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TokenCounter>> CountByServer(net::HttpClient& client,
                                                            const std::string& model) {
  auto counter = std::make_unique<ServerCounter>(client, model);
  RETURN_IF_ERROR(counter->Count("one").status());
  return counter;
}

absl::StatusOr<std::unique_ptr<TokenCounter>> CountByTokenizer(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(auto tokenizer, text::Tokenizer::Load(checkpoint));
  return std::make_unique<LocalCounter>(std::move(tokenizer), checkpoint);
}

}  // namespace numoe::clients
