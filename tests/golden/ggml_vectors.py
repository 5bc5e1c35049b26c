#!/usr/bin/env python3
"""Writes tests/unit/common/formats/testdata/ggml_blocks.safetensors: blocks of every GGUF format that is read, with the
values that gguf-py's reference dequantisers give for them.

Blocks are random bytes with finite scales of either sign and of every magnitude, denormal ones included, then blocks of
all zeros and all ones. Usage: ggml_vectors.py   (needs tests/requirements.txt)
"""
import os

import gguf
import numpy as np
from safetensors.numpy import save_file

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../unit/common/formats/testdata/ggml_blocks.safetensors")
# Offsets of the fp16 numbers of a block.
HALVES = dict(F16=[0], Q4_0=[0], Q4_1=[0, 2], Q5_0=[0], Q5_1=[0, 2], Q8_0=[0], Q2_K=[80, 82], Q3_K=[108], Q4_K=[0, 2],
              Q5_K=[0, 2], Q6_K=[208], IQ4_NL=[0], IQ4_XS=[0], MXFP4=[], BF16=[], F32=[])
VALUES = 2048


def finite_half(random):
    exponent = int(random.integers(0, 20))  # up to 2^4: 31 means infinity
    return np.uint16(random.integers(0, 2) << 15 | exponent << 10 | random.integers(0, 1024))


def blocks_of(name, random):
    kind = gguf.GGMLQuantizationType[name]
    per_block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (max(VALUES // per_block, 8), size), dtype=np.uint8)
    blocks[-2], blocks[-1] = 0, 255
    if name == "F32":
        blocks = random.standard_normal(len(blocks)).astype(np.float32).view(np.uint8).reshape(-1, 4)
    if name == "BF16":
        blocks[:, 1] &= 0xbf  # below 2: no infinity
    if name == "MXFP4":
        blocks[:, 0] = np.concatenate([[0, 1, 2, 3, 254, 255][:6], random.integers(0, 252, len(blocks) - 6)])
        blocks[4:6, 1:] &= 0x11  # 12 times the largest scales is infinite
    for block in blocks:
        for at in HALVES[name]:
            block[at:at + 2] = np.array([finite_half(random)]).view(np.uint8)
    return kind, blocks


def main():
    random, tensors = np.random.default_rng(4), {}
    for name in HALVES:
        kind, blocks = blocks_of(name, random)
        values = gguf.dequantize(blocks if name != "F32" else blocks.view(np.float32), kind)
        values = np.asarray(values, dtype=np.float32).reshape(len(blocks), -1)
        assert np.isfinite(values).all(), name
        tensors[f"{int(kind):02}.blocks"] = blocks
        tensors[f"{int(kind):02}.values"] = values
    os.makedirs(os.path.dirname(OUT), exist_ok=True)
    save_file(tensors, OUT, metadata=dict(oracle="gguf-py " + __import__("importlib.metadata").metadata.version("gguf")))


if __name__ == "__main__":
    main()
