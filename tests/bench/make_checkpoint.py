#!/usr/bin/env python3
"""Writes a checkpoint with the dimensions of a published model, few layers and random weights, for benchmarks.

  make_checkpoint.py qwen3-30b DIR [--layers 10]                 Qwen3-30B-A3B, BF16, 1.2 GB a layer
  make_checkpoint.py qwen3-30b FILE.gguf [--type Q4_K_M]         the same as GGUF, tensors as llama-quantize types them
  make_checkpoint.py k2 DIR [--layers 3] [--experts 64]          Kimi-K2-Thinking, one dense layer, INT4 experts
  make_checkpoint.py k2 DIR --layers 61 --experts 384 --holes    all of Kimi-K2-Thinking without its weights

Standard library only. Weights are windows into one pool of random bits with small exponents, so that activations stay in range; the
model's answers mean nothing. With --holes the weights are holes in the files, which read as zeros and take no space on the disk: that
makes a model of full size within a second, for programs that read headers and plan memory. There is no tokeniser, because numoe-bench
model needs none. --tokenizer MODEL copies that of a folder like deploy/models/nano and uses its vocabulary, so that daemons can serve it.
"""
import argparse
import json
import math
import os
import random
import shutil
import struct

POOL = 32 << 20


class Pools:
    """Random bytes by dtype, handed out from rotating offsets."""

    def __init__(self, seed=1):
        r = random.Random(seed)
        self.codes = r.randbytes(POOL)
        values = bytearray(POOL)
        values[0::2] = r.randbytes(POOL // 2)
        # The upper byte of a BF16: either sign, 2^-8 to 2^-5.
        values[1::2] = r.randbytes(POOL // 2).translate(bytes([(0x3C, 0xBC, 0x3B, 0xBB)[i % 4] for i in range(256)]))
        self.values = bytes(values)
        self.ones = struct.pack("<H", 0x3F80) * (1 << 16)
        self.scales = struct.pack("<H", 0x3B00) * (POOL // 2)  # 2^-9: codes of -8 to 7 become up to 2^-6
        self.at = 0

    def chunks(self, kind, size):
        pool = getattr(self, kind)
        self.at = (self.at + 4096 * 31) % (len(pool) // 2)
        begin = self.at // 256 * 256
        while size > 0:
            part = pool[begin:begin + size]
            yield part
            size -= len(part)
            begin = 0


def tensors_qwen3(c):
    h, d = c["hidden_size"], c["head_dim"]
    heads, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    yield "model.embed_tokens.weight", "BF16", [c["vocab_size"], h], "values"
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        for name, shape in (("q_proj", [heads, h]), ("k_proj", [kv, h]), ("v_proj", [kv, h]), ("o_proj", [h, heads])):
            yield p + f"self_attn.{name}.weight", "BF16", shape, "values"
        for name, size in (("input_layernorm", h), ("post_attention_layernorm", h), ("self_attn.q_norm", d), ("self_attn.k_norm", d)):
            yield p + name + ".weight", "BF16", [size], "ones"
        yield p + "mlp.gate.weight", "BF16", [c["num_experts"], h], "values"
        w = c["moe_intermediate_size"]
        for e in range(c["num_experts"]):
            for name, shape in (("gate_proj", [w, h]), ("up_proj", [w, h]), ("down_proj", [h, w])):
                yield p + f"mlp.experts.{e}.{name}.weight", "BF16", shape, "values"
    yield "model.norm.weight", "BF16", [h], "ones"
    yield "lm_head.weight", "BF16", [c["vocab_size"], h], "values"


def mlp(prefix, hidden, width):
    for name, shape in (("gate_proj", [width, hidden]), ("up_proj", [width, hidden]), ("down_proj", [hidden, width])):
        yield f"{prefix}.{name}.weight", "BF16", shape, "values"


def tensors_k2(c):
    h, n = c["hidden_size"], c["num_attention_heads"]
    nope, rope, v, ql, kl = (c[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "q_lora_rank", "kv_lora_rank"))
    yield "model.embed_tokens.weight", "BF16", [c["vocab_size"], h], "values"
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        for name, shape in (("q_a_proj", [ql, h]), ("q_b_proj", [n * (nope + rope), ql]), ("kv_a_proj_with_mqa", [kl + rope, h]),
                            ("kv_b_proj", [n * (nope + v), kl]), ("o_proj", [h, n * v])):
            yield p + f"self_attn.{name}.weight", "BF16", shape, "values"
        for name, size in (("input_layernorm", h), ("post_attention_layernorm", h), ("self_attn.q_a_layernorm", ql),
                           ("self_attn.kv_a_layernorm", kl)):
            yield p + name + ".weight", "BF16", [size], "ones"
        if layer < c["first_k_dense_replace"]:
            yield from mlp(p + "mlp", h, c["intermediate_size"])
            continue
        w = c["moe_intermediate_size"]
        yield p + "mlp.gate.weight", "BF16", [c["n_routed_experts"], h], "values"
        yield p + "mlp.gate.e_score_correction_bias", "F32", [c["n_routed_experts"]], "zeros"
        yield from mlp(p + "mlp.shared_experts", h, w)
        for e in range(c["n_routed_experts"]):
            for name, (rows, cols) in (("gate_proj", (w, h)), ("up_proj", (w, h)), ("down_proj", (h, w))):
                m = f"{p}mlp.experts.{e}.{name}."
                yield m + "weight_packed", "I32", [rows, cols // 8], "codes"
                yield m + "weight_scale", "BF16", [rows, cols // 32], "scales"
                yield m + "weight_shape", "I64", [2], struct.pack("<qq", rows, cols)
    yield "model.norm.weight", "BF16", [h], "ones"
    yield "lm_head.weight", "BF16", [c["vocab_size"], h], "values"


QWEN3_30B = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16", "vocab_size": 151936, "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 40960, "hidden_act": "silu", "attention_bias": False,
    "tie_word_embeddings": False, "bos_token_id": 151643, "eos_token_id": 151645}
K2 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2", "torch_dtype": "bfloat16", "vocab_size": 163840, "hidden_size": 7168,
    "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 2.827, "rms_norm_eps": 1e-5, "rope_theta": 50000.0,
    "max_position_embeddings": 262144, "hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False, "bos_token_id": 163584,
    "eos_token_id": 163586,
    "rope_scaling": {"type": "yarn", "factor": 64.0, "beta_fast": 1.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096},
    "quantization_config": {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
                                                                         "group_size": 32, "dynamic": False}}},
        "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]}}
BYTES = {"BF16": 2, "F32": 4, "I32": 4, "I64": 8}

# GGUF's types: number, weights and bytes of a block, and what its bytes are but random ones: at an offset, fp16 factors that
# keep weights below 2^-4.
GGML = {"F32": (0, 1, 4, ()), "BF16": (30, 1, 2, ()), "Q8_0": (8, 32, 34, ((0, 2.0**-11),)),
        "Q4_K": (12, 256, 144, ((0, 2.0**-14), (2, 7.5 * 2.0**-14))), "Q6_K": (14, 256, 210, ((208, 2.0**-16),))}


def more_bits(layer, layers):
    """Whether llama-quantize gives the layer more bits in mixtures like Q4_K_M."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def gguf_tensors_qwen3(c, kind):
    """Names, types, shapes: the innermost dimension first, experts merged. Types as llama-quantize chooses them."""
    h, d, w, e = c["hidden_size"], c["head_dim"], c["moe_intermediate_size"], c["num_experts"]
    heads, kv, layers = c["num_attention_heads"] * d, c["num_key_value_heads"] * d, c["num_hidden_layers"]
    most, best = ("Q4_K", "Q6_K") if kind == "Q4_K_M" else (kind, kind)
    yield "token_embd.weight", most, [h, c["vocab_size"]]
    for layer in range(layers):
        for name, size in (("attn_norm", h), ("ffn_norm", h), ("attn_q_norm", d), ("attn_k_norm", d)):
            yield f"blk.{layer}.{name}.weight", "F32", [size]
        yield f"blk.{layer}.ffn_gate_inp.weight", "F32", [h, e]
        down = best if more_bits(layer, layers) else most
        for name, dtype, shape in (("attn_q", most, [h, heads]), ("attn_k", most, [h, kv]), ("attn_v", down, [h, kv]),
                                   ("attn_output", most, [heads, h]), ("ffn_gate_exps", most, [h, w, e]),
                                   ("ffn_up_exps", most, [h, w, e]), ("ffn_down_exps", down, [w, h, e])):
            yield f"blk.{layer}.{name}.weight", dtype, shape
    yield "output_norm.weight", "F32", [h]
    yield "output.weight", best, [h, c["vocab_size"]]


def gguf_metadata_qwen3(c):
    p = "qwen3moe."
    return {"general.architecture": "qwen3moe", p + "block_count": c["num_hidden_layers"],
            p + "context_length": c["max_position_embeddings"], p + "embedding_length": c["hidden_size"],
            p + "feed_forward_length": c["intermediate_size"], p + "attention.head_count": c["num_attention_heads"],
            p + "attention.head_count_kv": c["num_key_value_heads"], p + "attention.key_length": c["head_dim"],
            p + "attention.value_length": c["head_dim"], p + "attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
            p + "rope.freq_base": c["rope_theta"], p + "expert_count": c["num_experts"],
            p + "expert_used_count": c["num_experts_per_tok"], p + "expert_feed_forward_length": c["moe_intermediate_size"],
            p + "vocab_size": c["vocab_size"], "tokenizer.ggml.model": "none"}


def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_value(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def gguf_pool(dtype, pools):
    """Some millions of weights, whole blocks."""
    if dtype == "BF16":
        return pools.values
    if dtype == "F32":
        wide = bytearray(POOL)
        wide[2::4], wide[3::4] = pools.values[:POOL // 2:2], pools.values[1:POOL // 2:2]
        return bytes(wide)
    _, _, size, factors = GGML[dtype]
    pool = bytearray(pools.codes[:POOL // size * size])
    for offset, factor in factors:
        low, high = struct.pack("<e", factor)
        pool[offset::size], pool[offset + 1::size] = bytes([low]) * (len(pool) // size), bytes([high]) * (len(pool) // size)
    return bytes(pool)


def write_gguf(path, metadata, tensors, holes):
    tensors = [(name, dtype, shape, math.prod(shape) // GGML[dtype][1] * GGML[dtype][2]) for name, dtype, shape in tensors]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_string(key) + gguf_value(value) for key, value in metadata.items())
    offset = 0
    for name, dtype, shape, size in tensors:
        head += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, GGML[dtype][0], offset)
        offset += -(-size // 32) * 32
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        if holes:
            f.truncate(f.tell() + offset)
            tensors = []
        pools = Pools()
        by_type = {dtype: gguf_pool(dtype, pools) for dtype in {t[1] for t in tensors}}
        for number, (_, dtype, shape, size) in enumerate(tensors):
            pool = struct.pack("<f", 1.0) * shape[0] if len(shape) == 1 else by_type[dtype]
            block = GGML[dtype][2]
            begin = 0 if len(shape) == 1 else number * 4099 % (len(pool) // block // 2) * block
            padding = bytes(-size % 32)
            while size > 0:
                size -= f.write(pool[begin:begin + size])
                begin = 0
            f.write(padding)
    print(f"{path}: {offset / 1e9:.2f} GB")


def write(folder, config, tensors, holes):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="ascii") as f:
        json.dump(config, f, indent=1)
    header, offset = {}, 0
    tensors = list(tensors)
    for name, dtype, shape, _ in tensors:
        size = BYTES[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pools = Pools()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, _, _, source in tensors:
            begin, end = header[name]["data_offsets"]
            if isinstance(source, bytes):
                f.write(source)
            elif holes:
                f.truncate(f.tell() + end - begin)
                f.seek(0, os.SEEK_END)
            elif source == "zeros":
                f.write(bytes(end - begin))
            else:
                for part in pools.chunks(source, end - begin):
                    f.write(part)
    print(f"{folder}: {offset / 1e9:.2f} GB")


def adopt_tokenizer(source, folder):
    """Copies what `source` has of a tokeniser; -> what its config says of tokens."""
    os.makedirs(folder, exist_ok=True)
    for name in ("tiktoken.model", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        if os.path.exists(os.path.join(source, name)):
            shutil.copy(os.path.join(source, name), folder)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    return {name: config[name] for name in ("vocab_size", "bos_token_id", "eos_token_id")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["qwen3-30b", "k2"])
    parser.add_argument("folder")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--experts", type=int, default=64, help="routed experts a layer, k2 only")
    parser.add_argument("--type", default="Q4_K_M", choices=["Q4_K_M", "Q8_0", "BF16"], help="of a GGUF file")
    parser.add_argument("--tokenizer", metavar="MODEL", help="folder of a model whose tokeniser and vocabulary it gets")
    parser.add_argument("--holes", action="store_true", help="leave the weights out: zeros that take no space")
    options = parser.parse_args()
    tokens = {}
    if options.tokenizer:
        if options.folder.endswith(".gguf"):
            parser.error("--tokenizer: not for GGUF files")
        tokens = adopt_tokenizer(options.tokenizer, options.folder)
    if options.model == "k2":
        if options.folder.endswith(".gguf"):
            parser.error(f"{options.folder}: only qwen3-30b is written as GGUF; give a folder")
        shape = {**K2, "num_hidden_layers": options.layers or 3, "n_routed_experts": options.experts, **tokens}
        write(options.folder, shape, tensors_k2(shape), options.holes)
    else:
        shape = {**QWEN3_30B, "num_hidden_layers": options.layers or 10, **tokens}
        if options.folder.endswith(".gguf"):
            write_gguf(options.folder, gguf_metadata_qwen3(shape), gguf_tensors_qwen3(shape, options.type), options.holes)
        else:
            write(options.folder, shape, tensors_qwen3(shape), options.holes)
