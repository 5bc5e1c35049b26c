// Which parser is chosen for a vocabulary, automatically or by a flag.
#include "coordinator/text/parsing/output_format.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"

namespace numoe::text {
namespace {

using ::testing::HasSubstr;

TEST(OutputFormatTest, AutoChoosesByTheVocabulary) {
  const auto tools = [](const std::vector<std::string>& control) {
    return ChooseOutputFormat(ByteTokenizer(control), "auto", "auto")->tools;
  };
  EXPECT_EQ(tools(KimiControlTokens()), ToolSyntax::kKimi);
  EXPECT_EQ(tools(DeepSeekControlTokens()), ToolSyntax::kDeepSeek);
  EXPECT_EQ(tools(QwenControlTokens()), ToolSyntax::kHermes);
  EXPECT_EQ(tools({"<tool_call>"}), ToolSyntax::kNone) << "some marks are missing";
  EXPECT_TRUE(ChooseOutputFormat(ByteTokenizer({"<think>"}), "auto", "auto")->marks.empty());
}

TEST(OutputFormatTest, TheTemplateDecidesBetweenQwensTwoFormats) {
  const ByteTokenizer qwen(QwenControlTokens());
  const auto tools = [&](const char* parser, const char* chat_template) {
    return ChooseOutputFormat(qwen, "auto", parser, chat_template)->tools;
  };
  EXPECT_EQ(tools("auto", "<tool_call>\\n<function=example>"), ToolSyntax::kQwenCoder);
  EXPECT_EQ(tools("auto", "<tool_call>\\n{\"name\": "), ToolSyntax::kHermes);
  EXPECT_EQ(tools("hermes", "<function=example>"), ToolSyntax::kHermes);
  EXPECT_EQ(tools("qwen3_coder", ""), ToolSyntax::kQwenCoder);
  EXPECT_EQ(ChooseOutputFormat(ByteTokenizer(KimiControlTokens()), "auto", "auto", "<function=x>")->tools,
            ToolSyntax::kKimi);
}

// The small checkpoint has the names of the published vocabulary with other ids.
TEST(OutputFormatTest, ARealKimiVocabulary) {
  const auto tokenizer = Tokenizer::Load("tests/golden/data/tiny-chat");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto format = ChooseOutputFormat(**tokenizer, "auto", "auto");
  ASSERT_TRUE(format.ok()) << format.status();
  EXPECT_EQ(format->tools, ToolSyntax::kKimi);
  EXPECT_EQ(format->marks.size(), 7u);
  EXPECT_EQ(format->Find(*(*tokenizer)->SpecialId("</think>")), Mark::kThinkEnd);
  EXPECT_EQ(format->Find(*(*tokenizer)->SpecialId("<|tool_call_argument_begin|>")), Mark::kArguments);
  EXPECT_EQ(format->Find(*(*tokenizer)->SpecialId("<|im_end|>")), std::nullopt);
}

TEST(OutputFormatTest, FlagsChooseAndAreChecked) {
  const ByteTokenizer kimi(KimiControlTokens());
  EXPECT_TRUE(ChooseOutputFormat(kimi, "none", "none")->marks.empty());
  EXPECT_TRUE(ChooseOutputFormat(kimi, "none", "none")->spelled.empty());
  EXPECT_EQ(ChooseOutputFormat(kimi, "think", "none")->marks.size(), 2u);
  EXPECT_EQ(ChooseOutputFormat(kimi, "none", "kimi_k2")->marks.size(), 5u);
  EXPECT_THAT(ChooseOutputFormat(kimi, "auto", "hermes").status().ToString(),
              HasSubstr("--tool-call-parser=hermes: the vocabulary has no token <tool_call>"));
  EXPECT_THAT(ChooseOutputFormat(ByteTokenizer({}), "think", "auto").status().ToString(),
              HasSubstr("--reasoning-parser=think: the vocabulary has no token <think>"));
  EXPECT_THAT(ChooseOutputFormat(kimi, "auto", "x").status().ToString(),
              HasSubstr("--tool-call-parser=x: expected auto, kimi_k2"));
  EXPECT_THAT(ChooseOutputFormat(kimi, "x", "auto").status().ToString(),
              HasSubstr("--reasoning-parser=x: expected"));
}

}  // namespace
}  // namespace numoe::text
