"""Muon for matrices and Adam for the rest, with the work shared between processes.

Parameters, gradients and moments are in shared memory. After the backward passes every process sums the gradients of its own
share of the parameters and updates those in place. No copy is sent, and a process waits only at two barriers per step.
"""
import math

import torch
from torch import Tensor

from model import BF16, Nano


def orthogonal(g: Tensor) -> Tensor:
    """Newton-Schulz iteration of Muon, https://kellerjordan.github.io/posts/muon/."""
    x = g if g.dim() == 3 else g[None]
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(BF16).contiguous()
    for _ in range(5):
        a = torch.bmm(x, x.transpose(-1, -2))
        x = 3.4445 * x + torch.bmm(-4.775 * a + 2.0315 * torch.bmm(a, a), x)
    return (x.transpose(-1, -2) if tall else x).reshape(g.shape).float()


class Optimiser:
    """`ranks` processes use one Optimiser made before they start."""

    def __init__(self, model: Nano, ranks: int) -> None:
        self.named = [(n, p) for n, p in model.named_parameters()]
        is_matrix = lambda n, p: p.dim() >= 2 and n not in ("embed", "head") and not n.endswith("mlp.gate")
        self.muon = {n for n, p in self.named if is_matrix(n, p)}
        shared = lambda p: torch.zeros_like(p.data).share_memory_()
        self.grads = [{n: shared(p) for n, p in self.named} for _ in range(ranks)]
        self.first = {n: shared(p) for n, p in self.named}
        self.second = {n: shared(p) for n, p in self.named if n not in self.muon}
        self.owner: dict[str, int] = {}
        load = [0.0] * ranks
        cost = lambda n, p: p.numel() * (min(p.shape[-2:]) / 8 + 6 if n in self.muon else 6)
        for n, p in sorted(self.named, key=lambda item: -cost(*item)):
            rank = load.index(min(load))
            self.owner[n] = rank
            load[rank] += cost(n, p)

    def attach(self, model: Nano, rank: int) -> None:
        """Backward writes into this rank's shared gradients."""
        for n, p in model.named_parameters():
            p.grad = self.grads[rank][n]

    @torch.no_grad()
    def step(self, rank: int, model: Nano, rate: float, step: int, weights: Tensor) -> None:
        """Updates this rank's share; `weights`: the share of every rank in the mean loss."""
        for n, p in model.named_parameters():
            if self.owner[n] != rank:
                continue
            g = self.grads[0][n] * weights[0]
            for other in range(1, len(self.grads)):
                g.add_(self.grads[other][n], alpha=float(weights[other]))
            m = self.first[n]
            if n in self.muon:
                m.mul_(0.95).add_(g)
                p.mul_(1 - rate * 0.05).add_(orthogonal(g.add_(m, alpha=0.95)), alpha=-rate * 0.2 * math.sqrt(max(p.shape[-2:])))
            else:
                v = self.second[n]
                m.lerp_(g, 0.1)
                v.mul_(0.95).addcmul_(g, g, value=0.05)
                bias1, bias2 = 1 - 0.9**step, 1 - 0.95**step
                p.mul_(1 - rate * 0.01).addcdiv_(m, (v / bias2).sqrt_().add_(1e-8), value=-rate / bias1)

    def state(self) -> dict[str, dict[str, Tensor]]:
        return dict(first=self.first, second=self.second)

    def load(self, state: dict[str, dict[str, Tensor]]) -> None:
        for mine, theirs in ((self.first, state["first"]), (self.second, state["second"])):
            for n, t in theirs.items():
                mine[n].copy_(t)
