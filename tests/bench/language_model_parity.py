"""Repeats the training of //tests/bench:training_curve in PyTorch.

  language_model_parity.py FOLDER

Prints both losses every few steps and the largest difference.
"""
import json
import math
import os
import sys

import torch
from torch.nn import functional as F

import pytorch_llama
import safetensors_file

NAMES = {
    "words.weight": "decoder.embedding.word.weight",
    "norm.weight": "head.norm.gamma",
    "head.weight": "head.output.weight",
}
PARTS = {
    "attention_norm.weight": "attention.norm.gamma",
    "query.weight": "attention.query.weight",
    "key.weight": "attention.key.weight",
    "value.weight": "attention.value.weight",
    "output.weight": "attention.output.weight",
    "ffn_norm.weight": "ffn.norm.gamma",
    "gate.weight": "ffn.gate.weight",
    "up.weight": "ffn.up.weight",
    "down.weight": "ffn.down.weight",
}


def our_name(name):
    if name in NAMES:
        return NAMES[name]
    _, layer, part = name.split(".", 2)
    return f"decoder.layers.{layer}.{PARTS[part]}"


def load(model, weights):
    """Our matrices are (inputs, outputs); PyTorch's linear layers transpose."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = weights[our_name(name)]
            linear = value.dim() == 2 and name != "words.weight"
            parameter.copy_(value.t() if linear else value)


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "curve.json"), encoding="utf-8") as text:
        curve = json.load(text)
    batches = safetensors_file.read(os.path.join(folder, "batches.safetensors"))
    model = pytorch_llama.Llama(pytorch_llama.Shape(
        vocabulary=curve["vocabulary"], hidden=curve["hidden"],
        ffn=curve["ffn"], layers=curve["layers"], heads=curve["heads"],
        kv_heads=curve["kv_heads"], epsilon=curve["norm_epsilon"]))
    load(model, safetensors_file.read(
        os.path.join(folder, "start.safetensors")))
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": curve["weight_decay"]},
         {"params": vectors, "weight_decay": 0}],
        betas=curve["betas"], eps=curve["epsilon"])
    worst = 0
    print("step      ours   PyTorch")
    for step, ours in enumerate(curve["losses"]):
        for group in optimizer.param_groups:
            group["lr"] = curve["learning_rate"] * curve["rate_scales"][step]
        logits = model(batches["ids"][step])
        loss = F.cross_entropy(logits.flatten(0, 1),
                               batches["labels"][step].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), curve["clip_norm"]
                                       or math.inf)
        optimizer.step()
        worst = max(worst, abs(loss.item() - ours))
        if step % 30 == 0 or step + 1 == len(curve["losses"]):
            print(f"{step + 1:4} {ours:9.5f} {loss.item():9.5f}", flush=True)
    print(f"largest difference of {len(curve['losses'])} losses: {worst:.2e}")
    return 0 if worst <= 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
