#include "common/weights/gguf_names.h"

#include <fmt/format.h>

#include <charconv>

namespace numoe {
namespace {

struct Row {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr Row kModel[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

constexpr Row kLayer[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.q_a_proj.weight", "attn_q_a.weight"},
    {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"},
    {"self_attn.q_b_proj.weight", "attn_q_b.weight"},
    {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
    {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
    {"self_attn.kv_b_proj.weight", "attn_kv_b.weight"},
    {"self_attn.k_b_proj.weight", "attn_k_b.weight"},
    {"self_attn.v_b_proj.weight", "attn_v_b.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
};

template <size_t kRows>
constexpr bool Distinct(const Row (&rows)[kRows]) {
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (rows[i].hugging_face == rows[j].hugging_face || rows[i].gguf == rows[j].gguf) return false;
    }
  }
  return true;
}
static_assert(Distinct(kModel) && Distinct(kLayer), "every name must occur once");
bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool TakeNumber(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<std::string> GgufName(std::string_view tensor) {
  for (const Row& row : kModel) {
    if (row.hugging_face == tensor) return std::string(row.gguf);
  }
  int64_t layer = 0;
  if (!TakePrefix(tensor, "model.layers.") || !TakeNumber(tensor, layer) || !TakePrefix(tensor, "."))
    return std::nullopt;
  for (const Row& row : kLayer) {
    if (row.hugging_face == tensor) return fmt::format("blk.{}.{}", layer, row.gguf);
  }
  return std::nullopt;
}

std::optional<ExpertModule> ParseExpertModule(std::string_view module) {
  ExpertModule parsed;
  if (!TakePrefix(module, "model.layers.") || !TakeNumber(module, parsed.layer) ||
      !TakePrefix(module, ".mlp.experts.") || !TakeNumber(module, parsed.expert) ||
      !TakePrefix(module, ".")) {
    return std::nullopt;
  }
  for (const char* part : {"gate", "up", "down"}) {
    if (module == fmt::format("{}_proj", part)) {
      parsed.part = part;
      return parsed;
    }
  }
  return std::nullopt;
}

}  // namespace numoe
