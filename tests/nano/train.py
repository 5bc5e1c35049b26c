"""Trains nano: Muon for matrices, Adam for the rest, a constant rate and then a linear decay, INT4 in the loop at the end.

`python train.py --minutes 60` writes WORK/nano.pt every few minutes. `--resume` continues from the last checkpoint; `--init FILE`
starts a new schedule from a checkpoint; `--decay 0` keeps the rate constant, so that training can be continued. Each process has one
thread and works on its own part of a batch; that waits less than threads do, and suffers less on a busy machine.
"""
import argparse
import json
import os
import random
import time
from collections.abc import Iterator

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F

import data
from evaluate import Batch, Example, evaluate, held_out_examples, pack, rounded
from model import Config, Nano
from optimiser import Optimiser
from tokenizer import WORK, Tokenizer

State = dict[str, float]


def batches(tokenizer: Tokenizer, seed: int, size: int, long_share: float) -> Iterator[Batch]:
    """Blocks of about `size` tokens, of conversations of like lengths."""
    r, stream, ready = random.Random(seed), data.conversations(seed, long_share=long_share), []
    while True:
        if not ready:
            pool = sorted((e for e in (data.encode(tokenizer, next(stream)) for _ in range(512)) if len(e[0]) < 3000), key=lambda e: len(e[0]))
            block: list[Example] = []
            for example in pool:
                if block and (len(block) + 1) * len(example[0]) > size:
                    ready.append(block)
                    block = []
                block.append(example)
            ready.append(block)
            r.shuffle(ready)
        yield pack(ready.pop())


def save(path: str, model: Nano, optimiser: Optimiser, state: State) -> None:
    torch.save(dict(config=vars(model.c), model=model.state_dict(), optimiser=optimiser.state(), state=dict(state)), path + ".new")
    os.replace(path + ".new", path)


def work(rank: int, a: argparse.Namespace, model: Nano, optimiser: Optimiser, state: State, shared: dict[str, torch.Tensor], barrier: mp.Barrier) -> None:
    """One process: its part of every batch, its share of the parameters. Rank 0 keeps the time, saves and reports."""
    torch.set_num_threads(1)
    optimiser.attach(model, rank)
    tokenizer = Tokenizer.load()
    first = int(state["steps"])
    stream = batches(tokenizer, (a.seed * 7919 + first) * 64 + rank, a.tokens // a.ranks, a.long)
    total, began, saved, mean = a.minutes * 60, time.time() - state["schedule"], time.time(), 0.0
    step, rate, progress = first, shared["rate"], shared["progress"]
    while True:
        if rank == 0:
            progress.fill_((time.time() - began) / total)
            fall = min(1.0, max(0.01, float(1 - progress) / a.decay)) if a.decay else 1.0
            rate.fill_(min(1.0, (step - first + 1) / 50) * fall)
        tokens, groups, wanted, targets, _ = next(stream)
        for grad in optimiser.grads[rank].values():
            grad.zero_()
        quantised = float(progress) > 1 - a.int4
        for layer in model.moe:
            layer.quantised = quantised
        logits = model(tokens, groups, wanted)
        loss = F.cross_entropy(logits, targets)
        (loss + 1e-4 * torch.logsumexp(logits, -1).pow(2).mean()).backward()
        for i, layer in enumerate(model.moe):
            shared["usage"][rank, i] = layer.usage
        shared["weight"][rank], shared["loss"][rank], shared["tokens"][rank] = len(targets), loss.item(), tokens.numel()
        barrier.wait()
        factor, done = float(rate), float(progress) >= 1
        step += 1
        weights = shared["weight"] / shared["weight"].sum()
        optimiser.step(rank, model, a.rate * factor, step, weights)
        if rank == 0:
            pace = 0.02 if step < 80 else 0.01 if step < 150 else 6e-3 * max(factor, 0.1)
            load = shared["usage"].sum(0)
            for i, layer in enumerate(model.moe):  # no auxiliary loss: the bias follows the load
                layer.bias += pace * torch.sign(load[i].mean() - load[i])
            state["steps"], state["tokens"] = step, state["tokens"] + int(shared["tokens"].sum())
            now, current = float((shared["loss"] * weights).sum()), time.time()
            mean = now if not mean else 0.97 * mean + 0.03 * now
            if step % 100 == 0:
                busiest = [round(float(x.max() / x.mean()), 2) for x in load]
                print(f"step {step} t {current - began:.0f}s tokens {state['tokens'] / 1e6:.2f}M rate {factor:.3f} loss {mean:.4f} busiest/mean {busiest}", flush=True)
            if current - saved > 120:
                saved, state["schedule"] = current, current - began
                save(a.out, model, optimiser, state)
        barrier.wait()
        if done:
            break
    if rank == 0:
        state["schedule"], state["seconds"] = total, state["seconds"] + total
        save(a.out, model, optimiser, state)


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--minutes", type=float, default=60)
    args.add_argument("--decay", type=float, default=0.4, help="share of the time in which the rate falls to 0")
    args.add_argument("--int4", type=float, default=0.15, help="share of the time, at the end, with experts rounded to INT4")
    args.add_argument("--rate", type=float, default=2e-3)
    args.add_argument("--tokens", type=int, default=8192, help="per step")
    args.add_argument("--layers", type=int, default=5)
    args.add_argument("--long", type=float, default=0.05, help="share of recall conversations of hundreds to thousands of words")
    args.add_argument("--ranks", type=int, default=4, help="processes")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--out", default=os.path.join(WORK, "nano.pt"))
    args.add_argument("--init", default="")
    args.add_argument("--resume", action="store_true")
    a = args.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.load()
    source = torch.load(a.out if a.resume else a.init) if a.resume or a.init else None
    model = Nano(Config(**source["config"]) if source else Config(vocab=tokenizer.size, layers=a.layers)).share_memory()
    optimiser = Optimiser(model, a.ranks)
    state: State = dict(steps=0, tokens=0, seconds=0.0, schedule=0.0)
    if source:
        model.load_state_dict(source["model"])
        optimiser.load(source["optimiser"])
        state = dict(source["state"], schedule=source["state"]["schedule"] if a.resume else 0.0)
    print("parameters", sum(p.numel() for p in model.parameters()), json.dumps(vars(a)), flush=True)
    zeros = lambda *shape: torch.zeros(*shape).share_memory_()
    shared = dict(usage=zeros(a.ranks, len(model.moe), model.c.experts), rate=zeros(1), progress=zeros(1), weight=zeros(a.ranks), loss=zeros(a.ranks),
                  tokens=zeros(a.ranks))
    context = mp.get_context("fork")
    barrier = context.Barrier(a.ranks)
    workers = [context.Process(target=work, args=(rank, a, model, optimiser, state, shared, barrier)) for rank in range(a.ranks)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    torch.set_num_threads(a.ranks)
    examples = held_out_examples(tokenizer, 200)
    print("FP32", evaluate(model, examples)[0], flush=True)
    scores, usage = evaluate(rounded(model), examples)
    print("INT4", scores, flush=True)
    for layer, counts in enumerate(usage, 1):
        print(f"layer {layer} usage/mean, sorted:", " ".join(f"{s:.2f}" for s in sorted((counts / counts.mean()).tolist())))


if __name__ == "__main__":
    main()
