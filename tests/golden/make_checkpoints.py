#!/usr/bin/env python3
"""Writes the tiny random checkpoints of tests/golden/data and the logits that transformers gives for them.

Each folder is a published-format checkpoint plus expected/expected.safetensors, from the reference implementation on the
*dequantised* weights in fp64: input_ids [T], logits [T, vocab], and logits_bf16_cache [T, vocab], the same with the only
roundings that our engine makes and the reference does not. README.md says what each checkpoint covers and what the
numbers in expected/meta.json mean. The same versions give the same bytes.

Usage: make_checkpoints.py [NAME...]   (needs torch, transformers, safetensors; see tests/requirements.txt)
"""
import contextlib
import json
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.qwen3_moe import modeling_qwen3_moe

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
TOKENS = 48
MARGIN_MIN = 2e-2

MLA = dict(vocab_size=256, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, q_lora_rank=64, kv_lora_rank=64,
           qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, intermediate_size=192, moe_intermediate_size=64,
           n_routed_experts=16, num_experts_per_tok=4, n_shared_experts=1, first_k_dense_replace=1, moe_layer_freq=1,
           n_group=1, topk_group=1, scoring_func="sigmoid", topk_method="noaux_tc", norm_topk_prob=True,
           routed_scaling_factor=2.5, rms_norm_eps=1e-5, rope_theta=50.0, max_position_embeddings=64,
           hidden_act="silu", attention_bias=False, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1)
GQA = dict(vocab_size=256, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
           intermediate_size=192, moe_intermediate_size=64, num_experts=16, num_experts_per_tok=4, norm_topk_prob=True,
           decoder_sparse_step=1, mlp_only_layers=[], rms_norm_eps=1e-6, rope_theta=1000000.0,
           max_position_embeddings=64, hidden_act="silu", attention_bias=False, tie_word_embeddings=False,
           use_sliding_window=False, bos_token_id=0, eos_token_id=1)


def yarn(beta_fast, beta_slow, mscale_all_dim=1.0):
    """16 original positions. With theta 50 the ramp of betas 32/1 spans pairs 0 to 2, that of 1/1 pairs 1 to 2."""
    return dict(type="yarn", factor=4.0, beta_fast=beta_fast, beta_slow=beta_slow, mscale=1.0,
                mscale_all_dim=mscale_all_dim, original_max_position_embeddings=16)


INT4 = dict(quant_method="compressed-tensors", format="pack-quantized", quantization_status="compressed",
            config_groups=dict(group_0=dict(targets=["Linear"], input_activations=None, output_activations=None,
                                            weights=dict(num_bits=4, type="int", symmetric=True, strategy="group",
                                                         group_size=32, dynamic=False, actorder=None))),
            ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"])
FP8 = dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128])

SPECS = {
    "deepseek-v3-bf16": dict(family="mla", config=dict(MLA, model_type="deepseek_v3", hidden_size=96,
                                                       n_routed_experts=12, n_group=4,
                                                       topk_group=2, num_nextn_predict_layers=1,
                                                       rope_scaling=yarn(32, 1, 0.7), torch_dtype="bfloat16"),
                             experts="bf16", dense="bf16", shards=["model-a.safetensors", "model-b.safetensors"],
                             extra={"model.layers.3.eh_proj.weight": (16, 32), "model.layers.3.enorm.weight": (16,)}),
    "kimi-k2-fp8": dict(family="mla", config=dict(MLA, model_type="kimi_k2", hidden_size=192, moe_intermediate_size=256,
                                                  n_routed_experts=8, num_experts_per_tok=2, num_hidden_layers=2,
                                                  rope_scaling=yarn(1, 1), torch_dtype="bfloat16",
                                                  quantization_config=FP8), experts="fp8", dense="fp8",
                        extra={"model.layers.1.self_attn.rotary_emb.inv_freq": (7,)}),
    "kimi-k2-thinking-int4": dict(family="mla", config=dict(MLA, model_type="kimi_k2", rope_scaling=yarn(1, 1),
                                                            torch_dtype="bfloat16", quantization_config=INT4),
                                  experts="int4", dense="bf16", shape_dtype=torch.int64, seed=2,
                                  shards=["model-00001-of-000002.safetensors", "model-00002-of-000002.safetensors"]),
    "kimi-k25-int4": dict(family="mla", prefix="language_model.",
                          config=dict(MLA, model_type="kimi_k2", rope_scaling=yarn(32, 1), dtype="bfloat16",
                                      quantization_config=INT4), experts="int4", dense="bf16",
                          extra={"vision_tower.patch_embed.proj.weight": (8, 3, 2, 2), "mm_projector.pre_norm.weight": (8,)}),
    "qwen3-moe-bf16": dict(family="gqa", config=dict(GQA, model_type="qwen3_moe", num_hidden_layers=2, num_experts=12,
                                                     torch_dtype="bfloat16"),
                           experts="bf16", dense="bf16"),
    "qwen3-moe-fp8": dict(family="gqa", config=dict(GQA, model_type="qwen3_moe", hidden_size=192,
                                                    moe_intermediate_size=256, num_experts=5, num_experts_per_tok=2,
                                                    num_hidden_layers=2, dtype="bfloat16", quantization_config=FP8),
                          experts="fp8", dense="fp8", fp8_scale=torch.bfloat16),
}


