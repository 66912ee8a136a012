"""Models in plain torch.nn, which know nothing of tensor trains, and data of which
they can learn something."""

import math

import torch
from torch import nn


class ConvNet(nn.Module):
    """Images (batch, 1, 16, 16) to logits (batch, classes): a CNN with an MLP."""

    def __init__(self, classes=4, width=256):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )
        self.mlp = nn.Sequential(
            nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, classes),
        )

    def forward(self, images):
        return self.mlp(self.features(images))


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


class BertBlock(nn.Module):
    """Post-norm."""

    def __init__(self, width, heads, hidden, epsilon):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width, epsilon)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width, epsilon)

    def forward(self, x, bias):
        x = self.norm1(x + self.attention(x, bias))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    """Token ids (batch, length) to logits (batch, classes)."""

    def __init__(
        self, vocabulary, width=64, heads=4, hidden=128, layers=2, positions=32,
        classes=3, epsilon=1e-9,
    ):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(positions, width))
        self.segment = nn.Parameter(0.02 * torch.randn(2, width))
        self.norm = nn.LayerNorm(width, epsilon)
        self.blocks = nn.ModuleList(
            [BertBlock(width, heads, hidden, epsilon) for _ in range(layers)]
        )
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids, segments=None, mask=None):
        segments = torch.zeros_like(ids) if segments is None else segments
        mask = torch.ones_like(ids) if mask is None else mask
        x = self.word(ids) + self.position[: ids.shape[1]] + self.segment[segments]
        x = self.norm(x)
        bias = (1 - mask.float())[:, None, None, :] * -1e9
        for block in self.blocks:
            x = block(x, bias)
        return self.fc2(torch.tanh(self.fc1(x[:, 0])))


class GptBlock(nn.Module):
    """Pre-norm."""

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
    """Token ids (batch, length) to logits of the next ones; the output layer has the
    embedding's weight."""

    def __init__(self, vocabulary, width=64, heads=4, layers=2, positions=32):
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList([GptBlock(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.word.weight
        for table in (self.word, self.position):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):
        length = ids.shape[1]
        bias = torch.full((length, length), -1e9, device=ids.device).triu(1)
        x = self.word(ids) + self.position(torch.arange(length, device=ids.device))
        for block in self.blocks:
            x = block(x, bias)
        return self.output(self.norm(x))


def image_batch(generator, size=32, classes=4):
    """Stripes of `classes` directions, with noise."""
    labels = torch.randint(classes, (size,), generator=generator)
    angle = labels * math.pi / classes
    place = torch.arange(16.0)
    along = (
        place[None, :, None] * angle.cos()[:, None, None]
        + place[None, None, :] * angle.sin()[:, None, None]
    )
    phase = 6.0 * torch.rand(size, generator=generator)
    images = torch.sin(1.5 * along + phase[:, None, None])
    noise = torch.randn(images.shape, generator=generator)
    return (images + 0.3 * noise)[:, None], labels


def class_batch(generator, size=32, vocabulary=1000, length=16):
    """Token ids whose class is which third of the vocabulary the first is of."""
    ids = torch.randint(vocabulary, (size, length), generator=generator)
    return ids, ids[:, 0] * 3 // vocabulary


def text_batch(generator, size=16, vocabulary=1000, length=24):
    """Rows of tokens that are counted up in steps of 1 to 3 from a random start."""
    step = torch.randint(1, 4, (size, 1), generator=generator)
    start = torch.randint(vocabulary, (size, 1), generator=generator)
    return (start + step * torch.arange(length + 1)) % vocabulary
