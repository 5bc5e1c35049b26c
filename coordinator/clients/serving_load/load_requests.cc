#include "coordinator/clients/serving_load/load_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::clients {
namespace {

using nlohmann::json;

// Short and common words, most of which are one token with the space before them in any vocabulary, and
// single characters for small vocabularies, in which words are several tokens.
constexpr const char* kPieces[] = {
    " the",   " of",     " and",   " to",    " in",      " is",     " that",   " for",  " it",    " was",
    " on",    " are",    " as",    " with",  " his",     " they",   " at",     " be",   " this",  " have",
    " from",  " or",     " one",   " had",   " by",      " word",   " but",    " not",  " what",  " all",
    " were",  " we",     " when",  " your",  " can",     " said",   " there",  " use",  " an",    " each",
    " which", " she",    " do",    " how",   " their",   " if",     " will",   " up",   " other", " about",
    " out",   " many",   " then",  " them",  " these",   " so",     " some",   " her",  " would", " make",
    " like",  " him",    " into",  " time",  " has",     " look",   " two",    " more", " write", " go",
    " see",   " number", " no",    " way",   " could",   " people", " my",     " than", " first", " water",
    " been",  " call",   " who",   " oil",   " its",     " now",    " find",   " long", " down",  " day",
    " did",   " get",    " come",  " made",  " may",     " part",   " over",   " new",  " sound", " take",
    " only",  " little", " work",  " know",  " place",   " year",   " live",   " me",   " back",  " give",
    " most",  " very",   " after", " thing", " our",     " just",   " name",   " good", " man",   " think",
    " say",   " great",  " where", " help",  " through", " much",   " before", " line", " right", " too",
    " mean",  " old",    " any",   " same",  " tell",    " boy",    " follow", " came", " want",  " show",
    " also",  " around", " form",  " three", " small",   " set",    " put",    " end",  " does",  " another",
    "!",      "?",       ";",      "~",      "x",        "q"};
constexpr int kRepeats = 8;  // repetitions of a piece that show its number of tokens
constexpr size_t kUniformPieces =
    64;  // if at least this many pieces are one token each, only those are drawn
constexpr int kCorrections = 4;
constexpr int kShareGptTokensMin = 4, kShareGptPromptMax = 1024, kShareGptTotalMax = 2048;
constexpr int kOutputLenDefault = 256;  // for a custom row without a length

class PromptMaker {
 public:
  static absl::StatusOr<PromptMaker> Create(TokenCounter& counter) {
    PromptMaker maker(counter);
    ASSIGN_OR_RETURN(const int before, counter.Count("A"));
    for (const char* text : kPieces) {
      std::string repeated = "A";
      for (int i = 0; i < kRepeats; ++i) repeated += text;
      ASSIGN_OR_RETURN(const int after, counter.Count(repeated));
      const int tokens = after - before;
      if (tokens > 0 && tokens % kRepeats == 0) maker.pieces_.push_back({text, tokens / kRepeats});
    }
    std::stable_sort(maker.pieces_.begin(), maker.pieces_.end(),
                     [](const Piece& a, const Piece& b) { return a.tokens < b.tokens; });
    if (maker.pieces_.empty())
      return absl::InvalidArgumentError(
          fmt::format("{}: counts no word as whole tokens, expected a byte-pair or similar vocabulary",
                      counter.Describe()));
    return maker;
  }

  // Returns a prompt of about `target` tokens and its number of tokens.
  absl::StatusOr<std::pair<std::string, int>> Make(int target, std::mt19937_64& random) {
    std::vector<const Piece*> parts;
    const auto fill = [&](int tokens) {
      while (const Piece* piece = Draw(tokens, random)) {
        parts.push_back(piece);
        tokens -= piece->tokens;
      }
    };
    fill(target);
    std::string text;
    int actual = 0;
    for (int round = 0; round < kCorrections; ++round) {
      text.clear();
      for (const Piece* piece : parts) text += piece->text;
      ASSIGN_OR_RETURN(actual, counter_.Count(text));
      if (actual == target) break;
      for (int excess = actual - target; excess > 0 && parts.size() > 1; parts.pop_back())
        excess -= parts.back()->tokens;
      if (actual < target) fill(target - actual);
    }
    return std::pair(text, actual);
  }

 private:
  struct Piece {
    std::string text;
    int tokens;
  };

  explicit PromptMaker(TokenCounter& counter) : counter_(counter) {}

  // Returns a piece of at most `tokens` tokens; null if no piece is that short.
  const Piece* Draw(int tokens, std::mt19937_64& random) const {
    const auto up_to = [&](int most) {
      return static_cast<size_t>(std::upper_bound(pieces_.begin(), pieces_.end(), most,
                                                  [](int m, const Piece& p) { return m < p.tokens; }) -
                                 pieces_.begin());
    };
    const size_t single = up_to(1);
    const size_t fitting = single >= kUniformPieces ? (tokens >= 1 ? single : 0) : up_to(tokens);
    return fitting == 0 ? nullptr : &pieces_[random() % fitting];
  }

