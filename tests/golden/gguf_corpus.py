#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/gguf_fuzz: small GGUF files from gguf-py's writer, the seeds of the fuzz target.

Usage: gguf_corpus.py   (needs tests/requirements.txt)
"""
import os

import gguf
import numpy as np

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/corpus/gguf_fuzz")
Q = gguf.GGMLQuantizationType


def write(name, fill, version=3):
    path = os.path.join(OUT, name)
    writer = gguf.GGUFWriter(path, "deepseek2")
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


def tokenizer(w):
    w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("kimi-k2")
    w.add_token_list(["a", "b", "ab", "[EOS]"]), w.add_token_types([1, 1, 1, 3]), w.add_token_merges(["a b"])
    w.add_eos_token_id(3), w.add_chat_template("{{ messages }}")


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    write("empty", lambda w: None)
    write("keys", keys)
    write("quantised", quantised)
    write("experts", experts)
    write("aligned", aligned)
    write("tokenizer", tokenizer)
    write("version2", experts, version=2)
