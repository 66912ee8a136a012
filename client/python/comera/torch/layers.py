"""Linear layers and tables in the forms that models are exported in.

A layer's parameters have the names of the exported tensors below the layer's
own, so that a module's state dict is the file.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from comera.errors import IntegrityError
from comera.torch.config import Factorisation, LowRank
from comera.torch.contraction import multiply, train_product

# Entries of rank at or below this act as 0, unless a layer says otherwise.
RANK_THRESHOLD = 1e-2

# Rows of a table at a time where all of them are needed.
_BLOCK_ROWS = 4096


def new_parameter(*shape: int, frozen: bool = False) -> nn.Parameter:
    """A parameter without memory: whatever a file claims, none is taken before
    it is checked. Module.to_empty gives it some."""
    return nn.Parameter(torch.empty(shape, device="meta"), requires_grad=not frozen)


def new_bias(width: int, wanted: bool) -> Optional[nn.Parameter]:
    return new_parameter(width) if wanted else None


def add_bias(y: Tensor, bias: Optional[Tensor]) -> Tensor:
    return y if bias is None else y + bias


def _check_modes(modes: Sequence[int], width: int, may_exceed: bool, what: str) -> None:
    product = math.prod(modes)
    if product < width or (product > width and not may_exceed):
        raise IntegrityError(f"{what}: modes {list(modes)} for a width of {width}")


class TensorTrain:
    """What layers with cores have in common: `core`, and while they are trained
    with rank entries `rank`, the entries d of every inner bond. In computations
    they are folded into the core on their left, and an entry at or below
    `threshold` acts as 0 and has no gradient."""

    core: nn.ParameterList
    rank: Optional[nn.ParameterList]
    threshold: float

    def _set_cores(self, shapes: Sequence[Tuple[int, ...]], entries: bool) -> None:
        """Parameters without memory, of shapes (left, mode ..., right)."""
        self.core = nn.ParameterList([new_parameter(*shape) for shape in shapes])
        # Exported models have their entries folded in.
        self.rank = None
        if entries:
            self.rank = nn.ParameterList([new_parameter(s[-1]) for s in shapes[:-1]])
        self.threshold = RANK_THRESHOLD

    def folded(self) -> List[Tensor]:
        """H_i = G_i D_i."""
        cores = list(self.core)
        if self.rank is None:
            return cores
        for i, d in enumerate(self.rank):
            cores[i] = cores[i] * torch.where(d > self.threshold, d, torch.zeros_like(d))
        return cores

    def bond_ranks(self) -> List[int]:
        """Extents of the inner bonds, dead entries included."""
        return [int(c.shape[-1]) for c in self.core][:-1]

    def size_modes(self) -> List[int]:
        """The factors n_i of the size, sum of n_i r_(i-1) r_i."""
        return [math.prod(c.shape[1:-1]) for c in self.core]


class TTLinear(TensorTrain, nn.Module):
    """Y = X W + bias, W (inputs, outputs) a tensor train: Y = (X A) B with A the
    product of the input cores and B of the output cores, or another grouping of the
    cores where that is cheaper (comera.torch.contraction). W is formed only where
    the ranks are so large that it is cheaper than all factored paths. With `silu`,
    Y = silu(X A) B + bias, and there is no W.

    `core`: the cores (left, mode, right); `rank`: with `entries`, the rank entries
    of the inner bonds. With all ranks 0 the layer is its bias.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        form: Factorisation,
        name: str = "",
        bias: bool = True,
        entries: bool = False,
    ) -> None:
        super().__init__()
        modes = [*form.input_modes, *form.output_modes]
        bonds = form.bonds()
        if len(bonds) != len(modes) + 1:
            raise IntegrityError(f"{name}: {len(form.ranks)} ranks, {len(modes)} cores")
        _check_modes(form.input_modes, inputs, False, name)
        # A vocabulary may have been rounded up to have factors.
        _check_modes(form.output_modes, outputs, True, name)
        self.inputs, self.outputs = inputs, outputs
        self.split = len(form.input_modes)
        self.silu = form.silu
        self._set_cores(
            [(bonds[i], mode, bonds[i + 1]) for i, mode in enumerate(modes)], entries
        )
        self.bias = new_bias(outputs, bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., outputs) of X (..., inputs)."""
        if x.shape[-1:] != (self.inputs,):
            raise RuntimeError(f"an input {tuple(x.shape)} for {self.inputs} inputs")
        silu = nn.functional.silu if self.silu else None
        rows = x.reshape(-1, self.inputs)
        y = multiply(rows, self.folded(), self.split, self.outputs, silu)
        return add_bias(y.reshape(*x.shape[:-1], self.outputs), self.bias)

    def dense_weight(self) -> Tensor:
        """W (inputs, outputs)."""
        if self.silu:
            raise ValueError("a layer with a function between its factors")
        cores = self.folded()
        a, b = train_product(cores[: self.split]), train_product(cores[self.split :])
        return (a[0] @ b[:, :, 0])[:, : self.outputs]

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.outputs}, ranks={self.bond_ranks()}"


class DenseLinear(nn.Module):
    """Y = X W + bias, `weight` (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = new_parameter(inputs, outputs)
        self.bias = new_bias(outputs, bias)

    def forward(self, x: Tensor) -> Tensor:
        return add_bias(x @ self.weight, self.bias)

    def dense_weight(self) -> Tensor:
        return self.weight

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class AdapterLinear(nn.Module):
    """LoRA: a frozen W and a product of thin matrices, Y = X W + scale / heads
    (X a) b + bias. More than one head: LTE as earlier versions exported it."""

    def __init__(self, inputs: int, outputs: int, form: LowRank, bias: bool = True) -> None:
        super().__init__()
        width = form.heads * form.rank
        self.factor = form.scale / form.heads
        self.weight = new_parameter(inputs, outputs, frozen=True)
        self.a = new_parameter(inputs, width)
        self.b = new_parameter(width, outputs)
        self.bias = new_bias(outputs, bias)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight + self.factor * ((x @ self.a) @ self.b)
        return add_bias(y, self.bias)

    def dense_weight(self) -> Tensor:
        return self.weight + self.factor * (self.a @ self.b)


class ColaLinear(nn.Module):
    """CoLA: Y = silu(X a) b + bias, which has no dense form; or, linear, Y = (X a) b
    + bias, which has."""

    def __init__(self, inputs: int, outputs: int, form: LowRank, bias: bool = True) -> None:
        super().__init__()
        self.linear = form.linear
        self.a = new_parameter(inputs, form.rank)
        self.b = new_parameter(form.rank, outputs)
        self.bias = new_bias(outputs, bias)

    def forward(self, x: Tensor) -> Tensor:
        t = x @ self.a
        t = t if self.linear else nn.functional.silu(t)
        return add_bias(t @ self.b, self.bias)

    def dense_weight(self) -> Tensor:
        if not self.linear:
            raise ValueError("a layer of CoLA with a function between its factors")
        return self.a @ self.b


def make_linear(
    inputs: int, outputs: int, form: Factorisation, name: str = "", bias: bool = True
) -> nn.Module:
    """The layer in the form of its factorisation."""
    if form.dense_tokens:
        raise IntegrityError(f"{name}: dense tokens of a linear layer")
    if form.has_cores:
        return TTLinear(inputs, outputs, form, name, bias)
    if form.low_rank is None:
        return DenseLinear(inputs, outputs, bias)
    if form.low_rank.kind == "cola":
        return ColaLinear(inputs, outputs, form.low_rank, bias)
    return AdapterLinear(inputs, outputs, form.low_rank, bias)


class Table(nn.Module):
    """Rows of a matrix (rows, width) by their numbers."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.rows, self.width = rows, width

    def forward(self, ids: Tensor) -> Tensor:
        raise NotImplementedError

    def project(self, x: Tensor) -> Tensor:
        """X times the transposed table."""
        raise NotImplementedError

    def dense_weight(self) -> Tensor:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.width}"


class DenseEmbedding(Table):
    """`weight` (rows, width)."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width)
        self.weight = new_parameter(rows, width)

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.weight)

    def project(self, x: Tensor) -> Tensor:
        return x @ self.weight.t()

    def dense_weight(self) -> Tensor:
        return self.weight


