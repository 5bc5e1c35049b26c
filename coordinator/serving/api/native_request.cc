#include "coordinator/serving/api/native_request.h"

#include <algorithm>

#include "coordinator/serving/api/ignored_fields.h"
#include "coordinator/serving/api/json_fields.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/structure_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr int kNewTokensDefault = 128;  // SGLang's default

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

// A field that SGLang accepts once, or as a list with a value for each prompt. This server answers all
// prompts of a request with the same values, so a list must contain the same value for each of them.
class FieldOfPrompts {
 public:
  FieldOfPrompts(JsonFields& in, const char* name, size_t prompts) : json_(ordered_json::object()) {
    const ordered_json* value = in.Get(name);
    if (value == nullptr) return;
    if (!value->is_array()) {
      json_[name] = *value;
    } else if (value->size() != prompts || value->empty() ||
               std::any_of(value->begin(), value->end(),
                           [value](const auto& one) { return one != value->front(); })) {
      in.Fail(name, fmt::format(
                        "one value for all prompts, or a list of {} equal ones, found {}; send prompts with "
                        "different values in separate requests",
                        prompts, JsonFields::Short(*value)));
    } else {
      json_[name] = value->front();
    }
  }
  const ordered_json& json() const { return json_; }

 private:
  ordered_json json_;
};

void ReadLogprobs(JsonFields& in, GenerationRequest& out) {
  bool wanted = false;
  int top = 0;
  const auto read = [&](const char* name, const auto& into) {
    const FieldOfPrompts field(in, name, out.prompts.size());
    JsonFields one(field.json());
    into(one);
    in.Take(one);
  };
  read("return_logprob", [&](JsonFields& one) { one.Bool("return_logprob", wanted); });
  read("logprob_start_len",
       [&](JsonFields& one) { one.Number("logprob_start_len", -1, INT32_MAX, out.logprob_start); });
  read("top_logprobs_num",
       [&](JsonFields& one) { one.Number("top_logprobs_num", 0, execution::kLogprobsMax, top); });
  in.Bool("return_text_in_logprobs", out.logprob_texts);
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
  // For values that the server has locked: ApplySamplingLocks writes them here and not into sampling_params.
  ReadSampling(in, out);
  const FieldOfPrompts params(in, "sampling_params", out.prompts.size());
  JsonFields params_in(params.json());
  if (const ordered_json* sampling = params_in.Object("sampling_params"); sampling != nullptr) {
    JsonFields inner(*sampling, "sampling_params.");
    inner.Number("max_new_tokens", 0, INT32_MAX, out.sampling.max_tokens);  // 0: only the prompt is computed
    for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"})
      inner.Misplaced(name, "max_new_tokens");
    ReadSampling(inner, out);
    ReadStructure(inner, out);
    in.Take(inner);
    in.TakeUnread(inner);
  }
  in.Take(params_in);
  out.best_of = out.n;
  if (in.error()) return *in.error();
  out.ignored_fields = IgnoredFields(in);
  return out;
}

}  // namespace numoe::serving
