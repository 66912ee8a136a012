#!/usr/bin/env python3
"""Dense training steps in PyTorch, beside //tests/bench:step on a GPU.

The models of docs/examples: the six-encoder classifier (BERT base's width,
post-norm, exact GELU) and CodeBERT-LARGE with its masked-LM head, whose logits
are computed for the masked tokens alone. Dropout 0.1 everywhere, all sequences
full, gradient clipping, fused AdamW, float32 weights; tf32 and bf16 (autocast)
in matrix products. One JSON object a line, with the keys of //tests/bench:step;
a row that fails has "error".

    pytorch_dense.py --model=six_encoder --batches=32,1 --precisions=bf16,fp32
                     [--compile=default|reduce-overhead] [--steps=20]
"""
import argparse
import contextlib
import gc
import json
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {
    "six_encoder": dict(vocabulary=30522, segments=2, hidden=768, ffn=3072,
                        heads=12, layers=6, length=128, classes=3),
    "codebert_large": dict(vocabulary=52000, segments=1, hidden=1024, ffn=4096,
                           heads=16, layers=24, length=128, classes=0),
    # A model for the test of this script.
    "tiny": dict(vocabulary=100, segments=1, hidden=16, ffn=32, heads=2,
                 layers=1, length=8, classes=0),
}
POSITIONS, DROPOUT, MASKED = 512, 0.1, 0.15


class Layer(nn.Module):
    def __init__(self, hidden, ffn, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)  # one product for all three
        self.output = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, ffn)
        self.down = nn.Linear(ffn, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-9)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-9)
        self.dropout = nn.Dropout(DROPOUT)

    def attention(self, q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return F.dropout(F.softmax(scores, dim=-1), DROPOUT) @ v

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = self.attention(q, k, v).transpose(1, 2)
        context = self.output(context.reshape(batch, length, hidden))
        x = self.norm1(x + self.dropout(context))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Model(nn.Module):
    """Loss of a batch: of the first token's class, or of the masked tokens."""

    def __init__(self, vocabulary, segments, hidden, ffn, heads, layers, length,
                 classes):
        super().__init__()
        self.classes = classes
        self.words = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(POSITIONS, hidden)
        self.segments = nn.Embedding(segments, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-9)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList(
            Layer(hidden, ffn, heads) for _ in range(layers))
        self.transform = nn.Linear(hidden, hidden)
        if classes:
            self.output = nn.Linear(hidden, classes)
        else:
            self.head_norm = nn.LayerNorm(hidden, eps=1e-9)
            self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, ids, where, labels):
        x = self.words(ids) + self.positions.weight[:ids.shape[1]]
        x = self.dropout(self.norm(x + self.segments.weight[0]))
        for layer in self.layers:
            x = layer(x)
        if self.classes:
            x = torch.tanh(self.transform(x[:, 0]))
            return F.cross_entropy(self.output(x), labels)
        x = x.reshape(-1, x.shape[-1])[where]
        x = self.head_norm(F.gelu(self.transform(x)))
        return F.cross_entropy(F.linear(x, self.words.weight, self.bias),
                               labels)


def measure(args, device, name, batch, precision):
    cuda = device.type == "cuda"
    shape = MODELS[name]
    torch.manual_seed(1)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
        torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
    # PyTorch 2 makes tensors where they belong, which is faster.
    with device if hasattr(device, "__enter__") else contextlib.nullcontext():
        model = Model(**shape).to(device)
        tokens = batch * shape["length"]
        ids = torch.randint(shape["vocabulary"], (batch, shape["length"]))
        if shape["classes"]:
            where = torch.zeros(0, dtype=torch.long)
            labels = torch.randint(shape["classes"], (batch,))
        else:
            where = torch.randperm(tokens)[:max(1, round(MASKED * tokens))]
            labels = torch.randint(shape["vocabulary"], where.shape)
    ids, where, labels = (x.to(device) for x in (ids, where, labels))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0,
                                  **({"fused": True} if cuda else {}))
    loss_of = model
    if args.compile:
        loss_of = torch.compile(model, mode=args.compile, dynamic=False)

    def wait():
        if cuda:
            torch.cuda.synchronize()

    seconds, losses = [], []
    for step in range(3 + args.steps):
        wait()
        start = time.perf_counter()
        with torch.autocast(device.type, dtype=torch.bfloat16,
                            enabled=precision == "bf16"):
            loss = loss_of(ids, where, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        wait()
        if step >= 3:
            seconds.append(time.perf_counter() - start)
    step_seconds = statistics.median(seconds)
    row = {
        "step_seconds": step_seconds,
        "tokens_per_second": tokens / step_seconds,
        "parameters": sum(p.numel() for p in model.parameters()),
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }
    if cuda:
        row["device_name"] = torch.cuda.get_device_name()
        # What the allocator took, as ours counts what it took.
        row["peak_device_bytes"] = torch.cuda.max_memory_reserved()
        row["allocated_device_bytes"] = torch.cuda.max_memory_allocated()
    return row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="six_encoder")
    parser.add_argument("--batches", default="32")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--compile", default="",
                        choices=["", "default", "reduce-overhead"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("pytorch_dense.py: PyTorch sees no GPU", file=sys.stderr)
        return 1
    device = torch.device(args.device)
    for precision in args.precisions.split(","):
        for batch in args.batches.split(","):
            row = {
                "model": args.model,
                "method": "PyTorch " + torch.__version__,
                "mode": f"compile ({args.compile})" if args.compile else "eager",
                "device": args.device,
                "precision": precision.upper(),
                "batch": int(batch),
                "steps": args.steps,
            }
            try:
                row.update(measure(args, device, args.model, int(batch),
                                   precision))
            except RuntimeError as error:  # out of memory is one too
                row["error"] = str(error).split("\n", maxsplit=1)[0]
            print(json.dumps(row), flush=True)
            gc.collect()
            if args.compile:
                torch._dynamo.reset()
            if args.device == "cuda":
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
