// numoe-grammar-bench: measures what structured output costs with a model's vocabulary.
//
// For each schema it measures the time to compile it, and the time of masks (FillMask and Accept together)
// while documents are sampled from the masks, including masks that are computed on first use. Sampling
// prefers tokens that end strings and members, so that the documents look realistic. Times are CPU time of
// this thread, which other load on the machine hardly changes. The heads of tool calls, for which nothing is
// compiled, come last.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "coordinator/text/grammar/compiled_grammar.h"
#include "coordinator/text/grammar/grammar_limits.h"
#include "coordinator/text/grammar/literal_choice.h"

namespace numoe::clients {
namespace {

using Kind = text::GrammarSource::Kind;

struct Options {
  std::string model;
  std::vector<std::string> schemas;
  int documents = 50;
  int compiles = 5;
};

struct Case {
  std::string name;
  text::GrammarSource source;
};

double Now() {  // microseconds
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double Microseconds(double since) { return Now() - since; }

double Percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  NUMOE_CHECK(0 <= share && share <= 1) << share;
  const auto place = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

// Properties of all kinds that occur in tool definitions.
std::string WideSchema(int properties) {
  std::string schema = R"({"type":"object","additionalProperties":false,"properties":{)", required;
  for (int i = 0; i < properties; ++i) {
    static const char* const kTypes[] = {
        R"({"type":"string","description":"free text"})",
        R"({"type":"integer","minimum":0,"maximum":1000000})",
        R"({"type":"number"})",
        R"({"type":"boolean"})",
        R"({"enum":["celsius","fahrenheit","kelvin"]})",
        R"({"type":"string","format":"date-time"})",
        R"({"type":"array","items":{"type":"string"}})",
        R"({"type":["string","null"],"maxLength":200})",
        R"({"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"},"name":{"type":"string"}},"required":["lat","lon"]})",
        R"({"type":"string","pattern":"^[a-z][a-z0-9_-]{0,62}$"})"};
    schema += fmt::format(R"({}"property_{}":{})", i == 0 ? "" : ",", i,
                          kTypes[static_cast<size_t>(i) % std::size(kTypes)]);
    if (i % 3 != 2) required += fmt::format("{}\"property_{}\"", required.empty() ? "" : ",", i);
  }
  return schema + R"(},"required":[)" + required + "]}";
}

constexpr size_t kTools = 128;

// As many as OpenAI's API takes, with names that begin alike.
std::vector<std::string> ToolNames() {
  std::vector<std::string> names;
  for (const char* verb : {"get", "list", "create", "delete", "update", "search", "read", "write"}) {
    for (const char* noun : {"file", "files", "issue", "branch", "user", "comment", "event", "message",
                             "page", "table", "row", "metric", "alert", "pod", "node", "job"})
      names.push_back(fmt::format("{}_{}", verb, noun));
  }
  NUMOE_CHECK_EQ(names.size(), kTools);
  return names;
}

// Calls of any of them in Qwen3's format.
text::GrammarSource AnyCall() {
  text::GrammarSource call{.kind = Kind::kJsonObject, .text = "", .before = ToolNames(), .after = "}\n"};
  for (std::string& before : call.before)
    before = fmt::format("\n{{\"name\": \"{}\", \"arguments\": ", before);
  return call;
}

std::vector<Case> BuiltIn() {
  return {
      {"any object", {Kind::kJsonObject, ""}},
      {"50 properties", {Kind::kJsonSchema, WideSchema(50)}},
      {"128 tools", AnyCall()},
      {"recursive",
       {Kind::kJsonSchema, R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":
          {"tag":{"type":"string"},"text":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},
          "required":["tag"]}}})"}},
      {"variants", {Kind::kJsonSchema, R"({"type":"array","items":{"anyOf":[
          {"type":"object","properties":{"op":{"const":"add"},"path":{"type":"string"},"value":{}},"required":["op","path","value"]},
          {"type":"object","properties":{"op":{"const":"remove"},"path":{"type":"string"}},"required":["op","path"]},
          {"type":"object","properties":{"op":{"enum":["move","copy"]},"from":{"type":"string"},"path":{"type":"string"}},"required":["op","from"]}]}})"}},
      {"long string",
       {Kind::kJsonSchema,
        R"({"type":"object","properties":{"body":{"type":"string","minLength":1,"maxLength":4000}},"required":["body"]})"}},
      {"regex", {Kind::kRegex, "(?:[A-Z][a-z]+ ){2,8}[a-z.,]+ \\d{4}-\\d\\d-\\d\\d"}},
      {"EBNF",
       {Kind::kEbnf,
        "root ::= expr\nexpr ::= term (ws [-+*/] ws term)*\nterm ::= num | name | call | \"(\" expr \")\"\n"
        "call ::= name \"(\" (expr (\", \" expr)*)? \")\"\nname ::= [a-z_] [a-z0-9_]*\n"
        "num ::= [0-9]+ (\".\" [0-9]+)?\nws ::= \" \"?\n"}}};
}

class GrammarBench {
 public:
  explicit GrammarBench(const Options& options) : options_(options) {}

