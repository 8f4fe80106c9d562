#!/usr/bin/env python3
"""Writes tests/golden/rope.json: rotary frequencies of every scaling kind as transformers computes them.

Usage: rope_golden.py > tests/golden/rope.json   (needs torch and transformers)
"""
import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

BASE = dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=1, vocab_size=8,
            intermediate_size=8, max_position_embeddings=512, rope_theta=10000.0)

SHORT = [1.0, 1.03, 1.12, 1.27, 1.48, 1.75, 2.08, 2.47]
LONG = [1.1, 1.6, 3.1, 5.6, 9.1, 13.6, 19.1, 25.6]
L3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)

CASES = [
    ("linear", dict(rope_scaling=dict(type="linear", factor=4.0))),
    ("dynamic", dict(rope_scaling=dict(rope_type="dynamic", factor=2.0))),
    ("yarn", dict(rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=128))),
    ("yarn, published theta", dict(rope_theta=1000000.0, max_position_embeddings=131072, head_dim=128,
     rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768))),
    ("yarn, mscales", dict(rope_parameters=dict(rope_type="yarn", rope_theta=5000.0, factor=40.0,
     original_max_position_embeddings=64, mscale=1.0, mscale_all_dim=0.7, beta_fast=16.0, beta_slow=2.0))),
    ("yarn, not truncated", dict(rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=32.0,
     original_max_position_embeddings=4096, truncate=False))),
    ("yarn, attention factor", dict(rope_scaling=dict(rope_type="yarn", factor=2.0, attention_factor=1.25,
     original_max_position_embeddings=256))),
    ("longrope", dict(original_max_position_embeddings=128,
     rope_scaling=dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG))),
    ("longrope, factor", dict(rope_scaling=dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG,
     factor=16.0, original_max_position_embeddings=64))),
    ("llama3", dict(rope_theta=500000.0, rope_scaling=dict(L3, original_max_position_embeddings=16))),
    ("llama3, published", dict(rope_theta=500000.0, max_position_embeddings=131072, head_dim=64,
     rope_scaling=dict(L3, factor=32.0, original_max_position_embeddings=8192))),
    ("partial linear", dict(partial_rotary_factor=0.5, rope_scaling=dict(rope_type="linear", factor=3.0))),
    ("proportional", dict(rope_parameters=dict(rope_type="proportional", rope_theta=1000000.0,
     partial_rotary_factor=0.25))),
]


def case(name, keys):
    raw = dict(BASE, model_type="llama", **keys)
    if "rope_parameters" in keys:
        raw.pop("rope_theta")
    config = LlamaConfig(**{k: json.loads(json.dumps(v)) for k, v in raw.items() if k != "model_type"})
    fn = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]]
    out = dict(name=name, config=raw)
    freq, out["amplitude"] = fn(config, "cpu")
    out["inv_freq"] = [float(f) for f in freq]
    if "longrope" in name:
        out["inv_freq_long"] = [float(f) for f in fn(config, "cpu", seq_len=100000)[0]]
    return out


print(json.dumps([case(*c) for c in CASES], indent=1))
