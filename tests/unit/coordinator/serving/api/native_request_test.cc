// SGLang's requests: texts or ids, one or a list, together with sampling_params.
#include "coordinator/serving/api/native_request.h"

#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

std::variant<GenerationRequest, net::ApiError> ParseNativeRequest(const std::string& fields) {
  return ReadNativeRequest(ordered_json::parse("{" + fields + "}"), {.temperature = 0.6});
}

GenerationRequest AcceptedNativeRequest(const std::string& fields) {
  const auto parsed = ParseNativeRequest(fields);
  if (const auto* error = std::get_if<net::ApiError>(&parsed)) {
    ADD_FAILURE() << "refused: " << error->message;
    return {};
  }
  return std::get<GenerationRequest>(parsed);
}

std::string RefusedParamNativeRequest(const std::string& fields) {
  const auto parsed = ParseNativeRequest(fields);
  const auto* error = std::get_if<net::ApiError>(&parsed);
  return error == nullptr ? "(accepted)" : error->param.value_or("(none)");
}

TEST(NativeRequestTest, OneAndLists) {
  const GenerationRequest text = AcceptedNativeRequest(R"("text": "hi")");
  EXPECT_EQ(text.prompts.size(), 1u);
  EXPECT_EQ(text.prompts[0].text, "hi");
  EXPECT_FALSE(text.list_answer || text.stream || text.conversation);
  EXPECT_EQ(text.sampling.max_tokens, 128);
  EXPECT_FALSE(text.sampling.logprobs);
  EXPECT_TRUE(AcceptedNativeRequest(R"("text": ["hi"])").list_answer);
  EXPECT_EQ(AcceptedNativeRequest(R"("text": ["a", "b"])").prompts.size(), 2u);
  const GenerationRequest ids = AcceptedNativeRequest(R"("input_ids": [1, 2])");
  EXPECT_EQ(ids.prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_FALSE(ids.list_answer);
  const GenerationRequest lists = AcceptedNativeRequest(R"("input_ids": [[1, 2], [3]])");
  EXPECT_TRUE(lists.list_answer);
  EXPECT_EQ(lists.prompts[1].tokens, (std::vector<TokenId>{3}));
}

TEST(NativeRequestTest, SamplingParams) {
  const GenerationRequest request = AcceptedNativeRequest(
      R"("text": "hi", "sampling_params": {"max_new_tokens": 5, "temperature": 0, "stop": "END", "n": 2,
         "min_new_tokens": 1, "ignore_eos": true, "sampling_seed": 3, "regex": "a+", "lora": 1},
         "stream": true, "rid": "r-1", "lora_path": null)");
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"END"}));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.sampling.min_tokens, 1);
  EXPECT_TRUE(request.sampling.ignore_eos);
  EXPECT_EQ(request.sampling.seed, 3u);
  EXPECT_EQ(request.structure->text, "a+");
  EXPECT_EQ(request.request_id, "r-1");
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(AcceptedNativeRequest(R"("text": "x", "sampling_params": null)").sampling.temperature, 0.6);
  EXPECT_EQ(AcceptedNativeRequest(R"("text": "x", "temperature": 0.5)").sampling.temperature, 0.5)
      << "locked by the server";
}

TEST(NativeRequestTest, LogprobsOfTheOutputAndThePrompt) {
  const GenerationRequest output = AcceptedNativeRequest(
      R"("text": "x", "return_logprob": true, "top_logprobs_num": 2, "logprob_start_len": -1)");
  EXPECT_EQ(output.sampling.logprobs, 2);
  EXPECT_FALSE(output.sampling.prompt_logprobs);
  const GenerationRequest both =
      AcceptedNativeRequest(R"("text": "x", "return_logprob": true, "logprob_start_len": 1)");
  EXPECT_EQ(both.sampling.prompt_logprobs, 0);
  EXPECT_EQ(both.logprob_start, 1);
  EXPECT_FALSE(AcceptedNativeRequest(R"("text": "x", "logprob_start_len": 0)").sampling.prompt_logprobs)
      << "not asked for";
}

TEST(NativeRequestTest, OnlyThePromptMayBeComputed) {
  EXPECT_EQ(
      AcceptedNativeRequest(R"("text": "a", "sampling_params": {"max_new_tokens": 0})").sampling.max_tokens,
      0);
}

TEST(NativeRequestTest, ListsOfOneValueForEachPrompt) {
  const GenerationRequest request = AcceptedNativeRequest(
      R"("text": ["a", "b"], "sampling_params": [{"max_new_tokens": 5}, {"max_new_tokens": 5}],
         "return_logprob": [true, true], "top_logprobs_num": [2, 2], "logprob_start_len": [-1, -1])");
  EXPECT_EQ(request.sampling.max_tokens, 5);
  EXPECT_EQ(request.sampling.logprobs, 2);
  for (const char* list :
       {R"([{"max_new_tokens": 5}, {"max_new_tokens": 6}])", R"([{}])", "[]", "[{}, {}, {}]"})
    EXPECT_EQ(RefusedParamNativeRequest(std::string(R"("text": ["a", "b"], "sampling_params": )") + list),
              "sampling_params")
        << list;
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": ["a", "b"], "sampling_params": [1, 1])"), "sampling_params");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": ["a", "b"], "return_logprob": [true, false])"),
            "return_logprob");
}

TEST(NativeRequestTest, ErrorsNameTheParameter) {
  EXPECT_EQ(RefusedParamNativeRequest(""), "text");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": "a", "input_ids": [1])"), "text");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": 1)"), "text");
  EXPECT_EQ(RefusedParamNativeRequest(R"("input_ids": [1.5])"), "input_ids");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": "a", "sampling_params": [])"), "sampling_params");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": "a", "sampling_params": {"max_new_tokens": -1})"),
            "sampling_params.max_new_tokens");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": "a", "image_data": "x")"), "image_data");
  EXPECT_EQ(RefusedParamNativeRequest(R"("text": "a", "return_logprob": 1)"), "return_logprob");
}

}  // namespace
}  // namespace numoe::serving
