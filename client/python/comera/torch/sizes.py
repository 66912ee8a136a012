"""How large the tensorised layers of a module are at their rank entries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Dict, List, Set

import torch
from torch import Tensor, nn

from comera.torch.layers import TTLinear
from comera.torch.tensorize import tensor_trains


@dataclass(frozen=True)
class Sizes:
    """Figures of all tensorised layers together, in parameters."""

    counted: float
    relaxed: float
    # Entries above the threshold, and the sum of their values.
    alive_entries: int
    alive_sum: float


class SizeMeasure:
    """The size S and its relaxation S^: with n_i the modes (of a table, row mode times
    column mode) and d_i the entries of bond i, both outer norms being 1,

        S  = sum over layers and i of n_i |d_(i-1)|_0 |d_i|_0
        S^ = sum over layers and i of n_i |d_(i-1)|_1 |d_i|_1

    where only entries above a layer's threshold count, and a layer with a bond of
    which none is alive counts 0 (worker/trainer/objective/size_measure). Bound to the
    parameters that the module has: after a compaction, make a new one.
    """

    def __init__(self, module: nn.Module) -> None:
        self.layers = list(tensor_trains(module))
        self.modes = [layer.size_modes() for _, layer in self.layers]
        self.bonds: List[nn.Parameter] = []
        # The layer's first bond in `bonds`.
        self.first: List[int] = []
        thresholds = []
        for _, layer in self.layers:
            assert layer.rank is not None
            self.first.append(len(self.bonds))
            self.bonds += list(layer.rank)
            thresholds += [layer.threshold] * len(layer.rank)
        self.extents = [len(d) for d in self.bonds]
        extents = torch.tensor(self.extents, dtype=torch.long)
        device = self.bonds[0].device if self.bonds else torch.device("cpu")
        self._bond_of = torch.arange(len(self.bonds)).repeat_interleave(extents).to(device)
        self.thresholds = torch.tensor(thresholds).repeat_interleave(extents).to(device)
        cores = {id(p) for _, layer in self.layers for p in layer.core}
        entries = {id(p) for p in self.bonds}
        self.cores = [p for p in module.parameters() if id(p) in cores]
        # Parameters that no rank changes; entries are folded into cores.
        self.fixed = sum(p.numel() for p in _others(module, cores | entries))
        self._l1: List[float] = []
        self._counts: List[float] = []

    def entries(self) -> Tensor:
        """All entries, bond by bond."""
        if not self.bonds:
            return torch.zeros(0)
        return torch.cat([d.detach() for d in self.bonds])

    def measure(self) -> Sizes:
        """Waits for the device."""
        entries = self.entries()
        alive = (entries > self.thresholds).double()
        sums = torch.zeros(2, len(self.bonds), dtype=torch.float64, device=entries.device)
        sums.index_add_(1, self._bond_of, torch.stack([entries * alive, alive]))
        self._l1, self._counts = sums.tolist()
        counted = relaxed = 0.0
        for layer in range(len(self.layers)):
            l1 = self._norms(layer, self._l1)
            counts = self._norms(layer, self._counts)
            if 0 in counts:
                continue
            for i, mode in enumerate(self.modes[layer]):
                counted += mode * counts[i] * counts[i + 1]
                relaxed += mode * l1[i] * l1[i + 1]
        return Sizes(counted, relaxed, int(sum(self._counts)), sum(self._l1))

    def _norms(self, layer: int, of_bonds: List[float]) -> List[float]:
        first = self.first[layer]
        return [1.0, *of_bonds[first : first + len(self.modes[layer]) - 1], 1.0]

    def slopes(self) -> List[float]:
        """dS^ / d(entry), one number for all alive entries of a bond, from the last
        measure()."""
        result = []
        for layer, modes in enumerate(self.modes):
            l1 = self._norms(layer, self._l1)
            gone = 0 in self._norms(layer, self._counts)
            for i in range(len(modes) - 1):
                slope = modes[i] * l1[i] + modes[i + 1] * l1[i + 2]
                result.append(0.0 if gone else slope)
        return result

    def add_to_gradients(self, by_bond: List[float]) -> None:
        """Adds a number per bond to the gradients of its alive entries."""
        if not self.bonds:
            return
        entries = self.entries()
        values = torch.tensor(by_bond, dtype=entries.dtype, device=entries.device)
        terms = values[self._bond_of] * (entries > self.thresholds)
        for d, term in zip(self.bonds, terms.split(self.extents)):
            if not d.requires_grad:
                continue
            term = term.to(d.dtype)
            d.grad = term.clone() if d.grad is None else d.grad.add_(term)

    def ranks(self) -> Dict[str, List[int]]:
        """Alive entries of every bond, by layer, from the last measure()."""
        result = {}
        for layer, (name, _) in enumerate(self.layers):
            counts = [int(n) for n in self._norms(layer, self._counts)[1:-1]]
            result[name] = [0] * len(counts) if 0 in counts else counts
        return result


def _others(module: nn.Module, known: Set[int]) -> List[nn.Parameter]:
    return [p for p in module.parameters() if id(p) not in known]


def num_parameters(module: nn.Module) -> int:
    """The size S of a whole module: parameters of the cores at the alive entries, and
    everything that is never compressed; rank entries count as folded in."""
    measure = SizeMeasure(module)
    return measure.fixed + int(measure.measure().counted)


def dense_parameters(module: nn.Module) -> int:
    """The parameters that the whole module would have with matrices in place of its
    tensor trains."""
    measure = SizeMeasure(module)
    return measure.fixed + sum(
        layer.inputs * layer.outputs if isinstance(layer, TTLinear) else layer.rows * layer.width
        for _, layer in measure.layers
    )


def ranks(module: nn.Module) -> Dict[str, List[int]]:
    """Alive entries of every inner bond of every tensorised layer."""
    measure = SizeMeasure(module)
    measure.measure()
    return measure.ranks()


def parameter_groups(
    module: nn.Module,
    cores: float = 1e-3,
    ranks: float = 1e-2,
    others: float = 1e-3,
    weight_decay: float = 0.0,
) -> List[Dict[str, object]]:
    """Groups for torch.optim.AdamW and others, with the learning rates of the cores,
    of the rank entries and of all else, as the engine has them. `weight_decay` is for
    dense matrices alone: not for cores and rank entries, whose product it would
    change, nor for biases and norms. An entry falls by at most about the rate of
    `ranks` per step, so that pruning takes more than 1 / rate steps."""
    measure = SizeMeasure(module)
    known = {id(p) for p in itertools.chain(measure.cores, measure.bonds)}
    rest = [p for p in _others(module, known) if p.requires_grad]
    groups: List[Dict[str, object]] = [
        {"params": measure.cores, "lr": cores, "weight_decay": 0.0},
        {"params": measure.bonds, "lr": ranks, "weight_decay": 0.0},
        {"params": [p for p in rest if p.dim() > 1], "lr": others,
         "weight_decay": weight_decay},
        {"params": [p for p in rest if p.dim() <= 1], "lr": others, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
