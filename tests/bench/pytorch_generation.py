"""Greedy generation in PyTorch with keys and values kept, of a dense LLaMA.

The shape is that of docs/examples/llama_60m.yaml. Prints JSON objects with the
keys of //tests/bench:generation.
"""
import argparse
import json
import os
import time

import torch
from torch.nn import functional as F

import pytorch_llama


class CachedLlama:
    """A pytorch_llama.Llama that sees each token once.

    Keys (after their rotation) and values lie in tensors that are as long as
    the longest text, so that a step copies none of them.
    """

    def __init__(self, model, batch, length):
        self.model = model
        shape = model.shape
        self.width = shape.hidden // shape.heads
        half = self.width // 2
        frequency = shape.theta ** -(torch.arange(half) / half)
        self.angles = torch.arange(length)[:, None] * frequency
        size = (batch, shape.kv_heads, length, self.width)
        self.keys = [torch.zeros(size) for _ in model.layers]
        self.values = [torch.zeros(size) for _ in model.layers]
        self.length = 0

    def attend(self, layer, index, x, mask):
        batch, new, _ = x.shape
        shape = self.model.shape
        end = self.length + new
        angles = self.angles[self.length:end]

        def heads(y):
            return y.view(batch, new, -1, self.width).transpose(1, 2)

        q = pytorch_llama.rotate(heads(layer.query(x)), angles)
        self.keys[index][:, :, self.length:end] = pytorch_llama.rotate(
            heads(layer.key(x)), angles)
        self.values[index][:, :, self.length:end] = heads(layer.value(x))
        k = self.keys[index][:, :, :end]
        v = self.values[index][:, :, :end]
        group = shape.heads // shape.kv_heads
        if group > 1:
            k, v = (y.repeat_interleave(group, dim=1) for y in (k, v))
        scores = q @ k.transpose(-1, -2) / self.width ** 0.5
        if mask is not None:
            scores = scores + mask
        context = F.softmax(scores, dim=-1) @ v
        return layer.output(context.transpose(1, 2).reshape(x.shape))

    def step(self, ids):
        """Logits (batch, vocabulary) after the tokens ids (batch, new)."""
        new = ids.shape[1]
        mask = None
        if new > 1:
            mask = torch.full((new, self.length + new), float("-inf"))
            mask = mask.triu(1 + self.length)
        x = self.model.words(ids)
        for index, layer in enumerate(self.model.layers):
            x = x + self.attend(layer, index, layer.attention_norm(x), mask)
            y = layer.ffn_norm(x)
            x = x + layer.down(F.silu(layer.gate(y)) * layer.up(y))
        self.length += new
        return self.model.head(self.model.norm(x[:, -1]))


def check(model):
    """The cached steps compute what the model does for whole texts."""
    ids = torch.randint(model.shape.vocabulary, (2, 9))
    cached = CachedLlama(model, 2, 9)
    pieces = [cached.step(ids[:, :4])]
    pieces += [cached.step(ids[:, i:i + 1]) for i in range(4, 9)]
    torch.testing.assert_close(torch.stack(pieces, 1), model(ids)[:, 3:],
                               rtol=1e-4, atol=1e-4)


def measure(model, batch, prompt, tokens):
    """Seconds of the prompts, and of each later token of a text."""
    cached = CachedLlama(model, batch, prompt + tokens)
    ids = torch.randint(model.shape.vocabulary, (batch, prompt))
    start = time.perf_counter()
    last = cached.step(ids).argmax(-1, keepdim=True)
    first = time.perf_counter()
    for _ in range(1, tokens):
        last = cached.step(last).argmax(-1, keepdim=True)
    end = time.perf_counter()
    return first - start, (end - first) / ((tokens - 1) * batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = pytorch_llama.Llama(pytorch_llama.Shape(
        vocabulary=32000, hidden=512, ffn=1376, layers=8, heads=8, kv_heads=8))
    with torch.no_grad():
        check(model)
        for batch in map(int, args.batches.split(",")):
            measure(model, batch, args.prompt, args.tokens)
            prompt, token = measure(model, batch, args.prompt, args.tokens)
            print(json.dumps({
                "model": "llama_60m",
                "method": "PyTorch " + torch.__version__,
                "device": "cpu",
                "threads": args.threads,
                "batch": batch,
                "prompt_tokens": args.prompt,
                "generated_tokens": args.tokens,
                "parameters": sum(p.numel() for p in model.parameters()),
                "prompt_seconds": prompt,
                "tokens_per_second": 1 / token,
            }))


if __name__ == "__main__":
    main()
