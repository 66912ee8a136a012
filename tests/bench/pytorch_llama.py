"""LLaMA's decoder in plain PyTorch, for comparisons.

The layers are those of Hugging Face's LlamaForCausalLM: RMSNorm before each
half of a block, rotary positions in the split-half layout, grouped-query
attention, SwiGLU, no biases. Debian has PyTorch 1.13, without a fused attention.
"""
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Shape:
    vocabulary: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    epsilon: float = 1e-5
    theta: float = 10000.0


class RmsNorm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.epsilon = shape.epsilon

    def forward(self, x):
        square = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(square + self.epsilon) * self.weight


def rotate(x, angles):
    """x (batch, heads, length, width) turned by angles (length, width / 2)."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        hidden, ffn = shape.hidden, shape.ffn
        keys = hidden // shape.heads * shape.kv_heads
        self.attention_norm = RmsNorm(shape)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, keys, bias=False)
        self.value = nn.Linear(hidden, keys, bias=False)
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.ffn_norm = RmsNorm(shape)
        self.gate = nn.Linear(hidden, ffn, bias=False)
        self.up = nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def attend(self, x, angles, mask):
        batch, length, hidden = x.shape
        width = hidden // self.shape.heads

        def heads(y):
            return y.view(batch, length, -1, width).transpose(1, 2)

        q = rotate(heads(self.query(x)), angles)
        k = rotate(heads(self.key(x)), angles)
        v = heads(self.value(x))
        group = self.shape.heads // self.shape.kv_heads
        k, v = (y.repeat_interleave(group, dim=1) for y in (k, v))
        scores = q @ k.transpose(-1, -2) / width ** 0.5 + mask
        context = F.softmax(scores, dim=-1) @ v
        return self.output(context.transpose(1, 2).reshape(x.shape))

    def forward(self, x, angles, mask):
        x = x + self.attend(self.attention_norm(x), angles, mask)
        y = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RmsNorm(shape)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)

    def forward(self, ids):
        """Logits (batch, length, vocabulary) of ids (batch, length)."""
        length = ids.shape[1]
        half = self.shape.hidden // self.shape.heads // 2
        frequency = self.shape.theta ** -(torch.arange(half) / half)
        angles = torch.arange(length)[:, None] * frequency
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, angles, mask)
        return self.head(self.norm(x))
