"""Transformer encoders, post-norm."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor, nn

from comera.torch.config import ModelConfig
from comera.torch.layers import LayerNorm, Table, make_linear, make_table, new_parameter


class Embedding(nn.Module):
    """dropout(LayerNorm(word + position + segment))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        form = config.factorisation["embedding"]
        self.word: Table = make_table(config.vocabulary, config.hidden, form, "embedding")
        self.position = new_parameter(config.max_positions, config.hidden)
        self.segment = new_parameter(config.segments, config.hidden)
        self.norm = LayerNorm(config.hidden, config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        length = ids.shape[1]
        if length > self.position.shape[0]:
            raise ValueError(f"{length} tokens, the model has {self.position.shape[0]}")
        x = self.word(ids) + self.position[:length]
        x = x + nn.functional.embedding(segments, self.segment)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """LayerNorm(x + dropout(attention(x)))."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, key = config.hidden, f"layers.{index}."
        for part in ("query", "key", "value", "output"):
            form = config.factorisation[key + part]
            setattr(self, part, make_linear(d, d, form, key + part))
        self.norm = LayerNorm(d, config.layer_norm_epsilon)
        self.heads = config.heads
        self.rate = config.dropout

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, d = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, length, self.heads, d // self.heads).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads) + bias
        p = nn.functional.dropout(scores.softmax(-1), self.rate, self.training)
        context = (p @ v).transpose(1, 2).reshape(batch, length, d)
        y = nn.functional.dropout(self.output(context), self.rate, self.training)
        return self.norm(x + y)


class FeedForward(nn.Module):
    """LayerNorm(x + dropout(down(gelu(up(x)))))."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, h = config.hidden, config.ffn
        up, down = f"layers.{index}.ffn_up", f"layers.{index}.ffn_down"
        self.up = make_linear(d, h, config.factorisation[up], up)
        self.down = make_linear(h, d, config.factorisation[down], down)
        self.norm = LayerNorm(d, config.layer_norm_epsilon)
        self.rate = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(nn.functional.gelu(self.up(x)))
        return self.norm(x + nn.functional.dropout(y, self.rate, self.training))


class Block(nn.Module):
    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.attention = Attention(config, index)
        self.ffn = FeedForward(config, index)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.ffn(self.attention(x, bias))


class Encoder(nn.Module):
    """Token ids to the residual stream (batch, length, hidden)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.layers)])

    def forward(
        self, ids: Tensor, segments: Optional[Tensor] = None, mask: Optional[Tensor] = None
    ) -> Tensor:
        segments = torch.zeros_like(ids) if segments is None else segments
        x = self.embedding(ids, segments)
        bias = torch.zeros(1, 1, 1, ids.shape[1], dtype=x.dtype, device=x.device)
        if mask is not None:
            # Padding is attended to by nobody.
            hidden = (mask == 0)[:, None, None, :]
            bias = bias.masked_fill(hidden, torch.finfo(x.dtype).min)
        for layer in self.layers:
            x = layer(x, bias)
        return x
