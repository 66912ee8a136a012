"""Linear layers and word tables that compute with their factors. Parameters have
the names of the exported tensors; no dense matrix is formed."""

import math

import torch
from torch import nn

# Rows of a table at a time where all of them are needed.
_BLOCK_ROWS = 4096


def _empty(*shape, frozen=False):
    return nn.Parameter(torch.empty(shape), requires_grad=not frozen)


def _bonds(form):
    return [1, *form["ranks"], 1]


class _Linear(nn.Module):
    """Y = f(X) + bias."""

    def __init__(self, outputs, bias):
        super().__init__()
        self.bias = _empty(outputs) if bias else None

    def forward(self, x):
        y = self.product(x)
        return y if self.bias is None else y + self.bias


class DenseLinear(_Linear):
    """`weight` (inputs, outputs)."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__(outputs, bias)
        self.weight = _empty(inputs, outputs)

    def product(self, x):
        return x @ self.weight


class TTLinear(_Linear):
    """X W with W a tensor train: (X A) B, A the product of the input cores and B of
    the output cores; in some models silu(X A) B. `core`: (left, mode, right) each;
    with ranks 0 the layer is its bias."""

    def __init__(self, inputs, outputs, form, bias=True):
        super().__init__(outputs, bias)
        modes = [*form["input_modes"], *form["output_modes"]]
        bonds = _bonds(form)
        self.split = len(form["input_modes"])
        self.outputs = outputs
        self.silu = form.get("silu", False)
        self.core = nn.ParameterList(
            [_empty(bonds[i], mode, bonds[i + 1]) for i, mode in enumerate(modes)]
        )

    def product(self, x):
        cores = list(self.core)
        a = cores[0].reshape(cores[0].shape[1], cores[0].shape[2])
        for core in cores[1 : self.split]:
            left, mode, right = core.shape
            rows = a.shape[0] * mode
            a = (a @ core.reshape(left, mode * right)).reshape(rows, right)
        b = cores[-1].reshape(cores[-1].shape[0], cores[-1].shape[1])
        for core in reversed(cores[self.split : -1]):
            left, mode, right = core.shape
            columns = mode * b.shape[1]
            b = (core.reshape(left * mode, right) @ b).reshape(left, columns)
        # A vocabulary may have been rounded up to have factors.
        t = x @ a
        return (nn.functional.silu(t) if self.silu else t) @ b[:, : self.outputs]


class AdapterLinear(_Linear):
    """LoRA: X W + scale / heads (X a) b, W frozen."""

    def __init__(self, inputs, outputs, form, bias=True):
        super().__init__(outputs, bias)
        width = form["heads"] * form["rank"]
        self.factor = form["scale"] / form["heads"]
        self.weight = _empty(inputs, outputs, frozen=True)
        self.a = _empty(inputs, width)
        self.b = _empty(width, outputs)

    def product(self, x):
        return x @ self.weight + self.factor * ((x @ self.a) @ self.b)


class ColaLinear(_Linear):
    """CoLA: silu(X a) b, or, linear, (X a) b."""

    def __init__(self, inputs, outputs, form, bias=True):
        super().__init__(outputs, bias)
        self.linear = form.get("linear", False)
        self.a = _empty(inputs, form["rank"])
        self.b = _empty(form["rank"], outputs)

    def product(self, x):
        t = x @ self.a
        return (t if self.linear else nn.functional.silu(t)) @ self.b


def make_linear(inputs, outputs, form, bias=True):
    """The layer in the form of its factorisation."""
    if form["input_modes"]:
        return TTLinear(inputs, outputs, form, bias)
    low_rank = form.get("low_rank")
    if low_rank is None:
        return DenseLinear(inputs, outputs, bias)
    kind = ColaLinear if low_rank["kind"] == "cola" else AdapterLinear
    return kind(inputs, outputs, low_rank, bias)


class DenseEmbedding(nn.Module):
    """`weight` (rows, width)."""

    def __init__(self, rows, width):
        super().__init__()
        self.weight = _empty(rows, width)

    def forward(self, ids):
        return nn.functional.embedding(ids, self.weight)

    def project(self, x):
        """X times the transposed table."""
        return x @ self.weight.t()


class TTMEmbedding(nn.Module):
    """A tensor-train matrix whose rows are computed when they are looked up. `core`:
    (left, row mode, column mode, right) each; `dense_rows`: the rows of the form's
    dense_tokens, in place of the train's."""

    def __init__(self, rows, width, form):
        super().__init__()
        self.rows, self.width = rows, width
        self.row_modes = list(form["input_modes"])
        bonds = _bonds(form)
        modes = zip(form["input_modes"], form["output_modes"])
        self.core = nn.ParameterList(
            [_empty(bonds[i], m, n, bonds[i + 1]) for i, (m, n) in enumerate(modes)]
        )
        self.dense_tokens = form.get("dense_tokens", [])
        if self.dense_tokens:
            self.dense_rows = _empty(len(self.dense_tokens), width)

    def forward(self, ids):
        unique, inverse = torch.unique(ids, return_inverse=True)
        count = unique.shape[0]
        digits, rest = [], unique
        for mode in reversed(self.row_modes):
            digits.append(rest % mode)
            rest = torch.div(rest, mode, rounding_mode="floor")
        # (ids, columns so far, bond)
        product = None
        for core, digit in zip(self.core, reversed(digits)):
            left, _, columns, right = core.shape
            picked = core.index_select(1, digit).transpose(0, 1)
            picked = picked.reshape(count, left, columns * right)
            if product is None:
                product = picked.reshape(count, columns, right)
            else:
                wide = product.shape[1] * columns
                product = torch.bmm(product, picked).reshape(count, wide, right)
        return self._with_dense_rows(unique, product.reshape(count, self.width))[inverse]

    def _with_dense_rows(self, ids, rows):
        if not self.dense_tokens:
            return rows
        tokens = torch.tensor(self.dense_tokens, dtype=ids.dtype, device=ids.device)
        place = torch.searchsorted(tokens, ids).clamp(max=len(tokens) - 1)
        is_dense = tokens[place] == ids
        return torch.where(is_dense[:, None], self.dense_rows[place], rows)

    def project(self, x):
        """X times the transposed table, block by block."""
        device = self.core[0].device
        parts = []
        for start in range(0, self.rows, _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, self.rows)
            block = self.forward(torch.arange(start, end, device=device))
            parts.append(x @ block.t())
        return torch.cat(parts, dim=-1)


