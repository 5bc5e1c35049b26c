"""nano in PyTorch for training on a CPU: DeepSeek-V3's architecture (MLA, noaux_tc routing), BF16 products, FP32 weights.

The tokens of all sequences are in one row of `tokens`; `groups` says how it is divided: into blocks of (sequences, length), one
after the other. Experts are stored [expert, in, out]. No token is dropped, because every expert's bucket is as long as the busiest one.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BF16 = torch.bfloat16
TIE = 0.05
Groups = list[tuple[int, int]]


@dataclass
class Config:
    vocab: int = 2560
    hidden: int = 256
    layers: int = 5
    heads: int = 4
    q_lora: int = 128
    kv_lora: int = 128
    nope: int = 32
    rope: int = 32
    value: int = 64
    dense: int = 512
    experts: int = 32
    top_k: int = 4
    width: int = 64  # of one expert
    scaling: float = 2.5  # routed_scaling_factor
    eps: float = 1e-6
    theta: float = 10000.0
    trained_length: int = 1024  # YaRN stretches this `factor` times
    factor: float = 4.0
    beta_fast: float = 1.0
    beta_slow: float = 1.0

    @property
    def softmax_scale(self) -> float:
        m = 0.1 * math.log(self.factor) + 1.0  # mscale_all_dim 1
        return (self.nope + self.rope) ** -0.5 * m * m

    def frequencies(self) -> Tensor:
        """YaRN: low frequencies are slowed down by `factor`, high ones stay."""
        half = self.rope // 2
        plain = self.theta ** (-torch.arange(half, dtype=torch.float64) * 2 / self.rope)

        def at(rotations: float) -> float:
            return self.rope * math.log(self.trained_length / (rotations * 2 * math.pi)) / (2 * math.log(self.theta))

        low, high = max(math.floor(at(self.beta_fast)), 0), min(math.ceil(at(self.beta_slow)), self.rope - 1)
        ramp = ((torch.arange(half) - low) / max(high - low, 1e-3)).clamp(0, 1)
        return plain / self.factor * ramp + plain * (1 - ramp)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def quantise(w: Tensor) -> tuple[Tensor, Tensor]:
    """INT4 in groups of 32 along the inputs (dim -2) -> (integers, BF16 scales), as the checkpoint stores them."""
    *head, rows, cols = w.shape
    grouped = w.reshape(*head, rows // 32, 32, cols)
    scale = (grouped.abs().amax(-2, keepdim=True) / 7).clamp(min=1e-8).to(BF16)
    return (grouped / scale.float()).round().clamp(-8, 7).reshape(w.shape), scale.squeeze(-2)


def dequantise(q: Tensor, scale: Tensor) -> Tensor:
    return q * scale.float().repeat_interleave(32, -2)


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w: Tensor) -> Tensor:  # noqa: ANN001
        return dequantise(*quantise(w)).to(BF16)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:  # noqa: ANN001
        return grad.float()


class _ToBuckets(torch.autograd.Function):
    """Rows of x into the experts' buckets; the gradient is a gather as well (index_add is slow on CPUs)."""

    @staticmethod
    def forward(ctx, x: Tensor, token: Tensor, place: Tensor, k: int) -> Tensor:  # noqa: ANN001
        ctx.save_for_backward(place)
        ctx.k = k
        return x.index_select(0, token)

    @staticmethod
    def backward(ctx, grad: Tensor):  # noqa: ANN001, ANN205
        (place,) = ctx.saved_tensors
        return grad.index_select(0, place).view(-1, ctx.k, grad.shape[-1]).sum(1), None, None, None


class _FromBuckets(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y: Tensor, token: Tensor, place: Tensor, k: int, used: Tensor) -> Tensor:  # noqa: ANN001
        ctx.save_for_backward(token, used)
        return y.index_select(0, place).view(-1, k, y.shape[-1]).sum(1)

    @staticmethod
    def backward(ctx, grad: Tensor):  # noqa: ANN001, ANN205
        token, used = ctx.saved_tensors
        return grad.index_select(0, token) * used, None, None, None, None


