#!/usr/bin/python3
"""How long a training step of one linear layer takes as a tensor train and dense.

    time_layers.py [--inputs 768] [--outputs 3072] [--rank 30] [--tokens 2048]

A step is forward, backward (with the gradient of the input) and AdamW. Both layers take
turns, so that they share what else the machine does; the median counts.
"""

import argparse
import statistics
import sys
import time

import torch
from torch import nn

import comera.torch


def timed(layer, optimizer, x):
    begin = time.perf_counter()
    optimizer.zero_grad()
    layer(x).square().mean().backward()
    optimizer.step()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=768)
    parser.add_argument("--outputs", type=int, default=3072)
    parser.add_argument("--rank", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    dense = nn.Linear(args.inputs, args.outputs)
    train = comera.torch.tensorize(
        nn.Linear(args.inputs, args.outputs), args.rank, start="scratch"
    )
    x = torch.randn(args.tokens, args.inputs, requires_grad=True)
    layers = {"dense": dense, "tensor train": train}
    times = {name: [] for name in layers}
    optimizers = {name: torch.optim.AdamW(l.parameters()) for name, l in layers.items()}
    for _ in range(args.rounds + 1):
        for name, layer in layers.items():
            times[name].append(timed(layer, optimizers[name], x))
    # The first of each takes memory.
    medians = {name: statistics.median(t[1:]) for name, t in times.items()}
    for name, layer in layers.items():
        count = comera.torch.num_parameters(layer)
        print(f"{name:12}  {count:>10,} parameters  {1000 * medians[name]:8.1f} ms")
    print(f"dense / tensor train: {medians['dense'] / medians['tensor train']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