def make_table(rows, width, form):
    if form["input_modes"]:
        return TTMEmbedding(rows, width, form)
    return DenseEmbedding(rows, width)


class LayerNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.gamma = _empty(width)
        self.beta = _empty(width)
        self.epsilon = epsilon

    def forward(self, x):
        return nn.functional.layer_norm(
            x, self.gamma.shape, self.gamma, self.beta, self.epsilon
        )


class RmsNorm(nn.Module):
    """x / sqrt(mean of the squares + epsilon) * gamma."""

    def __init__(self, width, epsilon):
        super().__init__()
        self.gamma = _empty(width)
        self.epsilon = epsilon

    def forward(self, x):
        squares = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(squares + self.epsilon) * self.gamma


def rotate(x, positions, theta):
    """Rotary position embedding: columns i and i + width / 2 of each head are turned
    by position * theta^(-2 i / width). x: (batch, heads, length, width)."""
    width = x.shape[-1]
    precise = torch.float32 if x.device.type == "mps" else torch.float64
    pairs = torch.arange(width // 2, dtype=precise, device=x.device)
    angles = positions[:, None, :, None].to(precise) * theta ** (-2.0 / width * pairs)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def split_heads(x, heads):
    """(batch, length, width) to (batch, heads, length, width / heads)."""
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


def attend(q, k, v, hidden, rate, training):
    """The values that queries attend to, heads side by side; `hidden` is true where
    a query (row) does not see a key."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = nn.functional.dropout(scores.softmax(-1), rate, training)
    mixed = (weights @ v).transpose(1, 2)
    return mixed.reshape(mixed.shape[0], mixed.shape[1], -1)
