// numoe-perplexity: measures how a format of the experts changes a model, with numbers that do not depend on
// sampling.
//
// It computes every document of a text once with each format and once with the reference format. It prints
// the perplexity, the mean KL divergence of the next-token distributions from those of the reference (the sum
// of p_ref * ln(p_ref / p), in nats per token), and the share of tokens for which both would choose the same
// next token.
// The text is JSON lines with one document each, in which control tokens are recognised: {"text": "..."}, or
// {"parts": [{"text": "...", "judged": true}, ...]}. Only the tokens of judged parts count: in a
// conversation, the model's messages and not those of users. Each part is tokenised separately.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "common/base/check.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/kernels/kernels.h"
#include "common/observe/logging.h"
#include "coordinator/clients/bench/local_model.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::clients {
namespace {

struct PerplexityFlags {
  std::string model;
  std::string text;
  std::vector<std::string> formats = {"auto"};
  std::string reference = "bf16";
  std::string reference_model;
  std::string dense_format = "auto";
  std::string kv_cache_dtype = "auto";
  std::string isa = "auto";
  int threads = 0;
  int deferred_experts = 0;
  int context = 1024;
  bool json = false;
};

struct Score {
  double nll = 0;  // sum of -ln p(next token)
  double kl = 0;   // sum over tokens
  int64_t agree = 0;
  int64_t tokens = 0;
};

struct Document {
  std::vector<TokenId> tokens;
  std::vector<bool> judged;  // [tokens] whether its prediction counts
};

absl::Status AddPart(const nlohmann::json& part, bool judged, const std::string& place,
                     const text::Tokenizer& tokenizer, Document& document) {
  if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected {{\"text\": \"...\"}} or {{\"parts\": [{{\"text\": \"...\", \"judged\": true}}, ...]}}",
        place));
  }
  for (const TokenId token : tokenizer.Encode(part["text"].get<std::string>(), text::Specials::kParse)) {
    document.tokens.push_back(token);
    document.judged.push_back(judged);
  }
  return absl::OkStatus();
}

absl::StatusOr<Document> ReadDocument(const nlohmann::json& object, const std::string& place,
                                      const text::Tokenizer& tokenizer) {
  Document document;
  if (!object.is_object() || !object.contains("parts")) {
    RETURN_IF_ERROR(AddPart(object, true, place, tokenizer, document));
    return document;
  }
  if (!object["parts"].is_array())
    return absl::InvalidArgumentError(place + ": parts is not an array, expected [{\"text\": ...}, ...]");
  for (const nlohmann::json& part : object["parts"]) {
    const bool judged = part.is_object() && part.contains("judged") && part["judged"] == true;
    RETURN_IF_ERROR(AddPart(part, judged, place, tokenizer, document));
  }
  return document;
}

absl::StatusOr<std::vector<Document>> ReadDocuments(const PerplexityFlags& f,
                                                    const text::Tokenizer& tokenizer) {
  std::ifstream file(f.text);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", f.text));
  std::vector<Document> documents;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = fmt::format("{}:{}", f.text, number);
    ASSIGN_OR_RETURN(const nlohmann::json object, ParseStrictJson(line, place));
    ASSIGN_OR_RETURN(Document document, ReadDocument(object, place, tokenizer));
    NUMOE_CHECK_EQ(document.tokens.size(), document.judged.size());
    if (document.tokens.size() > static_cast<size_t>(f.context))
      document.tokens.resize(static_cast<size_t>(f.context));
    document.judged.resize(document.tokens.size());
    if (std::find(document.judged.begin() + (document.judged.empty() ? 0 : 1), document.judged.end(), true) !=
        document.judged.end())
      documents.push_back(std::move(document));
  }
  if (documents.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: no document has a token to predict within --context={}", f.text, f.context));
  return documents;
}

// The logarithm of the softmax of one row, and the row's largest element.
size_t LogSoftmax(absl::Span<const float> logits, std::vector<double>& out) {
  NUMOE_DCHECK(!logits.empty());
  const size_t best = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - logits[best]);
  const double log_sum = std::log(sum) + logits[best];
  out.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) out[i] = logits[i] - log_sum;
  return best;
}

void AddRow(absl::Span<const float> reference, absl::Span<const float> logits, TokenId next, Score& score) {
  NUMOE_CHECK_EQ(reference.size(), logits.size());
  std::vector<double> p, q;
  const size_t best_reference = LogSoftmax(reference, p);
  score.agree += LogSoftmax(logits, q) == best_reference ? 1 : 0;
  for (size_t i = 0; i < p.size(); ++i) score.kl += std::exp(p[i]) * (p[i] - q[i]);
  score.nll -= q[static_cast<size_t>(next)];
  ++score.tokens;
}