class _SwiGlu(torch.autograd.Function):
    """silu(a) * b of packed [a | b], times a weight per row."""

    @staticmethod
    def forward(ctx, packed: Tensor, weight: Tensor | None) -> Tensor:  # noqa: ANN001
        a, b = (t.contiguous() for t in packed.chunk(2, -1))
        gate = a.sigmoid()
        silu = a * gate
        ctx.save_for_backward(gate, silu, b, weight)
        y = silu * b
        return y if weight is None else y * weight

    @staticmethod
    def backward(ctx, grad: Tensor):  # noqa: ANN001, ANN205
        gate, silu, b, weight = ctx.saved_tensors
        of_weight = None
        if weight is not None:
            of_weight = (grad * silu * b).sum(-1, keepdim=True)
            grad = grad * weight
        return torch.cat([grad * b * (gate + silu - silu * gate), grad * silu], -1), of_weight


def _matrix(out: int, inner: int, gain: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.randn(out, inner) * gain / math.sqrt(inner))


def _linear(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w.to(BF16))


class Attention(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.q_a, self.q_norm = _matrix(c.q_lora, c.hidden), nn.Parameter(torch.ones(c.q_lora))
        self.q_b = _matrix(c.heads * (c.nope + c.rope), c.q_lora, 0.7)
        self.kv_a, self.kv_norm = _matrix(c.kv_lora + c.rope, c.hidden, 0.7), nn.Parameter(torch.ones(c.kv_lora))
        self.kv_b = _matrix(c.heads * (c.nope + c.value), c.kv_lora, 0.7)
        self.out = _matrix(c.hidden, c.heads * c.value, 0.7 / math.sqrt(2 * c.layers))

    def forward(self, x: Tensor, groups: Groups, cos: Tensor, sin: Tensor) -> Tensor:
        c = self.c
        q = _linear(rms_norm(_linear(x, self.q_a).float(), self.q_norm, c.eps).to(BF16), self.q_b).view(-1, c.heads, c.nope + c.rope)
        kv = _linear(x, self.kv_a)
        k_rope = kv[:, c.kv_lora:]
        kv = _linear(rms_norm(kv[:, :c.kv_lora].float(), self.kv_norm, c.eps).to(BF16), self.kv_b).view(-1, c.heads, c.nope + c.value)
        outs, start = [], 0
        for rows, length in groups:
            span = slice(start, start + rows * length)
            start += rows * length
            turn = lambda t: self._rotate(t, cos[:length], sin[:length])
            qs, ks = (t[span].view(rows, length, c.heads, -1).transpose(1, 2) for t in (q, kv))
            ropes = turn(k_rope[span].view(rows, 1, length, -1)).expand(-1, c.heads, -1, -1)
            q_all, k_all = torch.cat([qs[..., :c.nope], turn(qs[..., c.nope:])], -1), torch.cat([ks[..., :c.nope], ropes], -1)
            y = self._attend(q_all, k_all, ks[..., c.nope:])
            outs.append(y.transpose(1, 2).reshape(rows * length, -1))
        return _linear(torch.cat(outs), self.out)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        length = q.shape[2]
        if length > 600:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.c.softmax_scale)
        flat = lambda t: t.reshape(-1, length, t.shape[-1])  # on CPUs much faster than the fused kernel's backward pass
        future = torch.full((length, length), float("-inf"), dtype=BF16).triu(1)
        scores = torch.baddbmm(future, flat(q), flat(k).transpose(1, 2), alpha=self.c.softmax_scale)
        return torch.bmm(scores.softmax(-1, dtype=torch.float32).to(BF16), flat(v)).view(v.shape)

    @staticmethod
    def _rotate(t: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        even, odd = t[..., 0::2], t[..., 1::2]
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], -1)  # the order does not matter to q.k


class Mlp(nn.Module):
    def __init__(self, c: Config, width: int) -> None:
        super().__init__()
        self.gate_up = _matrix(2 * width, c.hidden)
        self.down = _matrix(c.hidden, width, 1 / math.sqrt(2 * c.layers))

    def forward(self, x: Tensor) -> Tensor:
        return _linear(_SwiGlu.apply(_linear(x, self.gate_up), None), self.down)


