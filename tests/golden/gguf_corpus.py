#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/gguf_fuzz and gguf_tokenizer_fuzz: small GGUF files from gguf-py's writer, the seeds of the
fuzz targets.

Usage: gguf_corpus.py   (needs tests/requirements.txt)
"""
import os

import gguf
import numpy as np

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/corpus")
Q = gguf.GGMLQuantizationType


def write(target, name, fill, version=3, arch="deepseek2"):
    path = os.path.join(CORPUS, target, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    writer = gguf.GGUFWriter(path, arch)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if version != 3:
        with open(path, "r+b") as f:
            f.seek(4)
            f.write(version.to_bytes(4, "little"))


def keys(w):
    w.add_uint8("a.u8", 1), w.add_int8("a.i8", -1), w.add_uint16("a.u16", 2), w.add_int16("a.i16", -2)
    w.add_uint32("a.u32", 3), w.add_int32("a.i32", -3), w.add_uint64("a.u64", 4), w.add_int64("a.i64", -4)
    w.add_float32("a.f32", 0.5), w.add_float64("a.f64", 0.25), w.add_bool("a.bool", True), w.add_string("a.string", "é")
    w.add_array("a.strings", ["x", "", "yz"]), w.add_array("a.integers", [1, -2]), w.add_array("a.bools", [True, False])


def quantised(w):
    random = np.random.default_rng(1)
    for kind in (Q.Q4_0, Q.Q5_1, Q.Q8_0, Q.MXFP4):
        w.add_tensor(kind.name, gguf.quantize(random.standard_normal((2, 32)).astype(np.float32), kind), raw_dtype=kind)
    w.add_tensor("q4_k", random.integers(0, 256, (1, 144), dtype=np.uint8), raw_dtype=Q.Q4_K)


def experts(w):
    w.add_block_count(1), w.add_expert_count(2)
    w.add_tensor("blk.0.ffn_gate_exps.weight", np.ones((2, 3, 4), dtype=np.float16))
    w.add_tensor("blk.0.attn_norm.weight", np.arange(5, dtype=np.float32))


def aligned(w):
    w.add_custom_alignment(64)
    w.add_tensor("a", np.ones(3, dtype=np.float32))
    w.add_tensor("b", np.ones((1, 1, 1, 2), dtype=np.float32))


def model(w):
    w.add_block_count(2), w.add_context_length(64), w.add_embedding_length(8), w.add_feed_forward_length(16)
    w.add_head_count(2), w.add_layer_norm_rms_eps(1e-5), w.add_rope_freq_base(50000.0)
    w.add_expert_count(4), w.add_expert_used_count(2), w.add_expert_feed_forward_length(8)
    w.add_tensor("token_embd.weight", np.ones((8, 8), dtype=np.float32))
    w.add_eos_token_id(7), w.add_bos_token_id(6), w.add_token_list(list("abcdef") + ["[BOS]", "[EOS]"])
    w.add_token_types([1] * 6 + [3, 3])


def deepseek(w):
    model(w)
    w.add_q_lora_rank(4), w.add_kv_lora_rank(4), w.add_key_length(6), w.add_value_length(4), w.add_key_length_mla(6)
    w.add_value_length_mla(4), w.add_rope_dimension_count(2), w.add_leading_dense_block_count(1)
    w.add_expert_shared_count(1), w.add_expert_weights_scale(2.5), w.add_expert_weights_norm(True)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID), w.add_expert_group_count(2)
    w.add_expert_group_used_count(1), w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(32.0)
    w.add_rope_scaling_orig_ctx_len(4096), w.add_rope_scaling_yarn_log_mul(0.1)


def qwen(w):
    model(w)
    w.add_head_count_kv(1), w.add_key_length(4), w.add_value_length(4), w.add_float32("general.sampling.temp", 0.6)


def spelling(byte):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in printable else 256 + sum(b not in printable for b in range(byte)))


def tokenizer(pre, merges):
    tokens = [spelling(b) for b in range(256)] + ["ab", "abc", "[EOS]", "<think>", "[PAD260]"]
    types = [1] * 258 + [3, 4, 5]

    def fill(w):
        w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre(pre), w.add_token_list(tokens), w.add_token_types(types)
        w.add_eos_token_id(258), w.add_chat_template("{{ messages }}")
        if merges:
            w.add_token_merges(["a b", "ab c"])
    return fill


if __name__ == "__main__":
    write("gguf_fuzz", "empty", lambda w: None)
    write("gguf_fuzz", "keys", keys)
    write("gguf_fuzz", "quantised", quantised)
    write("gguf_fuzz", "experts", experts)
    write("gguf_fuzz", "aligned", aligned)
    write("gguf_fuzz", "version2", experts, version=2)
    write("gguf_fuzz", "deepseek2", deepseek)
    write("gguf_fuzz", "qwen3moe", qwen, arch="qwen3moe")
    write("gguf_tokenizer_fuzz", "kimi", tokenizer("kimi-k2", merges=False))
    write("gguf_tokenizer_fuzz", "qwen", tokenizer("qwen2", merges=True))
    write("gguf_tokenizer_fuzz", "deepseek", tokenizer("deepseek-v3", merges=True))
