"""Transformer decoders, pre-norm: LLaMA's and GPT-2's."""

from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from comera.torch.config import ModelConfig
from comera.torch.layers import (
    LayerNorm,
    RmsNorm,
    Table,
    make_linear,
    make_table,
    new_parameter,
)

# Cosines and sines (batch, 1, length, head width / 2).
Angles = Tuple[Tensor, Tensor]


def make_norm(config: ModelConfig) -> nn.Module:
    norm = RmsNorm if config.architecture == "llama" else LayerNorm
    return norm(config.hidden, config.layer_norm_epsilon)


def _linear(config: ModelConfig, key: str, inputs: int, outputs: int) -> nn.Module:
    bias = config.architecture == "gpt2"
    return make_linear(inputs, outputs, config.factorisation[key], key, bias)


def positions_of(segments: Tensor) -> Tensor:
    """Places of tokens in their documents, which are runs of equal numbers."""
    place = torch.arange(segments.shape[1], device=segments.device).expand_as(segments)
    begins = torch.ones_like(segments, dtype=torch.bool)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    start = torch.where(begins, place, torch.zeros_like(place)).cummax(1).values
    return place - start


def rotary_angles(positions: Tensor, head_width: int, theta: float, like: Tensor) -> Angles:
    """Of rotary position embedding (arXiv 2104.09864): pair i of a head is turned by
    position * theta^(-2 i / head width)."""
    pairs = torch.arange(head_width // 2, dtype=torch.float64, device=like.device)
    angles = positions[:, None, :, None] * theta ** (-2.0 / head_width * pairs)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: Tensor, angles: Angles) -> Tensor:
    """Turns columns i and i + head width / 2 of every head, (batch, heads, length,
    head width)."""
    cos, sin = angles
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def hidden_scores(segments: Tensor, mask: Optional[Tensor]) -> Tensor:
    """(batch, 1, length, length): where a token (row) does not attend: to those
    behind it, to other documents and to padding."""
    length = segments.shape[1]
    ones = torch.ones(length, length, dtype=torch.bool, device=segments.device)
    visible = ones.tril() & (segments[:, :, None] == segments[:, None, :])
    if mask is not None:
        # Padding attends to itself, or it had nothing to attend to.
        own = torch.eye(length, dtype=torch.bool, device=segments.device)
        visible = visible & ((mask != 0)[:, None, :] | own)
    return ~visible[:, None]


class Embedding(nn.Module):
    """dropout(word), of a GPT-2 dropout(word + position)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        form = config.factorisation["embedding"]
        self.word: Table = make_table(config.vocabulary, config.hidden, form, "embedding")
        if config.architecture == "gpt2":
            self.position = new_parameter(config.max_positions, config.hidden)
        else:
            self.position = None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.word(ids)
        if self.position is not None:
            if ids.shape[1] > self.position.shape[0]:
                raise ValueError(
                    f"{ids.shape[1]} tokens, the model has {self.position.shape[0]}"
                )
            x = x + nn.functional.embedding(positions, self.position)
        return self.dropout(x)


class Attention(nn.Module):
    """dropout(attention(norm(x))). Query head h uses head h / (heads / kv_heads) of
    keys and values."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, key = config.hidden, f"layers.{index}."
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.width = d // config.heads
        self.norm = make_norm(config)
        self.query = _linear(config, key + "query", d, d)
        self.key = _linear(config, key + "key", d, self.kv_heads * self.width)
        self.value = _linear(config, key + "value", d, self.kv_heads * self.width)
        self.output = _linear(config, key + "output", d, d)
        self.rate = config.dropout

    def _split(self, x: Tensor, heads: int) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, heads, self.width).transpose(1, 2)

    def forward(self, x: Tensor, hidden: Tensor, angles: Optional[Angles]) -> Tensor:
        x = self.norm(x)
        q = self._split(self.query(x), self.heads)
        k = self._split(self.key(x), self.kv_heads)
        v = self._split(self.value(x), self.kv_heads)
        if angles is not None:
            q, k = rotate(q, angles), rotate(k, angles)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.width)
        scores = scores.masked_fill(hidden, torch.finfo(x.dtype).min)
        p = nn.functional.dropout(scores.softmax(-1), self.rate, self.training)
        context = (p @ v).transpose(1, 2).reshape(x.shape)
        return nn.functional.dropout(self.output(context), self.rate, self.training)


class FeedForward(nn.Module):
    """dropout(down(silu(gate(norm(x))) * up(norm(x)))), of a GPT-2
    dropout(down(gelu(up(norm(x))))) with GELU's tanh form."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, h, key = config.hidden, config.ffn, f"layers.{index}."
        self.norm = make_norm(config)
        self.gate = None
        if config.architecture == "llama":
            self.gate = _linear(config, key + "ffn_gate", d, h)
        self.up = _linear(config, key + "ffn_up", d, h)
        self.down = _linear(config, key + "ffn_down", h, d)
        self.gate_silu = config.gate_silu
        self.rate = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        y = self.up(x)
        if self.gate is None:
            y = nn.functional.gelu(y, approximate="tanh")
        else:
            gate = self.gate(x)
            y = (nn.functional.silu(gate) if self.gate_silu else gate) * y
        return nn.functional.dropout(self.down(y), self.rate, self.training)


class Block(nn.Module):
    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.attention = Attention(config, index)
        self.ffn = FeedForward(config, index)

    def forward(self, x: Tensor, hidden: Tensor, angles: Optional[Angles]) -> Tensor:
        x = x + self.attention(x, hidden, angles)
        return x + self.ffn(x)


class Decoder(nn.Module):
    """Token ids to the residual stream (batch, length, hidden), before the last
    norm, which is the head's."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.layers)])
        self.rotary = config.architecture == "llama"
        self.head_width = config.hidden // config.heads
        self.theta = config.rope_theta

    def forward(
        self, ids: Tensor, segments: Optional[Tensor] = None, mask: Optional[Tensor] = None
    ) -> Tensor:
        """`segments`: numbers of the documents in each row, which attend to
        themselves only; by default a row is one document."""
        segments = torch.zeros_like(ids) if segments is None else segments
        positions = positions_of(segments)
        x = self.embedding(ids, positions)
        hidden = hidden_scores(segments, mask)
        angles = None
        if self.rotary:
            angles = rotary_angles(positions, self.head_width, self.theta, x)
        for layer in self.layers:
            x = layer(x, hidden, angles)
        return x