class Experts(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.gate = _matrix(c.experts, c.hidden)
        self.register_buffer("bias", torch.zeros(c.experts))  # e_score_correction_bias
        self.gate_up = nn.Parameter(torch.randn(c.experts, c.hidden, 2 * c.width) / math.sqrt(c.hidden))
        self.down = nn.Parameter(torch.randn(c.experts, c.width, c.hidden) / math.sqrt(c.width * 2 * c.layers) * 2 / c.scaling)
        self.shared = Mlp(c, c.width)
        self.quantised = False  # train through INT4
        self.usage = torch.zeros(c.experts)  # tokens each expert got in the last pass

    def forward(self, x: Tensor, exact: Tensor) -> Tensor:
        c, n = self.c, x.shape[0]
        scores = F.linear(exact, self.gate).sigmoid()
        with torch.no_grad():
            chosen = (scores + self.bias).topk(c.top_k, -1, sorted=False)[1]
            flat = chosen.reshape(-1)
            self.usage = torch.bincount(flat, minlength=c.experts)
            room = (int(self.usage.max()) + 15) // 16 * 16
            order = flat.argsort(stable=True)
            expert = flat[order]
            slot = expert * room + torch.arange(n * c.top_k) - (self.usage.cumsum(0) - self.usage)[expert]
            place = torch.empty(n * c.top_k, dtype=torch.long)
            place[order] = slot
            token = torch.zeros(c.experts * room, dtype=torch.long)
            token[slot] = order // c.top_k
            choice = torch.full((c.experts * room,), n * c.top_k, dtype=torch.long)
            choice[slot] = order
            used = torch.zeros(c.experts * room, 1, dtype=BF16)
            used[slot] = 1
        weight = scores.gather(1, chosen)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * c.scaling
        weight = torch.cat([weight.reshape(-1), weight.new_zeros(1)]).index_select(0, choice).view(c.experts, room, 1).to(BF16)
        held = (lambda w: _StraightThrough.apply(w)) if self.quantised else (lambda w: w.to(BF16))
        inside = torch.bmm(_ToBuckets.apply(x, token, place, c.top_k).view(c.experts, room, -1), held(self.gate_up))
        y = torch.bmm(_SwiGlu.apply(inside, weight), held(self.down))
        return _FromBuckets.apply(y.view(c.experts * room, -1), token, place, c.top_k, used) + self.shared(x)


class Layer(nn.Module):
    def __init__(self, c: Config, index: int) -> None:
        super().__init__()
        self.c = c
        self.norm1, self.norm2 = nn.Parameter(torch.ones(c.hidden)), nn.Parameter(torch.ones(c.hidden))
        self.attention = Attention(c)
        self.mlp = Experts(c) if index else Mlp(c, c.dense)

    def forward(self, x: Tensor, groups: Groups, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(rms_norm(x, self.norm1, self.c.eps).to(BF16), groups, cos, sin)
        exact = rms_norm(x, self.norm2, self.c.eps)
        return x + (self.mlp(exact.to(BF16), exact) if isinstance(self.mlp, Experts) else self.mlp(exact.to(BF16)))


class Nano(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.embed = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.5)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.hidden))
        self.head = nn.Parameter(torch.randn(c.vocab, c.hidden) * 0.02)
        angles = torch.arange(int(c.trained_length * c.factor))[:, None] * c.frequencies()
        self.cos, self.sin = angles.cos().to(BF16), angles.sin().to(BF16)

    def forward(self, tokens: Tensor, groups: Groups, wanted: Tensor) -> Tensor:
        """Logits at the positions `wanted` of the row of tokens."""
        x = F.embedding(tokens, self.embed)
        for layer in self.layers:
            x = layer(x, groups, self.cos, self.sin)
        return _linear(rms_norm(x.index_select(0, wanted), self.norm, self.c.eps).to(BF16), self.output()).float()

    def output(self) -> Tensor:
        """The head as published. It is half tied: what attention copies is then readable even for tokens rarely seen as answers."""
        return self.head + TIE * self.embed

    @property
    def moe(self) -> list[Experts]:
        return [layer.mlp for layer in self.layers if isinstance(layer.mlp, Experts)]
