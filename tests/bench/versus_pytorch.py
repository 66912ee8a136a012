"""One dense training step in PyTorch, of the models of //tests/bench:step.

six_encoder is BERT base's width, six post-norm layers, exact GELU, dropout 0.1
on embeddings, attention weights and branches. llama_60m is the shape of
docs/examples/llama_60m.yaml, codebert_large that of
docs/examples/codebert_large.yaml, with logits of the masked tokens alone
(tests/gpu/pytorch_dense.py). All are trained by AdamW. Prints one JSON object
with the keys of //tests/bench:step.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import pytorch_llama

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "gpu"))
import pytorch_dense  # noqa: E402

VOCABULARY, POSITIONS, SEGMENTS, CLASSES = 30522, 512, 2, 3
HIDDEN, FFN, HEADS, LAYERS, LENGTH = 768, 3072, 12, 6, 128


class Layer(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.output = nn.Linear(HIDDEN, HIDDEN)
        self.up = nn.Linear(HIDDEN, FFN)
        self.down = nn.Linear(FFN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-9)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-9)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        batch, length, _ = x.shape

        def heads(y):
            return y.view(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5 + mask
        context = self.dropout(F.softmax(scores, dim=-1)) @ v
        context = context.transpose(1, 2).reshape(batch, length, HIDDEN)
        x = self.norm1(x + self.dropout(self.output(context)))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Classifier(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.segments = nn.Embedding(SEGMENTS, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-9)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.fc1 = nn.Linear(HIDDEN, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, CLASSES)

    def forward(self, ids, mask):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]]
        x = self.dropout(self.norm(x + self.segments.weight[0]))
        for layer in self.layers:
            x = layer(x, mask)
        return self.fc2(torch.tanh(self.fc1(x[:, 0])))


def blas():
    """Which library multiplies; Debian's reference BLAS is 25 times slower."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "blas" in line}
    names = sorted(os.path.realpath(path) for path in paths)
    return ", ".join(names) or "unknown"


def six_encoder(batch, dropout, length):
    """The model, and its loss on a random batch as a function."""
    length = length or LENGTH
    model = Classifier(dropout)
    ids = torch.randint(VOCABULARY, (batch, length))
    labels = torch.randint(CLASSES, (batch,))
    mask = torch.zeros(batch, 1, 1, length)
    return model, lambda: F.cross_entropy(model(ids, mask), labels)


def codebert_large(batch, dropout, length):
    del dropout  # always 0.1
    length = length or LENGTH
    shape = pytorch_dense.MODELS["codebert_large"]
    model = pytorch_dense.Model(**shape)
    ids = torch.randint(shape["vocabulary"], (batch, length))
    masked = max(1, round(pytorch_dense.MASKED * batch * length))
    where = torch.randperm(batch * length)[:masked]
    labels = torch.randint(shape["vocabulary"], where.shape)
    return model, lambda: model(ids, where, labels)


def llama_60m(batch, dropout, length):
    del dropout  # LLaMA has none
    length = length or 256
    shape = pytorch_llama.Shape(vocabulary=32000, hidden=512, ffn=1376,
                                layers=8, heads=8, kv_heads=8)
    model = pytorch_llama.Llama(shape)
    ids = torch.randint(shape.vocabulary, (batch, length + 1))
    return model, lambda: F.cross_entropy(
        model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


MODELS = {f.__name__: f for f in (six_encoder, codebert_large, llama_60m)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="six_encoder")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--length", type=int, default=0,
                        help="tokens of a sample; 0: the model's")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model, loss_of = MODELS[args.model](args.batch, args.dropout,
                                        args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0)
    times = {"step": [], "forward": [], "backward": [], "optimizer": []}
    for step in range(2 + args.steps):
        start = time.perf_counter()
        loss = loss_of()
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        end = time.perf_counter()
        if step < 2:
            continue
        times["step"].append(end - start)
        times["forward"].append(forward - start)
        times["backward"].append(backward - forward)
        times["optimizer"].append(end - backward)
    figures = {
        "model": args.model,
        "method": "PyTorch " + torch.__version__,
        "blas": blas(),
        "threads": args.threads,
        "batch": args.batch,
        "steps": args.steps,
    }
    for key, values in times.items():
        figures[key + "_seconds"] = statistics.median(values)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures["peak_rss_bytes"] = peak
    figures["parameters"] = sum(p.numel() for p in model.parameters())
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
