"""Writes a trained nano as Kimi-K2-Thinking is published: INT4 routed experts, BF16 for the rest, tiktoken.model, template.

`python export.py WORK/nano.pt [--out deploy/models/nano] [--bf16 DIR]`; --bf16 also writes the dequantised form for transformers.
chat_template.jinja in the output folder is written by hand.
"""
import argparse
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from model import BF16, Config, Nano, quantise
from tokenizer import NAMED, WORK, Tokenizer, save

HERE = os.path.dirname(os.path.abspath(__file__))
SHARDS = 2
IGNORED = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]


def dump(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def config(c: Config, tokenizer: Tokenizer, int4: bool) -> dict[str, Any]:
    out: dict[str, Any] = dict(
        architectures=["DeepseekV3ForCausalLM"], model_type="kimi_k2" if int4 else "deepseek_v3", vocab_size=c.vocab, hidden_size=c.hidden,
        num_hidden_layers=c.layers, num_attention_heads=c.heads, num_key_value_heads=c.heads, q_lora_rank=c.q_lora, kv_lora_rank=c.kv_lora,
        qk_nope_head_dim=c.nope, qk_rope_head_dim=c.rope, v_head_dim=c.value, intermediate_size=c.dense, moe_intermediate_size=c.width,
        n_routed_experts=c.experts, num_experts_per_tok=c.top_k, n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1, n_group=1, topk_group=1,
        scoring_func="sigmoid", topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=c.scaling, rms_norm_eps=c.eps, rope_theta=c.theta,
        rope_scaling=dict(type="yarn", factor=c.factor, beta_fast=c.beta_fast, beta_slow=c.beta_slow, mscale=1.0, mscale_all_dim=1.0,
                          original_max_position_embeddings=c.trained_length),
        max_position_embeddings=int(c.trained_length * c.factor), hidden_act="silu", attention_bias=False, attention_dropout=0.0,
        tie_word_embeddings=False, num_nextn_predict_layers=0, use_cache=True, bos_token_id=tokenizer.named["[BOS]"], eos_token_id=tokenizer.end,
        pad_token_id=tokenizer.named["[PAD]"], torch_dtype="bfloat16")
    if int4:
        weights = dict(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32, dynamic=False, actorder=None)
        out["quantization_config"] = dict(
            quant_method="compressed-tensors", format="pack-quantized", quantization_status="compressed", kv_cache_scheme=None,
            config_groups=dict(group_0=dict(targets=["Linear"], input_activations=None, output_activations=None, weights=weights)), ignore=IGNORED)
    return out


def packed(w: Tensor) -> dict[str, Tensor]:
    """One expert matrix [in, out] as published: integers packed [out, in/8], BF16 scales [out, in/32], the shape."""
    q, scale = (t.transpose(0, 1).contiguous() for t in quantise(w))
    rows, cols = q.shape
    words = ((q.to(torch.int64) + 8).view(rows, cols // 8, 8) << (4 * torch.arange(8))).sum(-1)
    words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    return {"weight_packed": words, "weight_scale": scale, "weight_shape": torch.tensor([rows, cols], dtype=torch.int32)}


def dequantised(w: Tensor) -> dict[str, Tensor]:
    q, scale = quantise(w)
    return {"weight": (q * scale.float().repeat_interleave(32, 0)).transpose(0, 1).to(BF16).contiguous()}


def unrounded(w: Tensor) -> dict[str, Tensor]:
    """The weights that INT4 was fitted to."""
    return {"weight": w.transpose(0, 1).to(BF16).contiguous()}


@torch.no_grad()
def tensors(model: Nano, expert: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}

    def put(name: str, value: Tensor) -> None:
        out[name + ".weight"] = value.to(BF16).contiguous()

    def mlp(prefix: str, gate_up: Tensor, down: Tensor) -> None:
        gate, up = gate_up.chunk(2)
        put(prefix + "gate_proj", gate)
        put(prefix + "up_proj", up)
        put(prefix + "down_proj", down)

    put("model.embed_tokens", model.embed)
    put("model.norm", model.norm)
    put("lm_head", model.output())
    for i, layer in enumerate(model.layers):
        p, a = f"model.layers.{i}.", layer.attention
        put(p + "input_layernorm", layer.norm1)
        put(p + "post_attention_layernorm", layer.norm2)
        for name, value in (("q_a_proj", a.q_a), ("q_a_layernorm", a.q_norm), ("q_b_proj", a.q_b), ("kv_a_proj_with_mqa", a.kv_a),
                            ("kv_a_layernorm", a.kv_norm), ("kv_b_proj", a.kv_b), ("o_proj", a.out)):
            put(p + "self_attn." + name, value)
        if i == 0:
            mlp(p + "mlp.", layer.mlp.gate_up, layer.mlp.down)
            continue
        m = layer.mlp
        put(p + "mlp.gate", m.gate)
        out[p + "mlp.gate.e_score_correction_bias"] = m.bias.float().clone()
        mlp(p + "mlp.shared_experts.", m.shared.gate_up, m.shared.down)
        for e in range(model.c.experts):
            gate, up = m.gate_up[e].chunk(2, -1)
            for name, value in (("gate_proj", gate), ("up_proj", up), ("down_proj", m.down[e])):
                out.update({f"{p}mlp.experts.{e}.{name}.{k}": v for k, v in expert(value).items()})
    return out


def write(folder: str, model: Nano, tokenizer: Tokenizer, expert: Callable[[Tensor], dict[str, Tensor]]) -> None:
    """`expert` says how a routed expert's matrix is stored: packed, dequantised or unrounded."""
    os.makedirs(folder, exist_ok=True)
    all_tensors = tensors(model, expert)
    names = sorted(all_tensors)
    size = sum(t.numel() * t.element_size() for t in all_tensors.values())
    shards: list[list[str]] = [[] for _ in range(SHARDS)]
    seen = 0
    for n in names:
        shards[min(SHARDS - 1, seen * SHARDS // size)].append(n)
        seen += all_tensors[n].numel() * all_tensors[n].element_size()
    where: dict[str, str] = {}
    for i, part in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{SHARDS:06d}.safetensors"
        save_file({n: all_tensors[n] for n in part}, os.path.join(folder, file), metadata={"format": "pt"})
        where |= dict.fromkeys(part, file)
    dump(os.path.join(folder, "model.safetensors.index.json"), dict(metadata=dict(total_size=size), weight_map=where))
    dump(os.path.join(folder, "config.json"), config(model.c, tokenizer, expert is packed))
    longest = int(model.c.trained_length * model.c.factor)
    dump(os.path.join(folder, "generation_config.json"), dict(max_length=longest, eos_token_id=tokenizer.end))
    save(tokenizer.ranks, os.path.join(folder, "tiktoken.model"))
    plain = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    dump(os.path.join(folder, "tokenizer_config.json"), dict(
        added_tokens_decoder={str(len(tokenizer.ranks) + i): dict(content=name, **plain, special=special) for i, (name, special) in NAMED.items()},
        additional_special_tokens=[name for name, special in NAMED.values() if special and name.startswith("<|im")], bos_token="[BOS]", eos_token="[EOS]",
        unk_token="[UNK]", pad_token="[PAD]", clean_up_tokenization_spaces=False, model_max_length=longest, tokenizer_class="TikTokenTokenizer"))


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("checkpoint", nargs="?", default=os.path.join(WORK, "nano.pt"))
    args.add_argument("--out", default=os.path.join(HERE, "../../deploy/models/nano"))
    args.add_argument("--bf16", default="", help="also a folder with the same weights as BF16")
    args.add_argument("--master", default="", help="also a folder with the BF16 weights that INT4 was fitted to")
    a = args.parse_args()
    torch.set_num_threads(1)
    saved = torch.load(a.checkpoint)
    model = Nano(Config(**saved["config"]))
    model.load_state_dict(saved["model"])
    template = os.path.join(HERE, "../../deploy/models/nano/chat_template.jinja")
    for folder, expert in ((a.out, packed), (a.bf16, dequantised), (a.master, unrounded)):
        if not folder:
            continue
        write(folder, model, Tokenizer.load(), expert)
        if not os.path.exists(os.path.join(folder, "chat_template.jinja")):
            shutil.copy(template, folder)
    print(a.out, f"{sum(os.path.getsize(os.path.join(a.out, f)) for f in os.listdir(a.out)) / 1e6:.1f} MB,", saved["state"])


if __name__ == "__main__":
    main()
