#include "coordinator/serving/api/native_request.h"

#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr int kNewTokensDefault = 128;  // SGLang's

void ReadInput(JsonFields& in, GenerationRequest& out) {
  const ordered_json *text = in.Get("text"), *ids = in.Get("input_ids");
  if ((text == nullptr) == (ids == nullptr))
    return in.Fail("text", fmt::format("either text or input_ids, found {}", text ? "both" : "neither"));
  const ordered_json& input = text != nullptr ? *text : *ids;
  ReadPrompts(in, text != nullptr ? "text" : "input_ids", out);
  out.list_answer = input.is_array() && (input.empty() || !input[0].is_number());
  for (const char* name : {"image_data", "audio_data", "video_data", "input_embeds"}) {
    if (in.Get(name) != nullptr) in.Fail(name, "nothing: this model takes text only");
  }
}

void ReadLogprobs(JsonFields& in, GenerationRequest& out) {
  bool wanted = false;
  int top = 0;
  in.Bool("return_logprob", wanted);
  in.Number("logprob_start_len", -1, INT32_MAX, out.logprob_start);
  in.Number("top_logprobs_num", 0, execution::kLogprobsMax, top);
  if (!wanted) return;
  out.sampling.logprobs = top;
  if (out.logprob_start >= 0) out.sampling.prompt_logprobs = top;
}

}  // namespace

std::variant<GenerationRequest, net::ApiError> ReadNativeRequest(const ordered_json& body,
                                                                 const GenerationDefaults& defaults) {
  GenerationRequest out;
  SetSamplingDefaults(defaults, out);
  JsonFields in(body);
  ReadCommon(in, out);
  out.return_token_ids = true;
  in.Bool("stream", out.stream);
  ReadInput(in, out);
  ReadLogprobs(in, out);
  out.sampling.max_tokens = kNewTokensDefault;
  ReadSampling(in, out);  // what the server has locked is here if there are no sampling_params
  if (const ordered_json* sampling = in.Object("sampling_params"); sampling != nullptr) {
    JsonFields inner(*sampling, "sampling_params.");
    inner.Number("max_new_tokens", 1, INT32_MAX, out.sampling.max_tokens);
    ReadSampling(inner, out);
    ReadStructure(inner, out);
    in.Take(inner);
  }
  out.best_of = out.n;
  if (in.error()) return *in.error();
  return out;
}

}  // namespace numoe::serving
