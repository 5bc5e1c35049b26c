// What the tests of constrained calls share: models of every format, random tools, and random answers drawn
// from the masks.
//
// A walk draws each token among those that the mask has and ends soon, as a small model would; where there is
// no mask it writes what it likes and then calls, or ends. Failures are reported through GoogleTest. All
// randomness comes from the given generator. One thread.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "coordinator/serving/api/answer_constraint.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

struct CallModel {
  std::string name;
  std::unique_ptr<text::Tokenizer> tokenizer;
  text::OutputFormat format;
  TokenId end = 0;
  std::unique_ptr<text::GrammarCache> grammars;

  std::optional<TokenId> Find(text::Mark mark) const;
};

/// All bytes, pieces of JSON and calls that reach over every border, and the format's marks.
const std::vector<CallModel>& SmallCallModels();
/// The files of a published or trained tokeniser, whose answers end with `end`.
CallModel LoadCallModel(const std::string& folder, const std::string& end);

/// One to four functions, strict or not, with the schemas of random objects or none.
nlohmann::ordered_json RandomTools(std::mt19937_64& random);

/// As a client sends it. `choice` is tool_choice as JSON.
GenerationRequest ChatRequest(const nlohmann::ordered_json& tools, const nlohmann::ordered_json& choice,
                              bool parallel = true);

/// Null and a test failure if it is refused.
std::unique_ptr<execution::TokenConstraint> Constrained(const CallModel& model,
                                                        const GenerationRequest& request,
                                                        std::optional<text::Mark> prompt_mark = {});

/// Up to the end token, which is the last one. Empty and a test failure if no token is allowed, or no end is
/// in sight.
std::vector<TokenId> RandomAnswer(const CallModel& model, execution::TokenConstraint& constraint,
                                  std::mt19937_64& random);

/// Says `text`, cut at random into tokens, marks by name; then the end. False at the first token that the
/// mask lacks.
bool Says(const CallModel& model, execution::TokenConstraint& constraint, std::string_view text,
          std::mt19937_64& random);

}  // namespace numoe::serving
