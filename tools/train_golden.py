#!/usr/bin/env python3
"""Writes a training golden of one formula case: losses, gradients and AdamW steps of PyTorch in float32.

    tools/train_golden.py CASE_DIR OUT.safetensors

needs torch, transformers, safetensors and numpy. CASE_DIR is a folder with config.json and tensors.json as
in tests/golden/cases/<family>/<case>. OUT gets, for the tensors listed in OUT.json by checkpoint name:
  input_ids, labels    [3, 24] i32; -100 = no label; rows are right-padded with 0
  grad0.norm_sum       [n, 2]  l2 norm and sum of the gradient before the first step, unclipped
  grad0.samples        [n, 8]  elements (i * (size - 1)) / 7 of it, integer division, flattened
  after.norm_sum, after.samples: the weights after three steps
and OUT.json the losses before each step and after the last, the loss with label smoothing 0.1, gradient norms,
and the hyper-parameters. tests/golden/test_train_golden.c compares.
"""
import json
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

M64 = (1 << 64) - 1
LR, DECAY, CLIP, STEPS = 1e-3, 0.01, 1.0, 3


def mix64(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a64(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def formula(t, salt):
    """The values of one tensor, rounded to its dtype and widened to float32."""
    n = int(np.prod(t["shape"]))
    with np.errstate(over="ignore"):
        base = np.uint64(fnv1a64(t["name"])) ^ mix64(np.array([salt], dtype=np.uint64))[0]
        z = mix64(base + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    u = (z >> np.uint64(40)).astype(np.float64) / float(1 << 24)
    x = (t["lo"] + (t["hi"] - t["lo"]) * u).astype(np.float32).reshape(t["shape"])
    dtype = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}[t["dtype"]]
    return torch.from_numpy(x).to(dtype).to(torch.float32)


def load(case):
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(case), attn_implementation="eager", dtype=torch.float32)
    spec = json.load(open(f"{case}/tensors.json"))
    state = {t["name"]: formula(t, spec["salt"]) for t in spec["tensors"]}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.train(False)


def batch(vocab):
    """Three rows of different lengths; the first labels of each are hidden, as a prompt's are."""
    rng = np.random.default_rng(7)
    ids = np.zeros((3, 24), dtype=np.int32)
    labels = np.full((3, 24), -100, dtype=np.int32)
    for row, (n, hidden) in enumerate([(24, 4), (17, 9), (11, 1)]):
        ids[row, :n] = rng.integers(3, vocab, n)
        labels[row, hidden:n] = ids[row, hidden:n]
    return ids, labels


def loss_of(model, ids, labels, smoothing=0.0):
    logits = model(input_ids=ids.long(), use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1).long(),
        ignore_index=-100, label_smoothing=smoothing)


def summary(tensors):
    flat = [t.detach().double().reshape(-1).numpy() for t in tensors]
    norm_sum = np.array([[np.sqrt((x * x).sum()), x.sum()] for x in flat], dtype=np.float32)
    samples = np.array([[x[i * (x.size - 1) // 7] for i in range(8)] for x in flat], dtype=np.float32)
    return norm_sum, samples


def main(case, out):
    torch.manual_seed(0)
    model = load(case)
    params = dict(sorted(model.named_parameters()))
    ids, labels = batch(model.config.vocab_size)
    t_ids, t_labels = torch.from_numpy(ids), torch.from_numpy(labels)
    with torch.no_grad():
        smooth = loss_of(model, t_ids, t_labels, 0.1).item()
    adam = torch.optim.AdamW(params.values(), lr=LR, weight_decay=DECAY)
    losses, norms, arrays = [], [], {"input_ids": ids, "labels": labels}
    for step in range(STEPS):
        adam.zero_grad()
        loss = loss_of(model, t_ids, t_labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            arrays["grad0.norm_sum"], arrays["grad0.samples"] = summary(p.grad for p in params.values())
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item())
        adam.step()
    with torch.no_grad():
        losses.append(loss_of(model, t_ids, t_labels).item())
    arrays["after.norm_sum"], arrays["after.samples"] = summary(params.values())
    save_file(arrays, out)
    note = {"reference": f"torch {torch.__version__.split('+')[0]}, float32", "lr": LR,
            "weight_decay": DECAY, "clip_norm": CLIP, "tensors": list(params), "losses": losses,
            "grad_norms": norms, "loss_smoothing_0.1": smooth}
    json.dump(note, open(out.replace(".safetensors", ".json"), "w"), indent=1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
