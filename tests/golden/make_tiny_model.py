#!/usr/bin/env python3
"""Writes tests/golden/data/tiny-chat: a random checkpoint with everything that a published K2-Thinking checkpoint has.

INT4 experts that two workers can split, a tiktoken.model of 512 ranks, Kimi's control tokens by name, a chat template and
generation defaults, and expected logits as every other folder. Its text is gibberish; it exists for servers to run on.
chat_template.jinja in that folder is written by hand.
Rows of the head are zero for tokens that should not be printed (reserved ids, single bytes that are not text), so that sampling
hardly ever selects them. Usage: make_tiny_model.py   (needs tests/requirements.txt)
"""
import base64
import os

import torch

import make_checkpoints
from tokenizer_vectors import train_ranks

FOLDER = os.path.join(make_checkpoints.DATA, "tiny-chat")
RANKS, RESERVED = 512, 256
# The offsets after the last rank are those of the published configuration; only these ids have names.
SPECIAL = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 6: "<|start_header_id|>",
           7: "<|end_header_id|>", 9: "[EOT]", 10: "<|im_system|>", 17: "<|im_middle|>", 18: "<|media_begin|>",
           19: "<|media_content|>", 20: "<|media_end|>", 21: "<|media_pad|>", 254: "[UNK]", 255: "[PAD]"}
CONTENT = {11: "<|tool_calls_section_begin|>", 12: "<|tool_calls_section_end|>", 13: "<|tool_call_begin|>",
           14: "<|tool_call_argument_begin|>", 15: "<|tool_call_end|>", 22: "<think>", 23: "</think>"}
IM_END = RANKS + 2
CORPUS = """\
The worker reads the experts of its node, and the coordinator adds the sums. A token goes through attention, the gate and
the experts, and comes back as a word. What is the answer? It's the one you'd expect: 12, 345 or 6789.
The memory of a server is larger than that of its accelerator, so the experts stay there and only the tokens travel.
Hello, world! Please tell me about the weather in Paris. I don't know, but I'll ask the tool: {"city": "Paris"}.
if (worker.ready()) { return worker.send(tokens); }
你好，世界！今天的天气怎么样？很好。 Grüße, naïve café, résumé.
"""


def adjust(seen):
    def change(name, value):
        if name != "lm_head":
            return value
        keep = torch.zeros(len(value))
        keep[[i for i, token in enumerate(seen) if len(token) > 1 or 32 <= token[0] < 127 or token == b"\n"]] = 1
        keep[IM_END] = 1
        return 3 * value * keep[:, None]
    return change


def main():
    ranks = train_ranks([CORPUS], RANKS)
    assert len(ranks) == RANKS, len(ranks)
    tokens = sorted(ranks, key=ranks.get)
    config = dict(make_checkpoints.MLA, model_type="kimi_k2", vocab_size=RANKS + RESERVED, hidden_size=64, q_lora_rank=32,
                  qk_rope_head_dim=32, intermediate_size=128, rope_theta=50000.0, max_position_embeddings=2048,
                  rope_scaling=dict(make_checkpoints.yarn(1, 1), original_max_position_embeddings=512),
                  bos_token_id=RANKS, eos_token_id=IM_END, pad_token_id=RANKS + RESERVED - 1, torch_dtype="bfloat16",
                  quantization_config=make_checkpoints.INT4)
    make_checkpoints.write("tiny-chat", dict(family="mla", config=config, experts="int4", dense="bf16", adjust=adjust(tokens)))
    with open(os.path.join(FOLDER, "tiktoken.model"), "w", encoding="ascii") as f:
        f.writelines(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
    plain = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    added = {offset: dict(content=name, **plain, special=offset in SPECIAL) for offset, name in (SPECIAL | CONTENT).items()}
    make_checkpoints.dump(os.path.join(FOLDER, "tokenizer_config.json"), dict(
        added_tokens_decoder={str(RANKS + offset): added[offset] for offset in sorted(added)}, bos_token="[BOS]",
        eos_token="[EOS]", pad_token="[PAD]", unk_token="[UNK]", tokenizer_class="TikTokenTokenizer",
        model_max_length=config["max_position_embeddings"]))
    make_checkpoints.dump(os.path.join(FOLDER, "generation_config.json"),
                          dict(eos_token_id=IM_END, max_length=config["max_position_embeddings"], temperature=1.0))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
