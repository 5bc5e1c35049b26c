// Shared by the tests of constrained calls: models of every format, random tools, and random answers sampled
// from the masks.
//
// A walk samples each token from the mask and ends soon, as a small model would. Where there is no mask, it
// writes random text and then calls a tool, or ends. Failures are reported with GoogleTest. All randomness
// comes from the given generator. One thread.
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

/// All bytes, pieces of JSON and of calls that extend over every border, and the format's marks.
const std::vector<CallModel>& SmallCallModels();
/// The files of a published or trained tokeniser; `end` is the token that ends its answers.
CallModel LoadCallModel(const std::string& folder, const std::string& end);

/// One to four functions, strict or not, with random schemas of objects or none.
nlohmann::ordered_json RandomTools(std::mt19937_64& random);

/// A request as a client sends it. `choice` is tool_choice as JSON.
GenerationRequest ChatRequest(const nlohmann::ordered_json& tools, const nlohmann::ordered_json& choice,
                              bool parallel = true);

/// Returns null and reports a test failure if the request is refused.
std::unique_ptr<execution::TokenConstraint> Constrained(const CallModel& model,
                                                        const GenerationRequest& request,
                                                        std::optional<text::Mark> prompt_mark = {});

/// Returns the tokens up to the end token, which is the last one. Returns nothing and reports a test failure
/// if no token is allowed, or the walk does not end.
std::vector<TokenId> RandomAnswer(const CallModel& model, execution::TokenConstraint& constraint,
                                  std::mt19937_64& random);

/// Feeds `text`, divided at random into tokens and with marks by their names, and then the end. Returns false
/// at the first token that the mask does not contain.
bool Says(const CallModel& model, execution::TokenConstraint& constraint, std::string_view text,
          std::mt19937_64& random);

}  // namespace numoe::serving
