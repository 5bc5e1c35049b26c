#!/usr/bin/env python3
"""Writes tests/golden/data/nano/expected: the logits that transformers gives for the trained model, deploy/models/nano.

The weights are those of the published INT4 files, dequantised; the rest is as make_checkpoints.py does it for its random
checkpoints. The text is the beginning of a held-out conversation (tests/nano), of 40 in which routing is least near a tie:
a trained model's gate cannot be chosen as a random one's can. Run it after tests/nano/export.py.
"""
import json
import os
import sys

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

import make_checkpoints as golden

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "../../deploy/models/nano")
FOLDER = os.path.join(golden.DATA, "nano", "expected")
sys.path.insert(0, os.path.join(HERE, "../nano"))
import held_out  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402


def unpacked(words, scale):
    """INT4 pack-quantized [rows, cols/8] words and [rows, cols/32] scales -> fp32."""
    nibbles = (words.to(torch.int64)[..., None] >> (4 * torch.arange(8))) & 15
    q = (nibbles - 8).reshape(words.shape[0], -1)
    return q * scale.float().repeat_interleave(32, 1)


def weights():
    """Every weight in fp32, as the published files stand for them."""
    published = {}
    for file in sorted(os.listdir(MODEL)):
        if file.endswith(".safetensors"):
            with safe_open(os.path.join(MODEL, file), "pt") as shard:
                published.update({name: shard.get_tensor(name) for name in shard.keys()})
    out = {name: value.float() for name, value in published.items() if not name.rpartition(".")[2].startswith("weight_")}
    for name, words in published.items():
        if name.endswith(".weight_packed"):
            module = name.removesuffix(".weight_packed")
            out[module + ".weight"] = unpacked(words, published[module + ".weight_scale"])
    return out


def main():
    torch.set_num_threads(1)
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as f:
        config = {k: v for k, v in json.load(f).items() if k not in ("architectures", "quantization_config", "model_type", "torch_dtype", "num_key_value_heads")}
    spec, exact = dict(family="mla", config=config), weights()
    model, tokenizer = golden.reference(spec, exact), Tokenizer.load(os.path.join(MODEL, "tiktoken.model"))
    texts = [torch.tensor(tokenizer.encode("".join(part["text"] for part in parts))[:golden.TOKENS]) for parts in held_out.documents(40)]
    ids = max((t for t in texts if len(t) == golden.TOKENS), key=lambda t: golden.routing_margins(model, spec, t)[0])
    margin, logits_fp32 = golden.routing_margins(model, spec, ids)
    with golden.double_precision():
        model = golden.reference(spec, {k: v.double() for k, v in exact.items()})
        logits = golden.logits_with(model, ids)
        engine, tolerance = golden.engine_logits(model, ids)
        all_bf16 = golden.logits_with(model, ids, matrix_inputs=golden.bf16, cache=golden.bf16)
    os.makedirs(FOLDER, exist_ok=True)
    save_file({"input_ids": ids.to(torch.int32), "logits": logits.to(torch.float32).contiguous(),
               "logits_bf16_cache": engine.to(torch.float32).contiguous()}, os.path.join(FOLDER, "expected.safetensors"))
    far = lambda other: (other - logits).abs().max().item()
    meta = dict(torch=torch.__version__, transformers=transformers.__version__, routing_margin=margin, logit_max=logits.abs().max().item(),
                fp32_error_max=far(logits_fp32), bf16_cache_error_max=far(engine), bf16_rounding_max=far(all_bf16), fp32_tolerance=tolerance)
    golden.dump(os.path.join(FOLDER, "meta.json"), meta)
    print(*(f"{k} {v:.3g}" for k, v in meta.items() if isinstance(v, float)))


if __name__ == "__main__":
    main()
