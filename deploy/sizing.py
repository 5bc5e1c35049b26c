#!/usr/bin/env python3
"""The sizing tables of deploy/README.md, from the models' published configurations and the formula there.

Prints them; the chart's tests compare. Sizes in GiB, times in ms for one token at batch 1, bandwidths in GB/s as the memory's
data sheets have them.
"""
from dataclasses import dataclass

GB, GIB = 1e9, 2**30
# Bytes of a weight with its scales: groups of 32 with BF16 scales; FP8 in blocks of 128 x 128 with F32 scales.
BYTES = {"int4": 0.5 + 2 / 32, "int8": 1 + 2 / 32, "bf16": 2.0, "fp8": 1 + 4 / 128**2}


@dataclass
class Model:
    """Weights by what is done with them."""
    name: str
    published: str  # experts' format
    layers: int  # with experts
    experts: int
    expert: int  # weights of one
    dense: int  # weights that every token reads beside the routed experts
    embedding: int
    dense_format: str
    kv_bytes: int  # of one token, BF16
    active: int = 8

    def held(self, form):
        return self.layers * self.experts * self.expert * BYTES[form]

    def read(self, form):
        return self.layers * self.active * self.expert * BYTES[form]

    def dense_held(self, form):
        return self.dense * BYTES[form] + self.embedding * BYTES["bf16"]


def mla(heads, hidden=7168, q=1536, kv=512):
    return hidden * q + q * heads * 192 + hidden * (kv + 64) + kv * heads * 256 + heads * 128 * hidden


def gqa(hidden, heads, kv_heads=4, head=128):
    return hidden * head * (2 * heads + 2 * kv_heads)


def kimi(name):
    expert = 3 * 7168 * 2048
    dense = 61 * mla(64) + 60 * (expert + 384 * 7168) + 3 * 7168 * 18432 + 163840 * 7168
    return Model(name, "int4", 60, 384, expert, dense, 163840 * 7168, "bf16", 61 * 576 * 2)


def qwen(name, layers, hidden, heads, width):
    expert = 3 * hidden * width
    dense = layers * (gqa(hidden, heads) + 128 * hidden) + 151936 * hidden
    return Model(name, "bf16", layers, 128, expert, dense, 151936 * hidden, "bf16", layers * 2 * 4 * 128 * 2)


V3_EXPERT = 3 * 7168 * 2048
MODELS = {m.name: m for m in (
    kimi("Kimi-K2-Thinking, K2.5"),
    Model("DeepSeek-V3, R1", "fp8", 58, 256, V3_EXPERT, 61 * mla(128) + 58 * (V3_EXPERT + 256 * 7168) + 3 * 3 * 7168 * 18432 + 129280 * 7168,
          129280 * 7168, "fp8", 61 * 576 * 2),
    qwen("Qwen3-235B-A22B", 94, 4096, 64, 1536),
    qwen("Qwen3-30B-A3B", 48, 2048, 32, 768))}

# (model, experts' format, hosts' memory and its bandwidth, what computes the rest and its bandwidth, dense format, share of experts there)
HOSTS = [
    ("Kimi-K2-Thinking, K2.5", "int4", "2 sockets, 8 x DDR5-4800", 2 * 8 * 38.4, "H100", 3350, "bf16", 0),
    ("Kimi-K2-Thinking, K2.5", "int4", "2 sockets, 8 x DDR5-4800", 2 * 8 * 38.4, "one socket's CPUs", 8 * 38.4, "int8", 0),
    ("Kimi-K2-Thinking, K2.5", "int4", "2 sockets, 12 x DDR5-6400", 2 * 12 * 51.2, "H100 NVL, 45 experts", 3900, "bf16", 45 / 384),
    ("DeepSeek-V3, R1", "fp8", "2 sockets, 8 x DDR5-4800", 2 * 8 * 38.4, "H100", 3350, "fp8", 0),
    ("DeepSeek-V3, R1", "int4", "2 sockets, 8 x DDR5-4800", 2 * 8 * 38.4, "H100", 3350, "fp8", 0),
    ("Qwen3-235B-A22B", "int4", "1 socket, 8 x DDR5-4800", 8 * 38.4, "RTX 4090", 1008, "bf16", 0),
    ("Qwen3-30B-A3B", "int8", "desktop, 2 x DDR5-6000", 2 * 48.0, "RTX 4090", 1008, "bf16", 0),
]


def memory_table():
    yield "| model | routed experts, GiB | the rest, GiB | KV cache, KiB per token | read per token, GB: experts, the rest |"
    yield "|---|---|---|---|---|"
    for m in MODELS.values():
        forms = [f for f in ("int4", "int8", "fp8", "bf16") if f in (m.published, "int4", "int8")]
        held = ", ".join(f"{m.held(f) / GIB:.0f} {f}" for f in forms)
        rest = ", ".join(f"{m.dense_held(f) / GIB:.0f} {f}" for f in dict.fromkeys((m.dense_format, "int8")))
        yield (f"| {m.name} | {held} | {rest} | {m.kv_bytes / 1024:.0f} | {m.read(forms[0]) / GB:.1f} {forms[0]}, "
               f"{m.dense * BYTES[m.dense_format] / GB:.1f} {m.dense_format} |")


def speed_table():
    yield "| model | experts | memory, GB/s | the rest is on, GB/s | ms: experts + rest | at most, tokens/s |"
    yield "|---|---|---|---|---|---|"
    for name, form, memory, bandwidth, device, fast, dense, share in HOSTS:
        m = MODELS[name]
        experts = m.read(form) * (1 - share) / GB / bandwidth * 1e3
        rest = (m.dense * BYTES[dense] + m.read(form) * share) / GB / fast * 1e3
        yield f"| {name} | {form} | {memory}: {bandwidth:.0f} | {device}: {fast:.0f} | {experts:.1f} + {rest:.1f} | {1e3 / (experts + rest):.0f} |"


if __name__ == "__main__":
    print("\n".join(memory_table()), "\n".join(speed_table()), sep="\n\n")