def _digits(numbers: Tensor, modes: Sequence[int]) -> List[Tensor]:
    """Mixed radix, the first mode the most significant."""
    digits = []
    for mode in reversed(modes):
        digits.append(numbers % mode)
        numbers = torch.div(numbers, mode, rounding_mode="floor")
    return digits[::-1]


class TTMEmbedding(TensorTrain, Table):
    """A tensor-train matrix whose rows are computed when they are looked up.

    `core`: the cores (left, row mode, column mode, right); `rank`: with `entries`,
    the rank entries of the inner bonds. What rows have in common is contracted once:
    distinct first halves of their digits, distinct second halves, then one product
    for each distinct row. The row `padding`, if there is one, is 0 and stays so.
    `dense_rows` are the rows of form.dense_tokens, in place of the train's.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        form: Factorisation,
        name: str = "",
        entries: bool = False,
        padding: Optional[int] = None,
    ) -> None:
        super().__init__(rows, width)
        modes = list(zip(form.input_modes, form.output_modes))
        bonds = form.bonds()
        if len(form.input_modes) != len(form.output_modes) or len(bonds) != len(modes) + 1:
            raise IntegrityError(f"{name}: modes and ranks do not belong together")
        if len(modes) < 2:
            raise IntegrityError(f"{name}: a table has two cores at least")
        _check_modes(form.input_modes, rows, True, name)
        _check_modes(form.output_modes, width, False, name)
        self.row_modes = list(form.input_modes)
        self.split = len(modes) // 2
        self.padding = padding
        self._set_cores(
            [(bonds[i], m, n, bonds[i + 1]) for i, (m, n) in enumerate(modes)], entries
        )
        self.dense_tokens = form.dense_tokens
        if self.dense_tokens and self.dense_tokens[-1] >= rows:
            raise IntegrityError(f"{name}: a dense token is outside 0 to {rows - 1}")
        if len(self.dense_tokens) == rows:
            raise IntegrityError(f"{name}: dense tokens leave none for the cores")
        self.dense_rows = (
            new_parameter(len(self.dense_tokens), width) if self.dense_tokens else None
        )

    def _chain(
        self, cores: Sequence[Tensor], first: int, end: int, numbers: Tensor
    ) -> Tensor:
        """(numbers, left bond * columns, right bond) of some cores."""
        digits = _digits(numbers, self.row_modes[first:end])
        product = None
        for core, digit in zip(cores[first:end], digits):
            left, _, columns, right = core.shape
            # (numbers, left, columns * right)
            picked = core.index_select(1, digit).transpose(0, 1)
            picked = picked.reshape(len(numbers), left, columns * right)
            if product is None:
                product = picked.reshape(len(numbers), left * columns, right)
            else:
                rows = product.shape[1] * columns
                product = torch.bmm(product, picked).reshape(len(numbers), rows, right)
        assert product is not None
        return product

    def forward(self, ids: Tensor) -> Tensor:
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.rows:
            raise IndexError(f"an id is outside 0 to {self.rows - 1}")
        unique, inverse = torch.unique(ids, return_inverse=True)
        tail = math.prod(self.row_modes[self.split :])
        heads, head_of = torch.unique(
            torch.div(unique, tail, rounding_mode="floor"), return_inverse=True
        )
        tails, tail_of = torch.unique(unique % tail, return_inverse=True)
        cores = self.folded()
        left = self._chain(cores, 0, self.split, heads)
        right = self._chain(cores, self.split, len(cores), tails)
        bond = left.shape[2]
        columns = right.shape[1] // bond if bond else self.width // max(1, left.shape[1])
        right = right.reshape(len(tails), bond, columns)
        rows = torch.bmm(left[head_of], right[tail_of]).reshape(len(unique), self.width)
        rows = self._with_dense_rows(unique, rows)
        if self.padding is not None:
            rows = rows.masked_fill((unique == self.padding)[:, None], 0)
        # Under autocast too, rows are of the parameters' type, as nn.Embedding's are.
        return rows.to(self.core[0].dtype)[inverse]

    def _with_dense_rows(self, ids: Tensor, rows: Tensor) -> Tensor:
        if self.dense_rows is None:
            return rows
        tokens = torch.tensor(self.dense_tokens, dtype=ids.dtype, device=ids.device)
        place = torch.searchsorted(tokens, ids).clamp(max=len(tokens) - 1)
        is_dense = tokens[place] == ids
        own = self.dense_rows[place].to(rows.dtype)
        return torch.where(is_dense[:, None], own, rows)

    def _blocks(self) -> List[Tensor]:
        device = self.core[0].device
        return [
            torch.arange(start, min(start + _BLOCK_ROWS, self.rows), device=device)
            for start in range(0, self.rows, _BLOCK_ROWS)
        ]

    def project(self, x: Tensor) -> Tensor:
        # Block by block, computed again going back: the table is never there as
        # a whole.
        def product(x: Tensor, ids: Tensor) -> Tensor:
            return x @ self.forward(ids).t()

        blocks = self._blocks()
        if not torch.is_grad_enabled():
            return torch.cat([product(x, ids) for ids in blocks], dim=-1)
        parts = [checkpoint(product, x, ids, use_reentrant=False) for ids in blocks]
        return torch.cat(parts, dim=-1)

    def dense_weight(self) -> Tensor:
        return torch.cat([self.forward(ids) for ids in self._blocks()])

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.width}, ranks={self.bond_ranks()}"


def make_table(rows: int, width: int, form: Factorisation, name: str = "") -> Table:
    if form.low_rank is not None or form.silu:
        raise IntegrityError(f"{name}: a table in the form of a linear layer")
    if form.has_cores:
        return TTMEmbedding(rows, width, form, name)
    return DenseEmbedding(rows, width)


class LayerNorm(nn.Module):
    """`gamma` and `beta` over the last dimension."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.gamma = new_parameter(width)
        self.beta = new_parameter(width)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        shape: Any = self.gamma.shape
        return nn.functional.layer_norm(x, shape, self.gamma, self.beta, self.epsilon)


class RmsNorm(nn.Module):
    """x / sqrt(mean of the squares + epsilon) * gamma, over the last dimension."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.gamma = new_parameter(width)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        squares = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(squares + self.epsilon) * self.gamma
