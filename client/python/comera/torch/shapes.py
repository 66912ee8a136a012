"""Modes and ranks of layers, chosen as the engine chooses them
(worker/trainer/model/config): balanced factors, large ones outside, and cores
only as far as they pay."""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

from comera.torch.config import Factorisation

# On each side of a linear layer at most; rows and columns of a table.
_MOST_MODES = 3
_TABLE_MODES = 4
# A train of more cores has to be less than half as large to be worth what it
# cannot express (docs/concepts.md).
_WORTH_A_CORE = 2


def _exact_modes(extent: int, count: int) -> List[int]:
    """`count` factors of `extent` with the smallest sum, descending."""
    best: Optional[List[int]] = None

    def search(rest: int, chosen: List[int], most: int) -> None:
        nonlocal best
        left = count - len(chosen)
        if left == 0:
            if rest == 1 and (best is None or sum(chosen) < sum(best)):
                best = chosen
            return
        for mode in range(min(rest, most), 0, -1):
            # Descending, so that the first is at least the root of what is left.
            if mode**left < rest:
                break
            if rest % mode == 0:
                search(rest // mode, [*chosen, mode], mode)

    search(extent, [], extent)
    assert best is not None
    return best


def _modes_at_least(extent: int, count: int) -> List[int]:
    """`count` nearly equal factors of a number that is not below `extent`."""
    modes = [max(1, int(extent ** (1.0 / count) + 1e-9))] * count
    i = 0
    while math.prod(modes) < extent:
        modes[i] += 1
        i = (i + 1) % count
    return modes


def cut_ranks(modes: Sequence[int], ranks: Sequence[int]) -> Tuple[int, ...]:
    """The ranks, none above what its bond can hold."""
    cut = list(ranks)
    bound = 1
    for i in range(len(cut)):
        bound = cut[i] = min(cut[i], bound * modes[i])
    bound = 1
    for i in reversed(range(len(cut))):
        bound = cut[i] = min(cut[i], bound * modes[i + 1])
    return tuple(cut)


def size_of(modes: Sequence[int], ranks: Sequence[int]) -> int:
    """Parameters of the cores: the sum of n_i r_(i-1) r_i, 0 if a rank is 0."""
    bonds = [1, *ranks, 1]
    if 0 in bonds:
        return 0
    return sum(n * bonds[i] * bonds[i + 1] for i, n in enumerate(modes))


def size_modes(form: Factorisation, table: bool) -> List[int]:
    """The factors n_i of the size: of a table, row mode times column mode."""
    if table:
        return [m * n for m, n in zip(form.input_modes, form.output_modes)]
    return [*form.input_modes, *form.output_modes]


def _with_ranks(
    input_modes: Sequence[int], output_modes: Sequence[int], ranks: Sequence[int], table: bool
) -> Factorisation:
    form = Factorisation(tuple(input_modes), tuple(output_modes))
    modes = size_modes(form, table)
    listed = list(ranks) * (len(modes) - 1) if len(ranks) == 1 else list(ranks)
    if len(listed) != len(modes) - 1:
        raise ValueError(f"{len(listed)} ranks for {len(modes) - 1} bonds")
    return Factorisation(form.input_modes, form.output_modes, cut_ranks(modes, listed))


def linear_form(inputs: int, outputs: int, ranks: Sequence[int]) -> Factorisation:
    """How a layer (inputs, outputs) is factorised at one rank, or at ranks that are
    listed, which say how many cores there are. ValueError: they do not fit."""

    def form(count: int) -> Factorisation:
        backwards = _exact_modes(outputs, count)[::-1]
        return _with_ranks(_exact_modes(inputs, count), backwards, ranks, False)

    if len(ranks) > 1:
        if len(ranks) % 2 == 0:
            raise ValueError(f"{len(ranks)} ranks: a layer has an odd number of bonds")
        return form((len(ranks) + 1) // 2)
    forms = [form(count) for count in range(1, _MOST_MODES + 1)]
    sizes = [size_of(size_modes(f, False), f.ranks) for f in forms]
    return next(f for f, s in zip(forms, sizes) if s <= _WORTH_A_CORE * min(sizes))


def table_form(rows: int, width: int, ranks: Sequence[int]) -> Factorisation:
    """How a table (rows, width) is factorised; its row modes may be more than its
    rows. ValueError: the ranks do not fit."""
    count = _TABLE_MODES if len(ranks) == 1 else len(ranks) + 1
    return _with_ranks(_modes_at_least(rows, count), _exact_modes(width, count), ranks, True)
