#!/usr/bin/python3
"""Trains a model of one's own, written in plain torch.nn, as tensor trains.

    own_model.py [--steps N] [--late-steps N] [--checkpoints FOLDER] [FILE...]

The model is a small GPT that knows nothing of tensor trains; it learns the next word
of text files, by default of Python's own standard library. The run continues from the
newest checkpoint, ends when loss and size are met, and after SIGTERM with a
checkpoint. As the program of a job (docs/examples/own_program.yaml) it takes the job's
targets. Several processes with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in
their environment train on shares of the same batches.
"""

import argparse
import collections
import math
import os
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import comera.torch

LENGTH = 32


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x, bias):
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + bias
        context = scores.softmax(-1) @ v
        return self.output(context.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, bias):
        x = x + self.attention(self.norm1(x), bias)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words, width=128, heads=4, layers=2):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, words, bias=False)
        # Word and output vectors are the same.
        self.output.weight = self.words.weight

    def forward(self, ids):
        length = ids.shape[1]
        bias = torch.full((length, length), -1e9, device=ids.device).triu(1)
        x = self.words(ids) + self.places[:length]
        for block in self.blocks:
            x = block(x, bias)
        return self.output(self.norm(x))


def read_rows(paths, words):
    """Rows of LENGTH + 1 numbers of words; number 0 is every rare one."""
    text = [w for p in paths for w in re.findall(r"\w+|[^\w\s]|\n", Path(p).read_text())]
    common = [word for word, _ in collections.Counter(text).most_common(words - 1)]
    numbers = {word: i + 1 for i, word in enumerate(common)}
    ids = torch.tensor([numbers.get(word, 0) for word in text])
    return ids[: len(ids) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)


def loss_of(model, rows):
    logits = model(rows[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--steps", type=int, default=300, help="of the early stage")
    parser.add_argument("--late-steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--rank", type=int, default=24)
    parser.add_argument("--target-loss", type=float, default=4.2, help="in nats")
    parser.add_argument("--target-ratio", type=float, default=0.6)
    parser.add_argument("--checkpoints")
    args = parser.parse_args()
    files = args.files or sorted(Path(os.__file__).parent.glob("[a-d]*.py"))

    members = int(os.environ.get("WORLD_SIZE", 1))
    member = int(os.environ.get("RANK", 0))
    if members > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(1)
    rows = read_rows(files, args.words)
    held_out, rows = rows[::20][:128], rows[[i for i in range(len(rows)) if i % 20]]

    model = Gpt(args.words)
    dense = sum(p.numel() for p in model.parameters())
    # 1: tensor trains in place of every nn.Linear and nn.Embedding.
    model = comera.torch.tensorize(model, args.rank, start="scratch")
    # 2: an optimiser with rates for cores, rank entries and all else.
    optimizer = torch.optim.AdamW(
        comera.torch.parameter_groups(model, cores=3e-3, ranks=5e-3, others=2e-3)
    )
    # 3: loss and size as one objective.
    objective = comera.torch.Objective(model, optimizer, gamma=0.01)
    run = comera.torch.Run(
        model, optimizer, objective, steps=args.steps + args.late_steps,
        checkpoints=args.checkpoints, checkpoint_every=100, report_every=25,
    )

    def wrap():
        return DistributedDataParallel(model) if members > 1 else model

    with run:
        parallel = wrap()
        for step in run:
            if step == args.steps:
                # The targets of the job, where there are some, or one's own.
                objective.begin_late(
                    run.target_loss or args.target_loss,
                    target_size=run.target_size,
                    target_ratio=None if run.target_size else args.target_ratio,
                    max_steps=args.late_steps,
                    # Attention keeps a rank of at least its number of heads.
                    floors={"*.query": 4, "*.key": 4},
                )
                parallel = wrap()
            draw = torch.Generator().manual_seed(step)
            batch = rows[torch.randint(len(rows), (args.batch_size,), generator=draw)]
            optimizer.zero_grad()
            loss = loss_of(parallel, batch[member::members])
            objective.backward(loss)
            if objective.step():
                # Dead entries were cut out: the parameters are new ones.
                parallel = wrap()
            run.report(loss)
            if step % 25 == 24:
                with torch.no_grad():
                    run.validate(float(loss_of(model, held_out)))
    if member == 0:
        best = min((p.validation_loss for p in run.front), default=math.nan)
        print(
            f"{run.outcome} after step {run.step}: {run.size:,} of {dense:,} parameters, "
            f"lowest validation loss {best:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
