#!/usr/bin/env python3
"""Writes tests/golden/data/tiny-chat-gguf: tiny-chat as one GGUF file, as llama.cpp converts Kimi-K2-Thinking.

The names of tensors come from gguf-py's own table, the container from its writer. Every weight keeps its value: INT4 experts
become Q4_0 (their BF16 scales are fp16 numbers, too), BF16 stays, norms and the router become F32. So this file has the same
expected logits as tiny-chat. Usage: make_gguf.py   (needs tests/requirements.txt)
"""
import base64
import json
import os

import gguf
import numpy as np

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
SOURCE, OUT = os.path.join(DATA, "tiny-chat"), os.path.join(DATA, "tiny-chat-gguf", "tiny-chat.gguf")
TYPES = dict(BF16=np.uint16, I32=np.int32, I64=np.int64, F32=np.float32)
BF16, Q4_0 = gguf.GGMLQuantizationType.BF16, gguf.GGMLQuantizationType.Q4_0


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return json.load(f)


def tensors():
    with open(os.path.join(SOURCE, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def floats(bf16):
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def q4_0(packed, scale):
    """Nibble k of a word is element k of the row, in [0, 15] for -8 to 7: Q4_0's code, of another order."""
    codes = (packed.view(np.uint32)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15
    codes = codes.astype(np.uint8).reshape(*scale.shape, 32)
    d = floats(scale).astype(np.float16)
    assert (d.astype(np.float32) == floats(scale)).all(), "a scale cannot be stored as an fp16 number"
    blocks = np.concatenate([d[..., None].view(np.uint8), codes[..., :16] | codes[..., 16:] << 4], axis=-1)
    return blocks.reshape(len(packed), -1)


def add_config(w, c):
    rope = c["rope_scaling"]
    w.add_block_count(c["num_hidden_layers"]), w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"]), w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"]), w.add_head_count_kv(1), w.add_vocab_size(c["vocab_size"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"]), w.add_rope_freq_base(c["rope_theta"])
    w.add_q_lora_rank(c["q_lora_rank"]), w.add_kv_lora_rank(c["kv_lora_rank"])
    w.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"]), w.add_value_length(c["kv_lora_rank"])
    w.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"]), w.add_value_length_mla(c["v_head_dim"])
    w.add_rope_dimension_count(c["qk_rope_head_dim"]), w.add_leading_dense_block_count(c["first_k_dense_replace"])
    w.add_expert_count(c["n_routed_experts"]), w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"]), w.add_expert_shared_count(c["n_shared_experts"])
    w.add_expert_weights_scale(c["routed_scaling_factor"]), w.add_expert_weights_norm(c["norm_topk_prob"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(rope["factor"])
    w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])  # and no betas, as files of Kimi-K2 from 2025


def spelling(token):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in printable}
    names.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in names)})
    return "".join(names[b] for b in token)


def add_tokenizer(w, vocab):
    with open(os.path.join(SOURCE, "tiktoken.model"), encoding="ascii") as f:
        tokens = [spelling(base64.b64decode(line.split()[0])) for line in f]
    ranks, types = len(tokens), [gguf.TokenType.NORMAL] * len(tokens)
    config = read("tokenizer_config.json")
    special = {int(i): t["content"] for i, t in config["added_tokens_decoder"].items()}
    for i in range(ranks, vocab):
        tokens.append(special.get(i, f"<|reserved_token_{i}|>"))
        types.append(gguf.TokenType.CONTROL)
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("kimi-k2"), w.add_token_list(tokens), w.add_token_types(types)
    ids = {name: i for i, name in special.items()}
    w.add_bos_token_id(ids[config["bos_token"]]), w.add_eos_token_id(ids[config["eos_token"]])
    w.add_pad_token_id(ids[config["pad_token"]])
    with open(os.path.join(SOURCE, "chat_template.jinja"), encoding="utf-8") as f:
        w.add_chat_template(f.read())


def add_tensors(w, c):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.DEEPSEEK2, c["num_hidden_layers"])
    name_of = lambda hf: names.get_name(hf, try_suffixes=(".weight", ".bias"))
    heads, nope, latent, experts = c["num_attention_heads"], c["qk_nope_head_dim"], c["kv_lora_rank"], {}
    for hf, value in sorted(tensors().items()):
        if ".mlp.experts." in hf:
            layer, _, rest = hf.partition(".mlp.experts.")
            expert, part, kind = rest.split(".")
            experts.setdefault(f"{layer}.mlp.experts.{part}.weight", {}).setdefault(int(expert), {})[kind] = value
        elif hf.endswith("kv_b_proj.weight"):
            halves = np.split(value.reshape(heads, -1, latent), [nope], axis=1)
            stem = hf.removesuffix("kv_b_proj.weight")
            for half, matrix in (("k_b_proj", halves[0].transpose(0, 2, 1)), ("v_b_proj", halves[1])):
                w.add_tensor(name_of(f"{stem}{half}.weight"), np.ascontiguousarray(matrix).view(np.uint8), raw_dtype=BF16)
        elif hf.endswith("e_score_correction_bias"):
            w.add_tensor(name_of(hf.replace("e_score_correction_bias", "e_score_correction.bias")), value)
        elif value.ndim == 1 or hf.endswith("mlp.gate.weight"):
            w.add_tensor(name_of(hf), floats(value) if value.dtype == np.uint16 else value)
        else:
            w.add_tensor(name_of(hf), value.view(np.uint8), raw_dtype=BF16)
    for hf, parts in experts.items():
        blocks = [q4_0(parts[e]["weight_packed"], parts[e]["weight_scale"]) for e in range(len(parts))]
        w.add_tensor(name_of(hf), np.stack(blocks), raw_dtype=Q4_0)


def main():
    config = read("config.json")
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    writer = gguf.GGUFWriter(OUT, "deepseek2")
    add_config(writer, config)
    add_tokenizer(writer, config["vocab_size"])
    add_tensors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
