#!/usr/bin/python3
"""Trains an exported masked language model further, on text of one's own.

    fine_tune.py MODEL TEXT... --out FOLDER

MODEL: the folder of an exported model, e.g. of submit_watch_load.py. What is
trained are the tensor-train cores themselves; the result is a folder of the same
format, for `comera.torch.load` and for the service's own programs.
"""

import argparse
import random
import sys
from pathlib import Path

import torch

import comera.torch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--out", default="tuned-model")
    args = parser.parse_args()

    torch.manual_seed(1)
    draw = random.Random(1)
    model = comera.torch.load(args.model)
    # Windows of the texts, as long as the model was trained with.
    width = model.config.length - 2
    windows = []
    for path in args.texts:
        ids = model.tokenizer.encode(Path(path).read_bytes())
        windows += [ids[at : at + width] for at in range(0, len(ids), width)]
    special = model.tokenizer.special
    samples = [
        comera.tokenizers.Sample([special.cls, *w, special.sep], [0] * (len(w) + 2))
        for w in windows
    ]
    print(f"{len(samples)} samples, {model.num_parameters():,} parameters")

    # The same masks before and after.
    held_out = model.masked(
        model.collate(samples[:: max(1, len(samples) // 64)][:64]),
        generator=torch.Generator().manual_seed(2),
    )

    @torch.no_grad()
    def loss():
        model.eval()
        return float(model.loss(**held_out))

    before = loss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0)
    for step in range(args.steps):
        model.train()
        chosen = [draw.choice(samples) for _ in range(args.batch_size)]
        optimizer.zero_grad()
        now = model.loss(**model.masked(model.collate(chosen)))
        now.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}  loss {float(now):.4f}")
    after = loss()
    comera.torch.save(model.eval(), args.out)
    print(f"loss {before:.4f} -> {after:.4f}; {args.out}")
    return 0 if after < before else 1


if __name__ == "__main__":
    sys.exit(main())