def published_names(spec):
    """name -> (shape, kind) of every tensor; kind: norm, plain, dense, expert, gate, bias."""
    c, names = spec["config"], {}
    h, v = c["hidden_size"], c["vocab_size"]
    names["model.embed_tokens"] = ((v, h), "plain")
    names["lm_head"] = ((v, h), "plain")
    names["model.norm"] = ((h,), "norm")
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        names[p + "input_layernorm"] = names[p + "post_attention_layernorm"] = ((h,), "norm")
        a, heads = p + "self_attn.", c["num_attention_heads"]
        if spec["family"] == "mla":
            q, kv, rope = c["q_lora_rank"], c["kv_lora_rank"], c["qk_rope_head_dim"]
            nope, value = c["qk_nope_head_dim"], c["v_head_dim"]
            names[a + "q_a_proj"] = ((q, h), "dense")
            names[a + "q_a_layernorm"] = ((q,), "norm")
            names[a + "q_b_proj"] = ((heads * (nope + rope), q), "dense")
            names[a + "kv_a_proj_with_mqa"] = ((kv + rope, h), "dense")
            names[a + "kv_a_layernorm"] = ((kv,), "norm")
            names[a + "kv_b_proj"] = ((heads * (nope + value), kv), "dense")
            names[a + "o_proj"] = ((h, heads * value), "dense")
            experts, shared = c["n_routed_experts"], c["n_shared_experts"]
        else:
            d, kv_heads = c["head_dim"], c["num_key_value_heads"]
            names[a + "q_proj"], names[a + "o_proj"] = ((heads * d, h), "dense"), ((h, heads * d), "dense")
            names[a + "k_proj"] = names[a + "v_proj"] = ((kv_heads * d, h), "dense")
            names[a + "q_norm"] = names[a + "k_norm"] = ((d,), "norm")
            experts, shared = c["num_experts"], 0

        def mlp(prefix, width, kind):
            names[prefix + "gate_proj"] = names[prefix + "up_proj"] = ((width, h), kind)
            names[prefix + "down_proj"] = ((h, width), kind)

        m, width = p + "mlp.", c["moe_intermediate_size"]
        if layer < c.get("first_k_dense_replace", 0):
            mlp(m, c["intermediate_size"], "dense")
            continue
        names[m + "gate"] = ((experts, h), "gate")
        if spec["family"] == "mla":
            names[m + "gate.e_score_correction_bias"] = ((experts,), "bias")
        for e in range(experts):
            mlp(f"{m}experts.{e}.", width, "expert")
        if shared:
            mlp(m + "shared_experts.", width * shared, "dense")
    return names


def draw(shape, kind, g):
    if kind == "norm":
        return 1 + 0.1 * torch.randn(shape, generator=g)
    if kind == "bias":
        return 0.05 * torch.randn(shape, generator=g)
    gain = {"plain": 1.0, "gate": 2.0}.get(kind, 1.0)
    return gain * torch.randn(shape, generator=g) / shape[-1] ** 0.5


