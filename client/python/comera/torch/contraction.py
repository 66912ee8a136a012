"""Y = X W through any grouping of the cores of W, as the engine does it.

The cores are cut into groups of neighbours. Each group is contracted once,
whatever the batch, and X then absorbs the groups from left to right, one GEMM
each. With the cut between input and output modes that is T = X A, Y = T B; with
no cut, Y = X W; with all cuts, core by core. Backward, autograd multiplies the
same matrices in reverse: the batch is gone from the gradient of each group, and
those of the cores follow without it. The cheapest grouping is chosen by its
multiply-adds (kernels/contraction/cost_model.h does so with measured speeds).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

# (left bond, mode, right bond).
Shape = Tuple[int, int, int]

# What one call costs beside its arithmetic, in multiply-adds: microseconds.
_CALL = 200_000
# Up to so many cores every grouping is looked at.
_MOST_CORES = 8


def _sweep_cost(shapes: Sequence[Shape]) -> int:
    """Multiply-adds of contracting a group from its left end."""
    cost, rows = 0, shapes[0][0] * shapes[0][1]
    for left, mode, right in shapes[1:]:
        cost += rows * left * mode * right + _CALL
        rows *= mode
    return cost


def _mirrored(shapes: Sequence[Shape]) -> List[Shape]:
    return [(right, mode, left) for left, mode, right in reversed(shapes)]


def train_product(cores: Sequence[Tensor]) -> Tensor:
    """(left, product of modes, right) of cores (left, mode, right), from the end
    that is cheaper to begin at."""
    shapes = [(c.shape[0], c.shape[1], c.shape[2]) for c in cores]
    first, last = shapes[0][0], shapes[-1][2]
    if _sweep_cost(shapes) <= _sweep_cost(_mirrored(shapes)):
        product = cores[0].reshape(first * shapes[0][1], shapes[0][2])
        for core, (left, mode, right) in zip(cores[1:], shapes[1:]):
            rows = product.shape[0] * mode
            product = (product @ core.reshape(left, mode * right)).reshape(rows, right)
        return product.reshape(first, math.prod(s[1] for s in shapes), last)
    product = cores[-1].reshape(shapes[-1][0], shapes[-1][1] * last)
    for core, (left, mode, right) in zip(cores[-2::-1], shapes[-2::-1]):
        columns = mode * product.shape[1]
        product = (core.reshape(left * mode, right) @ product).reshape(left, columns)
    return product.reshape(first, math.prod(s[1] for s in shapes), last)


def path_cost(shapes: Sequence[Shape], split: int, ends: Sequence[int], rows: int) -> int:
    """Multiply-adds of a forward pass over `rows` rows with groups that end at
    `ends`; the first `split` cores have the input modes. A backward pass takes
    twice as many."""
    cost = start = 0
    inputs_left = math.prod(s[1] for s in shapes[:split])
    outputs_done = 1
    for end in ends:
        group = shapes[start:end]
        cost += min(_sweep_cost(group), _sweep_cost(_mirrored(group)))
        taken = math.prod(s[1] for s in shapes[start : min(end, split)])
        added = math.prod(s[1] for s in shapes[max(start, split) : end])
        inputs_left //= taken
        others = inputs_left * outputs_done
        cost += rows * others * group[0][0] * taken * added * group[-1][2] + _CALL
        outputs_done *= added
        start = end
    return cost


def _paths(order: int, split: int, needs_split: bool, whole: bool) -> Iterator[Tuple[int, ...]]:
    inner = range(1, order)
    if order > _MOST_CORES:
        choices: Iterator[Tuple[int, ...]] = iter([(split,), (), tuple(inner)])
    else:
        choices = (c for n in range(order) for c in combinations(inner, n))
    for cuts in choices:
        if needs_split and split not in cuts:
            continue
        if whole and any(cut > split for cut in cuts):
            continue
        yield (*cuts, order)


@lru_cache(maxsize=4096)
def choose_path(
    shapes: Tuple[Shape, ...], split: int, rows: int, needs_split: bool, whole: bool
) -> Tuple[int, ...]:
    """Ends of the groups of the cheapest path. `needs_split`: a function lies
    between the two halves. `whole`: not all columns are wanted, so that the output
    modes must be in one group."""
    best: Tuple[int, ...] = (split, len(shapes))
    cost = path_cost(shapes, split, best, rows)
    for ends in _paths(len(shapes), split, needs_split, whole):
        other = path_cost(shapes, split, ends, rows)
        if other < cost:
            best, cost = ends, other
    return best


class _Transpose(torch.autograd.Function):
    """x.t(), whose backward pass hands a contiguous gradient to x. Without that,
    x may come from a GELU, and PyTorch 1.13 on a CPU computes the gradient of
    GELU wrongly where it is given the transpose of a contiguous tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.t().contiguous()


def multiply(
    x: Tensor,
    cores: Sequence[Tensor],
    split: int,
    outputs: int,
    between: Optional[Callable[[Tensor], Tensor]] = None,
) -> Tensor:
    """(rows, outputs) of X (rows, inputs), through the cheapest path. `between` is
    applied to T (rows, rank) between the halves."""
    rows = x.shape[0]
    shapes = tuple((c.shape[0], c.shape[1], c.shape[2]) for c in cores)
    if any(0 in shape for shape in shapes):
        # The layer is gone; its input still has a gradient, of 0.
        return (x @ x.new_zeros(x.shape[1], 0)) @ x.new_zeros(0, outputs)
    width = math.prod(s[1] for s in shapes[split:])
    ends = choose_path(shapes, split, rows, between is not None, outputs < width)
    # While input modes are left, rows are the last axis, so that every product is
    # one GEMM on what lies in memory.
    turned = ends[0] < split
    state = _Transpose.apply(x) if turned else x
    start = 0
    for end in ends:
        group = train_product(cores[start:end])
        taken = group.shape[0] * math.prod(s[1] for s in shapes[start : min(end, split)])
        matrix = group.reshape(taken, group.numel() // taken)
        if end < split:
            state = matrix.t() @ state.reshape(taken, state.numel() // taken)
        else:
            if turned and start < split:
                state = state.reshape(taken, rows).t()
            if end == len(shapes) and outputs < width:
                matrix = matrix[:, :outputs]
            state = state.reshape(state.numel() // taken, taken) @ matrix
        if end == split and between is not None:
            state = between(state)
        start = end
    return state.reshape(rows, outputs)
