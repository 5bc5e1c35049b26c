"""Teacher-forced exact match on held-out conversations: true where greedy decoding gives the reference, end token included."""
import random

import numpy as np
import torch
from torch import Tensor

import data
from model import BF16, TIE, Groups, Nano, dequantise, quantise
from tokenizer import Tokenizer

Example = tuple[list[int], list[int]]
Batch = tuple[Tensor, Groups, Tensor, Tensor, np.ndarray]


def pack(block: list[Example]) -> Batch:
    """(tokens, groups, positions to predict at, their targets, the example each belongs to), padded to one length."""
    length = -(-max(len(ids) for ids, _ in block) // 8) * 8
    ids, said = np.zeros((len(block), length), np.int64), np.zeros((len(block), length), bool)
    for i, (a, m) in enumerate(block):
        ids[i, :len(a)], said[i, :len(a)] = a, m
    at = np.nonzero(said[:, 1:])
    return (torch.from_numpy(ids.reshape(-1)), [(len(block), length)], torch.from_numpy(at[0] * length + at[1]),
            torch.from_numpy(ids[at[0], at[1] + 1]), at[0])


def held_out_examples(tokenizer: Tokenizer, count: int, seed: int = 4242) -> dict[str, list[Example]]:
    out = {}
    for name in (*data.SHARES, "recall_far"):
        r = random.Random(seed)
        task, far = ("recall", 1100) if name == "recall_far" else (name, 0)
        out[name] = [data.encode(tokenizer, data.compose(r, task, far)) for _ in range(count if not far else count // 6)]
    return out


@torch.no_grad()
def evaluate(model: Nano, examples: dict[str, list[Example]], show: Tokenizer | None = None) -> tuple[dict[str, float], Tensor]:
    """(share of conversations whose every answer is right, expert usage per layer); `show` prints some misses."""
    scores, usage = {}, torch.zeros(len(model.moe), model.c.experts)
    for name, items in examples.items():
        items, right, shown = sorted(items, key=lambda e: len(e[0])), 0, 0
        chunk = 4 if name == "recall_far" else 25
        for i in range(0, len(items), chunk):
            tokens, groups, wanted, targets, owner = pack(items[i:i + chunk])
            says = model(tokens, groups, wanted).argmax(-1)
            hit = (says == targets).numpy()
            good = np.ones(groups[0][0], bool)
            np.logical_and.at(good, owner, hit)
            right += int(good.sum())
            usage += torch.stack([m.usage for m in model.moe])
            for k in np.nonzero(~good)[0][:2] if show and shown < 8 else []:
                shown += 1
                print("MISS", name, repr(show.decode(items[i + k][0])[-330:]), "\n     ->", repr(show.decode(says[torch.from_numpy(np.nonzero(owner == k)[0])].tolist())))
        scores[name] = round(right / len(items), 4)
    return scores, usage


def rounded(model: Nano) -> Nano:
    """A copy with the values of the exported checkpoint: routed experts in INT4, the rest in BF16."""
    copy = Nano(model.c)
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        copy.head.copy_(model.output().to(BF16).float() - TIE * model.embed.to(BF16).float())
        for name, p in copy.named_parameters():
            if name != "head":
                p.copy_(dequantise(*quantise(p)) if p.dim() == 3 else p.to(BF16).float())
    return copy


if __name__ == "__main__":
    import sys

    from model import Config

    torch.set_num_threads(1)
    saved = torch.load(sys.argv[1])
    nano = Nano(Config(**saved["config"]))
    nano.load_state_dict(saved["model"])
    tok = Tokenizer.load()
    cases = held_out_examples(tok, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
    print("FP32", evaluate(nano, cases, tok)[0])
    print("INT4", evaluate(rounded(nano), cases)[0])