  absl::Status Run() {
    std::vector<Case> cases = options_.schemas.empty() ? BuiltIn() : std::vector<Case>{};
    for (const std::string& path : options_.schemas) {
      ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, limits::kGrammarSourceBytesMax));
      cases.push_back({std::filesystem::path(path).stem(), {Kind::kJsonSchema, std::move(text)}});
    }
    ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::Load(options_.model));
    const double began = Now();
    vocabulary_ = text::GrammarVocabulary::Build(*tokenizer, {});
    std::printf("vocabulary: %d tokens, %d trie nodes, built in %.0f ms\n", vocabulary_->size(),
                vocabulary_->node_count(), Microseconds(began) / 1000);
    ending_.assign(vocabulary_->mask_words(), 0);
    for (TokenId t = 0; t < vocabulary_->size(); ++t)
      if (vocabulary_->bytes(t).find_first_of("\",}]) ") != std::string_view::npos)
        ending_[static_cast<size_t>(t) / 64] |= uint64_t{1} << (static_cast<size_t>(t) % 64);
    std::puts("source           states  rules  compile ms   tokens  mask p50 us      p99    p99.9      max");
    for (const Case& c : cases) RETURN_IF_ERROR(Measure(c));
    if (options_.schemas.empty()) MeasureHeads();
    return absl::OkStatus();
  }

 private:
  absl::Status Measure(const Case& c) {
    std::vector<double> compile;
    std::shared_ptr<const text::CompiledGrammar> grammar;
    for (int i = 0; i < options_.compiles; ++i) {
      const double began = Now();
      ASSIGN_OR_RETURN(grammar, text::CompiledGrammar::Compile(c.source, vocabulary_));
      compile.push_back(Microseconds(began) / 1000);
    }
    std::vector<double> masks;
    for (int i = 0; i < options_.documents; ++i) RETURN_IF_ERROR(Walk(grammar, masks));
    std::printf("%-16s %6zu %6zu %11.2f ", c.name.c_str(), grammar->program().states(),
                grammar->program().rules(), Percentile(compile, 0.5));
    Print(masks);
    return absl::OkStatus();
  }

  static void Print(std::vector<double>& masks) {
    const double most = *std::max_element(masks.begin(), masks.end());
    std::printf("%8zu %12.2f %8.1f %8.1f %8.1f\n", masks.size(), Percentile(masks, 0.5),
                Percentile(masks, 0.99), Percentile(masks, 0.999), most);
    std::fflush(stdout);
  }

  // The heads of calls of the same tools in Kimi's format, from none to a complete one.
  void MeasureHeads() {
    std::vector<std::string> heads = ToolNames();
    for (std::string& head : heads) head = fmt::format("functions.{}:12", head);
    std::vector<double> times;
    std::vector<uint64_t> mask(vocabulary_->mask_words());
    for (int i = 0; i < 20 * options_.documents; ++i) {
      double began = Now();
      text::LiteralChoice head(*vocabulary_, heads);
      while (head.Complete().empty()) {
        std::fill(mask.begin(), mask.end(), 0);
        head.AddMask(absl::MakeSpan(mask));
        const double fill = Microseconds(began);
        const TokenId token = DrawFrom(mask);
        began = Now();
        head.Accept(token);
        times.push_back(fill + Microseconds(began));
        began = Now();
      }
    }
    std::printf("%-42s ", "128 tools' heads");
    Print(times);
  }

  absl::Status Walk(const std::shared_ptr<const text::CompiledGrammar>& grammar, std::vector<double>& times) {
    constexpr int kTokensMax = 400;
    text::GrammarState state(grammar);
    std::vector<uint64_t> mask(vocabulary_->mask_words());
    for (int i = 0; i < kTokensMax; ++i) {
      double began = Now();
      RETURN_IF_ERROR(state.FillMask(absl::MakeSpan(mask)));
      const double fill = Microseconds(began);
      const TokenId token = Draw(mask);
      if (token < 0) return absl::OkStatus();
      began = Now();
      if (!state.Accept(token)) return absl::InternalError("the mask allowed what Accept refuses");
      times.push_back(fill + Microseconds(began));
    }
    return absl::OkStatus();
  }

  // Draws uniformly from the allowed tokens, or one time in three from those that end something.
  TokenId Draw(const std::vector<uint64_t>& mask) {
    NUMOE_DCHECK_EQ(mask.size(), ending_.size());
    std::vector<uint64_t> ends(mask.size());
    for (size_t w = 0; w < mask.size(); ++w) ends[w] = mask[w] & ending_[w];
    const TokenId end = random_() % 3 == 0 ? DrawFrom(ends) : -1;
    return end >= 0 ? end : DrawFrom(mask);
  }

  TokenId DrawFrom(const std::vector<uint64_t>& mask) {
    int64_t allowed = 0;
    for (const uint64_t word : mask) allowed += __builtin_popcountll(word);
    if (allowed == 0) return -1;
    auto skip = static_cast<int64_t>(random_() % static_cast<uint64_t>(allowed));
    for (size_t w = 0;; ++w) {
      NUMOE_DCHECK_LT(w, mask.size());
      uint64_t word = mask[w];
      if (skip >= __builtin_popcountll(word)) {
        skip -= __builtin_popcountll(word);
        continue;
      }
      for (; skip > 0; --skip) word &= word - 1;
      return static_cast<TokenId>(w * 64 + static_cast<size_t>(__builtin_ctzll(word)));
    }
  }

  const Options& options_;
  std::shared_ptr<const text::GrammarVocabulary> vocabulary_;
  std::mt19937_64 random_{1};
  std::vector<uint64_t> ending_;  // mask of the tokens with a character that ends something
};

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::Flags flags(
      "numoe-grammar-bench",
      "Measures how long structured output takes: compiling schemas and computing token masks.",
      numoe::FlagSources::kCommandLine);
  numoe::clients::Options options;
  flags.Add("model", options.model, "Folder with the tokenizer's files").Required();
  flags
      .Add("schema", options.schemas,
           "File with a JSON schema to measure instead of the built-in cases; can be given several times")
      .HideDefault();
  flags.Add("documents", options.documents, "Documents to generate for each case").Range(1, 1 << 20);
  flags.Add("compiles", options.compiles, "Number of times that each case is compiled").Range(1, 1 << 20);
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  const absl::Status status = numoe::clients::GrammarBench(options).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-grammar-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}
