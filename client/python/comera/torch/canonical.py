"""Trains rewritten so that the entries of a bond are as unequal in importance as
they can be (worker/trainer/late/canonical_form)."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor, nn

from comera.torch import trains
from comera.torch.layers import TTLinear, TensorTrain
from comera.torch.tensorize import tensor_trains

# The least weight of a slice in its core's second moment: a step that is far too
# long for a slice does more harm than one that is too short.
_LEAST_WEIGHT = 0.1
# Keys of an optimiser's state that hold second moments.
_SECOND = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum")


def _weights(sigma: Tensor) -> Tensor:
    """Singular values relative to their mean, and not below _LEAST_WEIGHT."""
    mean = float(sigma.mean())
    if mean <= 0:
        return torch.ones_like(sigma)
    return (sigma / mean).clamp(min=_LEAST_WEIGHT)


def _moments(
    state: Dict[str, Any], shape: torch.Size, scale: Tensor, weight: Tensor
) -> None:
    """Restarts first moments at 0, and spreads second moments as `weight`: their mean
    of (value * scale)."""
    for key, value in state.items():
        if not isinstance(value, Tensor) or value.shape != shape:
            continue
        if key in _SECOND:
            mean = float((value.double() * scale).mean())
            value.copy_((mean * weight).to(value.dtype))
        else:
            value.zero_()


def _rms(core: Tensor) -> float:
    return float(core.square().mean().sqrt())


def _rewrite(
    layer: TensorTrain, first: int, end: int, optimizer: Optional[torch.optim.Optimizer]
) -> List[Tensor]:
    """Rewrites the cores [first, end), a train of its own whose outer bonds keep
    their basis; returns the weights of its inner bonds."""
    assert layer.rank is not None
    cores = layer.core[first:end]
    folded = [h.detach().double().cpu() for h in layer.folded()[first:end]]
    flat = [h.reshape(h.shape[0], -1, h.shape[-1]) for h in folded]
    shapes = [h.shape for h in flat]
    flat[0] = flat[0].reshape(1, -1, flat[0].shape[2])
    flat[-1] = flat[-1].reshape(flat[-1].shape[0], -1, 1)
    before = [_rms(h) for h in flat]
    values, sigmas = trains.singular_form(flat, surplus=False)
    values = trains.balance(values, before)
    inner = [_weights(s) for s in sigmas]
    for i, (core, value) in enumerate(zip(cores, values)):
        now = _rms(value)
        ratio = before[i] / now if now > 0 else 1.0
        left, mode, right = shapes[i]
        scale = torch.full((right,), ratio**2, dtype=torch.float64)
        if first + i < len(layer.rank):
            scale /= layer.rank[first + i].detach().double().cpu() ** 2
        one = torch.ones(1, dtype=torch.float64)
        a = inner[i - 1] if i > 0 else one.expand(left)
        b = inner[i] if i + 1 < len(values) else one.expand(right)
        weight = (a[:, None, None] * b).expand(left, mode, right)
        core.copy_(value.reshape(core.shape).to(core.dtype))
        if optimizer is not None and core in optimizer.state:
            state = optimizer.state[core]
            _moments(state, core.shape, scale.to(core.device),
                     weight.reshape(core.shape).to(core.device))
    return inner


@torch.no_grad()
def make_canonical(
    module: nn.Module, optimizer: Optional[torch.optim.Optimizer] = None
) -> None:
    """Rewrites every layer with rank entries, all of them alive (compact() first),
    in the basis in which the k-th slices on both sides of a bond carry the k-th
    singular value of its unfolding, half each. What the layer computes stays the
    same; all entries become 1, and cores keep their relative root mean squares.

    In the optimiser's state the first moments of these parameters restart at 0, and
    second moments become their mean per core and bond, weighted by the singular
    values beside each slice."""
    for _, layer in tensor_trains(module):
        assert layer.rank is not None
        if 0 in layer.bond_ranks() or len(layer.core) < 2:
            continue
        order = len(layer.core)
        inner = [torch.ones(n, dtype=torch.float64) for n in layer.bond_ranks()]
        parts = [(0, order)]
        if isinstance(layer, TTLinear) and layer.silu:
            parts = [(0, layer.split), (layer.split, order)]
        for first, end in parts:
            inner[first : end - 1] = _rewrite(layer, first, end, optimizer)
        for d, weight in zip(layer.rank, inner):
            if optimizer is not None and d in optimizer.state:
                weight = weight.to(d.device)
                _moments(optimizer.state[d], d.shape, d.detach().double() ** 2, weight**2)
            d.fill_(1)