absl::StatusOr<Score> Judge(LocalModel& reference, LocalModel& model,
                            const std::vector<Document>& documents) {
  Score score;
  for (const Document& document : documents) {
    const auto size = static_cast<int>(document.tokens.size());
    ASSIGN_OR_RETURN(const execution::StepLogits expected, reference.Run(document.tokens, 0, size));
    ASSIGN_OR_RETURN(const execution::StepLogits found, model.Run(document.tokens, 0, size));
    if (expected.vocab_size != found.vocab_size)
      return absl::InvalidArgumentError(
          fmt::format("the model has {} tokens and the reference {}, expected the same", found.vocab_size,
                      expected.vocab_size));
    NUMOE_CHECK(expected.rows == size && found.rows == size) << "the logits of every token were requested";
    const auto row = [&](const execution::StepLogits& logits, size_t i) {
      const auto vocab = static_cast<size_t>(logits.vocab_size);
      return logits.values.subspan(i * vocab, vocab);
    };
    for (size_t i = 0; i + 1 < document.tokens.size(); ++i) {
      if (document.judged[i + 1]) AddRow(row(expected, i), row(found, i), document.tokens[i + 1], score);
    }
  }
  return score;
}

absl::Status Run(const PerplexityFlags& f) {
  RETURN_IF_ERROR(SetupLogging({.level = "warning", .program = "numoe-perplexity"}));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::Load(f.model));
  ASSIGN_OR_RETURN(const std::vector<Document> documents, ReadDocuments(f, *tokenizer));
  const auto load = [&](const std::string& dir, const std::string& format, const std::string& dense_format,
                        const std::string& kv_cache_dtype, int deferred_experts) {
    return LocalModel::Load(dir, {.format = format,
                                  .dense_format = dense_format,
                                  .kv_cache_dtype = kv_cache_dtype,
                                  .isa = f.isa,
                                  .threads = f.threads,
                                  .context_tokens = f.context,
                                  .step_tokens = f.context,
                                  .deferred_experts = deferred_experts});
  };
  const std::string& reference_model = f.reference_model.empty() ? f.model : f.reference_model;
  ASSIGN_OR_RETURN(const auto reference, load(reference_model, f.reference, "auto", "auto", 0));
  if (!f.json) std::puts("format      perplexity  KL nats/token  same choice    tokens");
  for (const std::string& format : f.formats) {
    ASSIGN_OR_RETURN(const auto model,
                     load(f.model, format, f.dense_format, f.kv_cache_dtype, f.deferred_experts));
    ASSIGN_OR_RETURN(const Score score, Judge(*reference, *model, documents));
    NUMOE_CHECK(0 < score.tokens && score.agree <= score.tokens) << "each document has a token to predict";
    const auto tokens = static_cast<double>(score.tokens);
    const char* line =
        f.json ? R"({{"format": "{}", "perplexity": {:.6g}, "kl": {:.6g}, "same_choice": {:.6g}, )"
                 R"("tokens": {}}})"
               : "{:10} {:11.4f} {:14.6f} {:11.2f} % {:9}";
    std::puts(fmt::format(fmt::runtime(line), format, std::exp(score.nll / tokens), score.kl / tokens,
                          static_cast<double>(score.agree) / tokens * (f.json ? 1 : 100), score.tokens)
                  .c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::clients::PerplexityFlags f;
  numoe::Flags flags("numoe-perplexity",
                     "Measures the perplexity of a model in different expert formats, and how far each "
                     "diverges from a reference.");
  flags.Add("model", f.model, "Checkpoint directory, or a .gguf file").Required();
  flags
      .Add("text", f.text,
           "File with JSON lines, one document each: {\"text\": ...} or {\"parts\": [{\"text\": ..., "
           "\"judged\": true}, ...]}, where only the tokens of judged parts count")
      .Required();
  flags
      .Add("format", f.formats,
           "Expert formats to measure, separated by commas: auto (as published), " +
               numoe::WeightFormatNames())
      .CommaSeparated();
  flags.Add("reference", f.reference, "Expert format of the reference that the formats are compared with");
  flags.Add("reference-model", f.reference_model,
            "Checkpoint (directory or .gguf file) of the reference, such as the weights before they were "
            "quantised; default: --model");
  flags.Add("dense-format", f.dense_format,
            "Format of the dense matrices: auto (as published), bf16, int8, int4. The reference uses auto");
  flags.Add("kv-cache-dtype", f.kv_cache_dtype,
            "Data type of the KV cache: auto (bf16), bf16, fp8_e4m3. The reference uses auto");
  flags
      .Add("max-deferred-experts-per-token", f.deferred_experts,
           "Number of each token's routed experts whose results are added one layer later. The reference "
           "defers none")
      .NonNegative();
  flags.Add("context", f.context, "Maximum number of tokens of a document that are used, from its beginning")
      .Range(2, 1 << 16);
  flags.Add("isa", f.isa, "Instruction set of the kernels: auto, scalar, avx2, avx512, amx");
  flags.Add("threads", f.threads, "Compute threads; 0: one for each CPU that this process may use");
  flags.AddSwitch("json", f.json, "Print the results as one JSON object per line");
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  if (const absl::Status status = numoe::clients::Run(f); !status.ok()) {
    std::fprintf(stderr, "numoe-perplexity: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  return 0;
}