def store(name, value, form, spec):
    """-> (tensors as published, the exact value they stand for in fp32)"""
    if form == "bf16":
        value = value.to(torch.bfloat16)
        return {name + ".weight": value}, value.float()
    rows, cols = value.shape
    if form == "int4":
        groups = value.view(rows, cols // 32, 32)
        scale = (groups.abs().amax(-1) / 7).to(torch.bfloat16)
        q = (groups / scale.float()[..., None]).round().clamp(-8, 7)
        nibbles = (q + 8).to(torch.int64).view(rows, cols // 8, 8)
        words = (nibbles << (4 * torch.arange(8))).sum(-1)
        words = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
        return ({name + ".weight_packed": words, name + ".weight_scale": scale,
                 name + ".weight_shape": torch.tensor([rows, cols], dtype=spec.get("shape_dtype", torch.int32))},
                (q * scale.float()[..., None]).view(rows, cols))
    padded = torch.zeros(-(-rows // 128) * 128, -(-cols // 128) * 128)
    padded[:rows, :cols] = value
    blocks = padded.view(padded.shape[0] // 128, 128, padded.shape[1] // 128, 128)
    scale = (blocks.abs().amax((1, 3)) / 448).to(spec.get("fp8_scale", torch.float32))
    full = scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :cols]
    q = (value / full).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {name + ".weight": q, name + ".weight_scale_inv": scale}, q.float() * full


def build(spec, seed):
    g = torch.Generator().manual_seed(seed)
    published, exact = {}, {}
    for name, (shape, kind) in published_names(spec).items():
        value = spec.get("adjust", lambda _, v: v)(name, draw(shape, kind, g))
        if kind == "bias":
            published[name] = exact[name] = value
            continue
        form = {"dense": spec["dense"], "expert": spec["experts"]}.get(kind, "bf16")
        tensors, exact[name + ".weight"] = store(name, value, form, spec)
        published.update(tensors)
    return published, exact


def reference(spec, exact):
    c = {k: v for k, v in spec["config"].items() if k not in ("model_type", "torch_dtype", "dtype", "quantization_config")}
    scaling = c.pop("rope_scaling", None)
    c["rope_parameters"] = dict(rope_theta=c.pop("rope_theta"), rope_type="default")
    if scaling:
        c["rope_parameters"].update({k: v for k, v in scaling.items() if k != "type"}, rope_type="yarn")
    for k in ("scoring_func", "topk_method", "moe_layer_freq"):
        c.pop(k, None)
    if spec["family"] == "mla":
        model = DeepseekV3ForCausalLM(DeepseekV3Config(**c, num_key_value_heads=c["num_attention_heads"],
                                                       attn_implementation="eager", experts_implementation="eager"))
    else:
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**c, attn_implementation="eager", experts_implementation="eager"))
    state = dict(exact)
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}.mlp.experts."
        count = sum(1 for k in state if k.startswith(p) and k.endswith("gate_proj.weight"))
        if not count:
            continue
        take = lambda e, part: state.pop(f"{p}{e}.{part}_proj.weight")
        state[p + "gate_up_proj"] = torch.stack([torch.cat([take(e, "gate"), take(e, "up")]) for e in range(count)])
        state[p + "down_proj"] = torch.stack([take(e, "down") for e in range(count)])
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("inv_freq" in m for m in missing), (missing, unexpected)
    for name, module in model.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            module.variance_epsilon = c["rms_norm_eps"]
    return model.float().eval()


def routing_margins(model, spec, ids):
    """The smallest difference of scores between a selected and an unselected expert (or group), over all tokens and layers."""
    c, gaps, hooks = spec["config"], [], []

    def look(router):
        def hook(_, args, __):
            x = args[0].reshape(-1, c["hidden_size"]).float()
            logits = x @ router.weight.float().T
            k = c["num_experts_per_tok"]
            if spec["family"] == "gqa":
                choice = logits  # the order of softmax
            else:
                choice = logits.sigmoid() + router.e_score_correction_bias
                if c["n_group"] > 1:
                    groups = choice.view(len(choice), c["n_group"], -1)
                    score = groups.topk(2, -1)[0].sum(-1).sort(-1, descending=True)
                    gaps.append((score[0][:, c["topk_group"] - 1] - score[0][:, c["topk_group"]]).min().item())
                    keep = torch.zeros_like(score[0]).scatter_(1, score[1][:, :c["topk_group"]], 1)
                    choice = choice.masked_fill(keep.repeat_interleave(groups.shape[-1], 1) == 0, -1e9)
            best = choice.sort(-1, descending=True)[0]
            gaps.append((best[:, k - 1] - best[:, k]).min().item())
        return hook

    for name, module in model.named_modules():
        if name.endswith("mlp.gate"):
            hooks.append(module.register_forward_hook(look(module)))
    with torch.no_grad():
        logits = model(ids[None]).logits[0]
    for hook in hooks:
        hook.remove()
    return min(gaps), logits


@contextlib.contextmanager
def double_precision():
    """Inside, the reference's own conversions to fp32 (norms, softmax, router, rotation) give fp64."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(torch.float32)


def bf16(x):
    return x.to(torch.bfloat16).to(x.dtype)


def logits_with(model, ids, matrix_inputs=None, cache=None):
    """Logits with functions applied to the inputs of all matrices, and to what a KV cache holds."""
    hooks, modules = [], [modeling_deepseek_v3, modeling_qwen3_moe]
    names = [(m, n) for m in modules for n in ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave") if hasattr(m, n)]
    originals = [getattr(m, n) for m, n in names]

    def rotated(original):
        def rotate(*args, **kwargs):
            query, key = original(*args, **kwargs)
            return query, cache(key)
        return rotate

    for name, module in model.named_modules():
        if matrix_inputs and (isinstance(module, torch.nn.Linear) or name.endswith("mlp.experts")):
            hooks.append(module.register_forward_pre_hook(lambda _, args: (matrix_inputs(args[0]),) + args[1:]))
        if cache and name.endswith(("kv_a_layernorm", "v_proj")):
            hooks.append(module.register_forward_hook(lambda _, __, out: cache(out)))
    if cache:
        for (module, name), original in zip(names, originals):
            setattr(module, name, rotated(original))
    with torch.no_grad():
        logits = model(ids[None]).logits[0]
    for hook in hooks:
        hook.remove()
    for (module, name), original in zip(names, originals):
        setattr(module, name, original)
    return logits


def scaled_weights(model, change):
    """A copy of the model with change(name, weight) as weights."""
    copy = type(model)(model.config).eval()
    copy.load_state_dict({name: change(name, value) for name, value in model.state_dict().items()})
    for name, module in copy.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            module.variance_epsilon = model.config.rms_norm_eps
    return copy


def engine_logits(model, ids):
    """fp64 logits with our engine's roundings: a BF16 KV cache, and kv_b_proj in BF16 (it is not where it is FP8).

    And the tolerance for fp32 arithmetic: a product over K terms, in any order, equals the exact one with each weight off
    by a factor of about 1 +- sqrt(K) * 2^-24 (Higham and Mary, A new approach to probabilistic rounding error analysis,
    2019). The tolerance is the largest change of a logit over 16 draws of that perturbation, cache values that then round
    the other way included, times 4: their bound's constant, and room for what has no weights (norms, softmax, SwiGLU).
    """
    rounded = scaled_weights(model, lambda name, w: bf16(w) if "kv_b_proj" in name else w)
    logits = logits_with(rounded, ids, cache=bf16)
    g, worst = torch.Generator().manual_seed(0), 0.0
    for _ in range(16):
        def off(name, w):
            sign = torch.randint(0, 2, w.shape, generator=g) * 2 - 1
            return w * (1 + sign * w.shape[-1]**0.5 * 2.0**-24) if w.dim() > 1 else w
        worst = max(worst, (logits_with(scaled_weights(rounded, off), ids, cache=bf16) - logits).abs().max().item())
    return logits, 4 * worst


def pick_tokens(spec, seed, model):
    """Greedy search for a token sequence whose every routing decision has a safe margin."""
    g = torch.Generator().manual_seed(seed)
    vocab, ids = spec["config"]["vocab_size"], []
    while len(ids) < TOKENS:
        for _ in range(400):
            candidate = ids + [int(torch.randint(vocab, (1,), generator=g))]
            margin, logits = routing_margins(model, spec, torch.tensor(candidate))
            if margin > MARGIN_MIN:
                ids = candidate
                break
        else:
            raise SystemExit(f"no token keeps the routing margin above {MARGIN_MIN} at position {len(ids)}")
    return torch.tensor(ids), margin, logits


def published_config(name, spec):
    config = dict(spec["config"])
    if spec["family"] == "mla":
        config["architectures"] = ["DeepseekV3ForCausalLM"]
        config["num_key_value_heads"] = config["num_attention_heads"]
    else:
        config["architectures"] = ["Qwen3MoeForCausalLM"]
    if name == "kimi-k25-int4":  # new spellings, nested
        rope = config.pop("rope_scaling")
        rope["rope_type"] = rope.pop("type")
        config["rope_parameters"] = dict(rope, rope_theta=config.pop("rope_theta"))
        config = dict(model_type="kimi_k25", architectures=["KimiK25ForConditionalGeneration"], text_config=config)
    if name == "qwen3-moe-fp8":
        config["num_local_experts"] = config.pop("num_experts")
        config["rope_parameters"] = dict(rope_type="default", rope_theta=config.pop("rope_theta"))
    return config


def write(name, spec):
    folder, seed = os.path.join(DATA, name), spec.get("seed", 1)
    os.makedirs(os.path.join(folder, "expected"), exist_ok=True)
    published, exact = build(spec, seed)
    ids, margin, logits_fp32 = pick_tokens(spec, seed, reference(spec, exact))
    with double_precision():
        model = reference(spec, {k: v.double() for k, v in exact.items()})
        logits = logits_with(model, ids)
        engine, tolerance = engine_logits(model, ids)
        all_bf16 = logits_with(model, ids, matrix_inputs=bf16, cache=bf16)
    assert logits.dtype == engine.dtype == torch.float64
    prefix = spec.get("prefix", "")
    tensors = {prefix + k: v.contiguous() for k, v in published.items()}
    tensors.update({k: torch.full(shape, 0.5, dtype=torch.bfloat16) for k, shape in spec.get("extra", {}).items()})
    save_weights(folder, tensors, spec.get("shards", ["model.safetensors"]))
    save_file({"input_ids": ids.to(torch.int32), "logits": logits.to(torch.float32).contiguous(),
               "logits_bf16_cache": engine.to(torch.float32).contiguous()},
              os.path.join(folder, "expected", "expected.safetensors"))
    dump(os.path.join(folder, "config.json"), published_config(name, spec))
    dump(os.path.join(folder, "generation_config.json"), dict(eos_token_id=[1, 2]))
    far = lambda other: (other - logits).abs().max().item()
    meta = dict(torch=torch.__version__, transformers=transformers.__version__, seed=seed, routing_margin=margin,
                logit_max=logits.abs().max().item(), fp32_error_max=far(logits_fp32), bf16_cache_error_max=far(engine),
                bf16_rounding_max=far(all_bf16), fp32_tolerance=tolerance)
    dump(os.path.join(folder, "expected", "meta.json"), meta)
    print(name, *(f"{k} {v:.3g}" for k, v in meta.items() if isinstance(v, float)))


def save_weights(folder, tensors, shards):
    names = sorted(tensors)
    parts = [names[i * len(names) // len(shards):(i + 1) * len(names) // len(shards)] for i in range(len(shards))]
    for shard, part in zip(shards, parts):
        save_file({n: tensors[n] for n in part}, os.path.join(folder, shard), metadata={"format": "pt"})
    if len(shards) > 1:
        total = sum(t.numel() * t.element_size() for t in tensors.values())
        dump(os.path.join(folder, "model.safetensors.index.json"),
             dict(metadata=dict(total_size=total), weight_map={n: s for s, part in zip(shards, parts) for n in part}))


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or SPECS:
        write(name, SPECS[name])
