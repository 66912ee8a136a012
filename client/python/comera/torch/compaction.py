"""Dead rank entries cut out of a module and of its optimiser's state."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from comera.torch.layers import TensorTrain
from comera.torch.tensorize import tensor_trains


def _kept(layer: TensorTrain) -> List[Tensor]:
    """Indices of the entries of every inner bond that stay; none anywhere if a bond
    has none."""
    assert layer.rank is not None
    kept = [torch.nonzero(d.detach() > layer.threshold)[:, 0] for d in layer.rank]
    if any(len(k) == 0 for k in kept):
        return [k[:0] for k in kept]
    return kept


class Swap:
    """Replaces parameters by others of new shapes, in their modules and in an
    optimiser's groups, and what the optimiser knows about them by what `cut` makes
    of it: (value of the state, shape of the parameter) -> new value."""

    def __init__(self, optimizer: Optional[torch.optim.Optimizer]) -> None:
        self._optimizer = optimizer
        self._places: Dict[int, Tuple[List[Any], int]] = {}
        if optimizer is not None:
            for group in optimizer.param_groups:
                for i, parameter in enumerate(group["params"]):
                    self._places[id(parameter)] = (group["params"], i)

    def parameter(self, owner: nn.ParameterList, index: int, values: Tensor) -> nn.Parameter:
        old = owner[index]
        # DDP waits for the gradient of whatever wants one. What was empty wanted none
        # for that reason alone.
        wanted = (old.requires_grad or old.numel() == 0) and values.numel() > 0
        new = nn.Parameter(values, requires_grad=wanted)
        owner[index] = new
        place = self._places.get(id(old))
        if place is not None:
            place[0][place[1]] = new
        return new

    def state(self, old: nn.Parameter, new: nn.Parameter, cut: Any) -> None:
        if self._optimizer is None or old not in self._optimizer.state:
            return
        state = self._optimizer.state.pop(old)
        self._optimizer.state[new] = {key: cut(key, value) for key, value in state.items()}


def _check_state(
    optimizer: torch.optim.Optimizer, name: str, parameters: Sequence[nn.Parameter]
) -> None:
    for parameter in parameters:
        for key, value in optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor) or value.dim() == 0 or value.numel() == 1:
                continue
            if value.shape != parameter.shape:
                raise ValueError(
                    f"{name}: {type(optimizer).__name__} keeps {key!r} of shape "
                    f"{tuple(value.shape)} for a parameter of shape "
                    f"{tuple(parameter.shape)}, which cannot be cut with it"
                )


def _cut(values: Tensor, dims: Sequence[Tuple[int, Tensor]]) -> Tensor:
    for dim, index in dims:
        values = values.index_select(dim, index)
    return values.contiguous()


@torch.no_grad()
def compact(module: nn.Module, optimizer: Optional[torch.optim.Optimizer] = None) -> int:
    """Cuts rank entries at or below their layer's threshold out of the cores, and out
    of the optimiser's state: every tensor in it that has the shape of its parameter
    (exp_avg, exp_avg_sq, momentum_buffer, ...) is cut like the parameter, steps stay.
    A layer with a bond of which no entry is left loses all cores, and is its bias;
    its empty parameters want no gradient.
    Returns the number of parameters that are gone; 0: nothing had died.

    What the module computes stays the same up to rounding, and so do all further
    steps. Cut parameters are new objects, in the same places of the optimiser's
    groups: whoever keeps parameters elsewhere fetches them again, and a module in
    DDP is wrapped again. Gradients are dropped: call it between a step and the next
    backward pass.

    ValueError: the optimiser keeps state of another shape (factored, or flat); the
    module is then as it was.
    """
    plans = []
    for name, layer in tensor_trains(module):
        assert layer.rank is not None
        kept = _kept(layer)
        if all(len(k) == len(d) for k, d in zip(kept, layer.rank)):
            continue
        if optimizer is not None:
            _check_state(optimizer, name, [*layer.core, *layer.rank])
        plans.append((layer, kept))
    swap = Swap(optimizer)
    removed = 0

    def shrink(owner: nn.ParameterList, index: int, dims: List[Tuple[int, Tensor]]) -> int:
        old = owner[index]
        new = swap.parameter(owner, index, _cut(old.detach(), dims))

        def cut(_: str, value: Any) -> Any:
            same = isinstance(value, Tensor) and value.shape == old.shape
            return _cut(value, dims) if same else value

        swap.state(old, new, cut)
        return int(old.numel() - new.numel())

    for layer, kept in plans:
        assert layer.rank is not None
        last = len(layer.core) - 1
        for i in range(last + 1):
            dims = [(0, kept[i - 1])] if i > 0 else []
            if i < last:
                dims.append((layer.core[i].dim() - 1, kept[i]))
            removed += shrink(layer.core, i, dims)
        for i, k in enumerate(kept):
            removed += shrink(layer.rank, i, [(0, k)])
    return removed


@torch.no_grad()
def load_state_dict(
    module: nn.Module,
    state: Mapping[str, Tensor],
    optimizer: Optional[torch.optim.Optimizer] = None,
) -> None:
    """module.load_state_dict for the state of the same module at other ranks: its
    tensor-train layers take the ranks of the state first. With `optimizer`, the new
    parameters take the places of the old ones in its groups, and what it knew about
    them is dropped: load its state afterwards.

    RuntimeError: the state is not that of such a module."""
    swap = Swap(optimizer)
    for name, layer in tensor_trains(module):
        prefix = f"{name}." if name else ""
        for kind in ("core", "rank"):
            owner = getattr(layer, kind)
            for i, old in enumerate(owner):
                wanted = state.get(f"{prefix}{kind}.{i}")
                if wanted is None:
                    raise RuntimeError(
                        f"{prefix}{kind}.{i} is not in the state: it is of another "
                        "module, or of one that was tensorised otherwise"
                    )
                middle = kind == "rank" or wanted.shape[1:-1] == old.shape[1:-1]
                if wanted.dim() != old.dim() or not middle:
                    raise RuntimeError(
                        f"{prefix}{kind}.{i} is {tuple(wanted.shape)} in the state, "
                        f"{tuple(old.shape)} in the module"
                    )
                if wanted.shape == old.shape:
                    continue
                swap.parameter(owner, i, old.new_empty(wanted.shape))
                if optimizer is not None:
                    optimizer.state.pop(old, None)
    module.load_state_dict(state)
