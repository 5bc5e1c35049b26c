// ApiFixture: the dependencies of the API's handlers, with a tokenizer of bytes and an engine that the test
// controls.
//
// The chat template prints each message as ROLE:CONTENT; and has no marks; token 256 ends the model's
// answers. Tests change `deps` before they use it. One thread.
#pragma once

#include <memory>

#include "coordinator/serving/api/api_deps.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/unit/coordinator/serving/api/scripted_engine.h"

namespace numoe::serving {

class ApiFixture : public ::testing::Test {
 protected:
  static constexpr TokenId kEnd = 256;

  const ByteTokenizer tokenizer_{{"!<end>"}};
  const std::shared_ptr<const text::ChatTemplate> template_ =
      *text::ChatTemplate::Parse("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}", "test");
  ScriptedEngine engine_;
  Metrics metrics_{MetricOwner::kCoordinator};
  const std::vector<TokenId> end_ = {kEnd};
  text::GrammarCache grammars_{text::GrammarVocabulary::Build(tokenizer_, end_)};
  ApiDeps deps{.engine = engine_,
               .tokenizer = tokenizer_,
               .chat_template = template_.get(),
               .metrics = metrics_,
               .model_names = {"m"},
               .fingerprint = "fp_1",
               .model_path = "",
               .max_model_len = 100,
               .defaults = {},
               .eos_token_ids = end_,
               .output_format = {},
               .grammars = grammars_,
               .locked = {},
               .health =
                   [] {
                     return HealthReport{"ready", ""};
                   },
               .live =
                   [] {
                     return HealthReport{"alive", ""};
                   },
               .expert_stats = nullptr,
               .server_info = {}};
};

}  // namespace numoe::serving