  TokenCounter& counter_;
  std::vector<Piece> pieces_;  // ascending by tokens
};

struct Row {
  std::string prompt;
  std::string answer;
  int output_tokens = 0;  // 0 if the row does not say
};

std::string TextOf(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (object.is_object() && object.contains(name) && object[name].is_string()) return object[name];
  }
  return "";
}

Row ReadRow(const json& object) {
  Row row{.prompt = TextOf(object, {"prompt", "text"})};
  if (!object.is_object()) return row;
  for (const char* name : {"output_tokens", "output_len", "max_tokens"}) {
    if (!object.contains(name) || !object[name].is_number_unsigned()) continue;
    // Reads a uint64_t first: the library compares with an int as signed numbers, in which the largest values
    // are negative.
    if (const auto tokens = object[name].get<uint64_t>(); tokens < (1 << 20))
      row.output_tokens = static_cast<int>(tokens);
  }
  for (const char* name : {"conversations", "conversation", "messages"}) {
    if (!object.contains(name) || !object[name].is_array() || object[name].size() < 1) continue;
    row.prompt = TextOf(object[name][0], {"value", "content"});
    if (object[name].size() > 1) row.answer = TextOf(object[name][1], {"value", "content"});
  }
  return row;
}

// Removes each row of an array from memory after reading it, because ShareGPT's file has 673 MB.
absl::Status ReadArray(std::ifstream& file, const std::string& path, std::vector<Row>& rows) {
  const json::parser_callback_t take = [&](int depth, json::parse_event_t event, json& value) {
    if (depth != 1 || event != json::parse_event_t::object_end) return true;
    rows.push_back(ReadRow(value));
    return false;
  };
  if (json::parse(file, take, /*allow_exceptions=*/false).is_discarded())
    return absl::InvalidArgumentError(fmt::format("{}: not valid JSON after row {}", path, rows.size()));
  return absl::OkStatus();
}

absl::Status ReadLines(std::ifstream& file, const std::string& path, std::vector<Row>& rows) {
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ASSIGN_OR_RETURN(const json object, ParseStrictJson(line, fmt::format("{}:{}", path, number)));
    rows.push_back(ReadRow(object));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Row>> ReadRows(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(fmt::format("{}: cannot be opened", path.string()));
  std::vector<Row> rows;
  file >> std::ws;
  RETURN_IF_ERROR(file.peek() == '[' ? ReadArray(file, path.string(), rows)
                                     : ReadLines(file, path.string(), rows));
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const Row& row) { return row.prompt.empty(); }),
             rows.end());
  if (rows.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: no row has a prompt, expected {{\"prompt\": \"...\"}} or {{\"conversations\": "
                    "[{{\"value\": \"...\"}}, "
                    "...]}}",
                    path.string()));
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<LoadRequest>> RandomRequests(const RandomLengths& lengths, size_t count,
                                                        uint64_t seed, TokenCounter& counter) {
  ASSIGN_OR_RETURN(PromptMaker maker, PromptMaker::Create(counter));
  std::mt19937_64 random(seed);
  const auto draw = [&](int length) {
    const int least = std::max(1, static_cast<int>(length * lengths.range_ratio));
    return std::uniform_int_distribution<int>(least, std::max(least, length))(random);
  };
  std::vector<LoadRequest> requests(count);
  for (LoadRequest& request : requests) {
    ASSIGN_OR_RETURN(std::tie(request.prompt, request.prompt_tokens),
                     maker.Make(draw(lengths.input_len), random));
    request.output_tokens = draw(lengths.output_len);
  }
  return requests;
}

absl::StatusOr<std::vector<LoadRequest>> FileRequests(const FileRows& file, size_t count, uint64_t seed,
                                                      TokenCounter& counter) {
  ASSIGN_OR_RETURN(std::vector<Row> rows, ReadRows(file.path));
  if (file.sharegpt) std::shuffle(rows.begin(), rows.end(), std::mt19937_64(seed));
  std::vector<LoadRequest> requests;
  for (size_t i = 0; requests.size() < count && (i < rows.size() || !file.sharegpt); ++i) {
    const Row& row = rows[i % rows.size()];
    LoadRequest request{.prompt = row.prompt,
                        .output_tokens = file.output_len > 0 ? file.output_len : row.output_tokens};
    ASSIGN_OR_RETURN(request.prompt_tokens, counter.Count(row.prompt));
    if (request.output_tokens == 0 && !row.answer.empty()) {
      ASSIGN_OR_RETURN(request.output_tokens, counter.Count(row.answer));
    }
    if (request.output_tokens == 0) request.output_tokens = kOutputLenDefault;
    const bool fits = request.prompt_tokens >= kShareGptTokensMin &&
                      request.output_tokens >= kShareGptTokensMin &&
                      request.prompt_tokens <= kShareGptPromptMax &&
                      request.prompt_tokens + request.output_tokens <= kShareGptTotalMax;
    if (fits || !file.sharegpt) requests.push_back(std::move(request));
  }
  if (requests.empty())
    return absl::InvalidArgumentError(
        fmt::format("{}: none of {} rows has a length that counts (4 to 1024 tokens "
                    "asked, at most 2048 with the answer)",
                    file.path.string(), rows.size()));
  return requests;
}

}  // namespace numoe::clients
