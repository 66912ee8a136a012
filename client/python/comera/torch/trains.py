"""Values of tensor trains: at random, from a matrix, and with the singular values
of their bonds in sight. All in double precision; cores are (left, mode, right)."""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

# Singular values below this share of the largest are rounding.
_NEGLIGIBLE = 1e-7
# The scale of the slices that can learn in a train of 0.
_SURPLUS = 1e-2


def _orthonormal(long: int, short: int, generator: Optional[torch.Generator]) -> Tensor:
    """(long, short), orthonormal columns, uniformly distributed."""
    drawn = torch.randn(long, short, dtype=torch.float64, generator=generator)
    q, r = torch.linalg.qr(drawn)
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)


def random_train(
    modes: Sequence[int],
    ranks: Sequence[int],
    middle: int,
    deviation: float,
    generator: Optional[torch.Generator] = None,
) -> List[Tensor]:
    """The engine's start (worker/trainer/model/linear/initialise): cores with
    orthonormal columns of their left unfolding before core `middle`, and rows of
    their right one from there, times one factor. All nonzero singular values of W
    are equal then, and its norm is that of a dense W of this deviation."""
    bonds = [1, *ranks, 1]
    scale = deviation * math.sqrt(math.prod(modes) / bonds[middle])
    scale **= 1 / len(modes)
    cores = []
    for i, mode in enumerate(modes):
        left, right = bonds[i], bonds[i + 1]
        kept = right if i < middle else left
        other = left * mode * right // kept
        q = _orthonormal(max(kept, other), min(kept, other), generator)
        by_kept = q if kept > other else q.t()  # (kept, other)
        values = by_kept.t() if i < middle else by_kept
        cores.append(scale * values.reshape(left, mode, right))
    return cores


def _leading(gram: Tensor, count: int) -> Tensor:
    """Leading eigenvectors of a symmetric matrix, as columns."""
    return torch.linalg.eigh(gram)[1].flip(1)[:, :count]


def _padded(matrix: Tensor, extent: int, dim: int) -> Tensor:
    """The matrix with zeros behind it, up to `extent` rows (0) or columns (1)."""
    missing = list(matrix.shape)
    missing[dim] = extent - missing[dim]
    return torch.cat([matrix, matrix.new_zeros(missing)], dim)


def singular_form(cores: Sequence[Tensor], surplus: bool) -> Tuple[List[Tensor], List[Tensor]]:
    """The same train with its bonds in the basis in which the k-th slices on both
    sides of a bond carry the k-th singular value of its unfolding, half each (the
    Vidal form, arXiv quant-ph/0301063), and those values, bond by bond, descending.
    Slices of no singular value are 0 on both sides; with `surplus` they are small
    on the left, so that they add nothing and can still learn."""
    trains = [core.clone() for core in cores]
    for i in reversed(range(1, len(trains))):
        left, mode, right = trains[i].shape
        q, r = torch.linalg.qr(trains[i].reshape(left, mode * right).t())
        trains[i] = _padded(q.t(), left, 0).reshape(left, mode, right)
        before = trains[i - 1]
        trains[i - 1] = before @ _padded(r.t(), left, 1)
    sigmas: List[Tensor] = []
    # What is to be divided out of the core's left side.
    divisor = trains[0].new_ones(1)
    for i, core in enumerate(trains):
        left, mode, right = core.shape
        if i + 1 == len(trains):
            trains[i] = core * divisor[:, None, None]
            break
        u, s, v = torch.linalg.svd(core.reshape(left * mode, right), full_matrices=False)
        u, s, v = _padded(u, right, 1), _padded(s, right, 0), _padded(v, right, 0)
        s = torch.where(s > _NEGLIGIBLE * s.max(), s, torch.zeros_like(s))
        alive = s > 0
        root = s.sqrt()
        if surplus:
            least = float(root[alive].min()) if bool(alive.any()) else _SURPLUS
            root = torch.where(alive, root, torch.full_like(root, least))
        trains[i] = u.reshape(left, mode, right) * root * divisor[:, None, None]
        trains[i + 1] = torch.tensordot(s[:, None] * v, trains[i + 1], 1)
        divisor = torch.where(alive, 1 / s.sqrt(), torch.zeros_like(s))
        sigmas.append(s)
    return trains, sigmas


def balance(cores: Sequence[Tensor], wanted: Sequence[float]) -> List[Tensor]:
    """The same product with root mean squares in these proportions."""
    factors = []
    for core, want in zip(cores, wanted):
        now = float(core.square().mean().sqrt()) if core.numel() else 0.0
        factors.append(want / now if now > 0 and want > 0 else 1.0)
    root = math.exp(sum(math.log(f) for f in factors) / len(factors))
    return [core * (factor / root) for core, factor in zip(cores, factors)]


def decompose(
    values: Tensor, modes: Sequence[int], ranks: Sequence[int]
) -> Tuple[List[Tensor], float]:
    """Truncated TT-SVD (Oseledets, SIAM J. Sci. Comput. 33 (2011), algorithm 1) of a
    tensor of these modes, and the relative error ||W - W'|| / ||W|| (Frobenius; 0
    for W = 0). From either end towards the middle, whichever side of an unfolding is
    smaller; the cores come out in singular_form and with equal norms, as the engine's
    (worker/trainer/model/weights/tt_svd). Wants at least 2 modes, and ranks that
    cut_ranks has cut."""
    rest = values.reshape(-1).to(torch.float64)
    norm = float(rest.norm())
    cores: List[Tensor] = [rest] * len(modes)
    left, right = 0, len(modes) - 1
    left_rank = right_rank = 1
    while left < right:
        rows, columns = left_rank * modes[left], modes[right] * right_rank
        if rows <= columns:
            matrix = rest.reshape(rows, -1)
            u = _leading(matrix @ matrix.t(), ranks[left])
            cores[left] = u.reshape(left_rank, modes[left], ranks[left])
            rest = u.t() @ matrix
            left_rank = ranks[left]
            left += 1
        else:
            matrix = rest.reshape(-1, columns)
            v = _leading(matrix.t() @ matrix, ranks[right - 1])
            cores[right] = v.t().reshape(ranks[right - 1], modes[right], right_rank)
            rest = matrix @ v
            right_rank = ranks[right - 1]
            right -= 1
    cores[left] = rest.reshape(left_rank, modes[left], right_rank)
    lost = max(0.0, norm**2 - float(cores[left].square().sum()))
    trains = singular_form(cores, surplus=True)[0]
    norms = [1 / math.sqrt(core.numel()) for core in trains]
    return balance(trains, norms), math.sqrt(lost) / norm if norm > 0 else 0.0
