"""Which rank entries leave, and how they fade, on the way to a size
(worker/trainer/late: pruning_choice, size_controller)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from comera.torch.sizes import SizeMeasure

# The weight of the past in the saliency: about fifty steps count.
_MEMORY = 0.98
# Gradients to see before the first wave, unless the budget is short.
_FIRST_OBSERVATIONS = 20
_LONGEST_WAVE = 50
# A wave takes about this share of the size.
_WAVE_SHARE = 0.1
# How far below the target the size may end for the sake of a better choice.
_SLACK_SHARE = 0.005
# Entries that are to stay are kept above the threshold by this factor.
_FLOOR_FACTOR = 1.5
# In place of what a size step lowers an entry by: it is out.
_PRUNED = -1.0


class _Remaining:
    """The entries of one layer that are left while others are chosen."""

    def __init__(self, modes: Sequence[int], bonds: List[List[float]], floor: int) -> None:
        self.modes, self.floor = modes, floor
        self.saliency = bonds
        # By ascending saliency; negative: not alive.
        self.orders = [
            sorted((k for k, s in enumerate(bond) if s >= 0), key=bond.__getitem__)
            for bond in bonds
        ]
        self.counts = [len(order) for order in self.orders]
        self.next = [0] * len(bonds)

    def size(self) -> int:
        bonds = [1, *self.counts, 1]
        if 0 in bonds:
            return 0
        return sum(n * bonds[i] * bonds[i + 1] for i, n in enumerate(self.modes))

    def freed(self, bond: int, change: int) -> int:
        before = self.size()
        self.counts[bond] += change
        after = self.size()
        self.counts[bond] -= change
        return before - after

    def least(self, bond: int) -> int:
        return self.orders[bond][self.next[bond]]

    def options(self, keep: int) -> List[Tuple[int, int, float]]:
        """(bond, parameters freed, cost) of the least salient entry of each bond with
        more than `keep`."""
        found = []
        for bond, count in enumerate(self.counts):
            if count <= keep:
                continue
            freed = self.freed(bond, -1)
            if freed > 0:
                saliency = self.saliency[bond][self.least(bond)]
                found.append((bond, freed, saliency / freed))
        return found

    def move(self, bond: int, step: int) -> None:
        """Prunes the least salient entry (1), or puts the last one back (-1)."""
        self.next[bond] += step
        self.counts[bond] -= step


@dataclass(frozen=True)
class Prunable:
    """What choosing needs of a layer: the modes of its size, what losing each entry
    of each inner bond would cost (negative: it is not alive), and how many entries a
    bond keeps while others are left."""

    modes: Sequence[int]
    saliency: List[List[float]]
    floor: int = 1


def choose_entries(
    layers: Sequence[Prunable], fixed: int, goal: float, slack: float
) -> Tuple[List[Tuple[int, int, int]], int]:
    """The entries (layer, bond, entry) to prune so that the size comes to `goal`, and
    that size: not above the goal if possible, and below it by at most `slack` if any
    choice allows that. Greedy: again and again the entry that costs least per
    parameter that leaves with it. Entries that turn out to fit after all stay. Bonds
    go below their floor only where all others are at theirs, and the last entry of a
    bond, and with it the layer, only where nothing else is left."""
    remaining = [_Remaining(l.modes, l.saliency, l.floor) for l in layers]
    size = fixed + sum(r.size() for r in remaining)
    pruned: List[Tuple[int, int, int]] = []

    def prune(keeps: Sequence[int]) -> None:
        nonlocal size
        options = [r.options(k) for r, k in zip(remaining, keeps)]
        while size > goal:
            # What stays within the slack goes first, by cost; without any, what
            # passes it by least.
            best: Optional[Tuple[bool, float, int, int, int]] = None
            for l, of_layer in enumerate(options):
                for bond, freed, cost in of_layer:
                    fits = size - freed >= goal - slack
                    key = (not fits, cost if fits else float(freed), l, bond, freed)
                    if best is None or key[:2] < best[:2]:
                        best = key
            if best is None:
                return
            _, _, l, bond, freed = best
            pruned.append((l, bond, remaining[l].least(bond)))
            remaining[l].move(bond, 1)
            size -= freed
            options[l] = remaining[l].options(keeps[l])

    prune([r.floor for r in remaining])
    prune([1] * len(remaining))
    # A goal that is out of reach is no reason to lose whole layers.
    if goal >= fixed:
        prune([0] * len(remaining))
    for i in reversed(range(len(pruned))):
        l, bond, _ = pruned[i]
        more = -remaining[l].freed(bond, 1)
        newest = all(p[:2] != (l, bond) for p in pruned[i + 1 :])
        if size + more <= goal and remaining[l].counts[bond] > 0 and newest:
            remaining[l].move(bond, -1)
            size += more
            del pruned[i]
    return pruned, size


@dataclass
class Approach:
    """Where the approach to a target is; sizes are those of the whole module."""

    size: float
    target_size: float
    step: int  # done so far
    max_steps: int
    # The share by which a size step lowers the size, unless the schedule needs more:
    # the current learning rate of the rank entries.
    rate: float

    @property
    def deadline(self) -> int:
        return max(1, self.max_steps // 2)

    @property
    def observations_needed(self) -> int:
        return min(_FIRST_OBSERVATIONS, self.max_steps // 8)


class SizeController:
    """Brings the size to its target by proximal steps on the rank entries, beside
    the optimiser's steps on the loss: entries that cost least fade to 0 in waves of
    about a tenth of the size, and are then out for good; all others are left alone.

    `scheduled`: the size is to be met by half of max_steps. `relaxed_weight`: the
    weight of the relaxed size of all entries, in every step. `floors`: by layer, the
    rank that it keeps while others have ranks to lose. Every decision is a function
    of parameters, gradients and state, so that processes with equal ones decide
    equally."""

    def __init__(
        self, measure: SizeMeasure, start_size: float, scheduled: bool,
        relaxed_weight: float, floors: Mapping[str, int],
    ) -> None:
        self._scheduled = scheduled
        self._relaxed_weight = relaxed_weight
        self._floors = floors
        self._start_size = start_size
        self._observations = 0
        self._wave_steps_left = 0
        self.bind(measure)
        count = sum(measure.extents)
        self._saliency = torch.zeros(count, dtype=torch.float64)
        # What a size step lowers an entry by; 0: it is to stay.
        self._fade = torch.zeros(count, dtype=torch.float64)

    def bind(self, measure: SizeMeasure) -> None:
        """Works on these parameters from now on."""
        self._measure = measure
        self._threshold = measure.thresholds.double().cpu()

    def _entries(self) -> Tensor:
        return self._measure.entries().double().cpu()

    def observe(self) -> None:
        """Updates the saliencies (d dL/dd)^2 from the gradient of the loss alone;
        call before the optimiser's step."""
        entries = self._entries()
        gradients = torch.cat(
            [
                (torch.zeros_like(d) if d.grad is None else d.grad).double().cpu()
                for d in self._measure.bonds
            ]
            or [torch.zeros(0, dtype=torch.float64)]
        )
        # Before the first step, entries that are dead already stay so.
        self._fade[entries <= self._threshold] = _PRUNED
        change = (entries * gradients).square()
        self._saliency.mul_(_MEMORY).add_(change, alpha=1 - _MEMORY)
        self._observations += 1

    def due(self, approach: Approach) -> bool:
        """Whether the size is behind its schedule, a geometric descent."""
        if not self._scheduled or approach.size <= approach.target_size:
            return False
        if self._observations < approach.observations_needed:
            return False
        done = min(1.0, (approach.step + 1) / approach.deadline)
        ratio = max(1.0, approach.target_size) / self._start_size
        return approach.size > self._start_size * ratio**done

    def _begin_wave(self, approach: Approach, entries: Tensor) -> None:
        left = approach.deadline - approach.step if self._scheduled else _LONGEST_WAVE
        rate = max(approach.rate, 1e-9)
        if self._scheduled:
            needed = math.log(approach.size / max(1.0, approach.target_size))
            rate = max(rate, needed / max(1, left))
        steps, goal = 1, approach.target_size
        if left > 1:
            # Rounded half up, as the engine does.
            wanted = math.floor(_WAVE_SHARE / rate + 0.5)
            steps = min(max(wanted, 1), _LONGEST_WAVE, left)
            goal = max(goal, approach.size * math.exp(-rate * steps))
        alive = torch.where(self._fade == _PRUNED, self._fade, self._saliency)
        chosen, _ = choose_entries(
            self._prunable(alive), self._measure.fixed, goal, _SLACK_SHARE * goal
        )
        offsets = [0]
        for extent in self._measure.extents:
            offsets.append(offsets[-1] + extent)
        for layer, bond, entry in chosen:
            i = offsets[self._measure.first[layer] + bond] + entry
            # The optimiser may just have lowered it beyond the threshold.
            self._fade[i] = max(float(entries[i]), float(self._threshold[i])) / steps
        self._wave_steps_left = steps if chosen else 0

    def _prunable(self, saliency: Tensor) -> List[Prunable]:
        bonds = [s.tolist() for s in saliency.split(self._measure.extents)]
        found = []
        for (name, _), modes, first in zip(
            self._measure.layers, self._measure.modes, self._measure.first
        ):
            of_layer = bonds[first : first + len(modes) - 1]
            found.append(Prunable(modes, of_layer, self._floors.get(name, 1)))
        return found

    def _lower_all(self, rate: float, entries: Tensor) -> None:
        """Proximal step on relaxed_weight times the relaxed size of all entries."""
        self._measure.measure()
        slopes = torch.tensor(self._measure.slopes(), dtype=torch.float64)
        extents = torch.tensor(self._measure.extents)
        step = rate * self._relaxed_weight * slopes.repeat_interleave(extents)
        alive = entries > self._threshold
        entries -= step * alive
        self._fade[alive & (entries <= self._threshold)] = _PRUNED

    def step(self, on_size: bool, approach: Approach) -> None:
        """Call after the optimiser's step. In a size step, lowers the entries that
        are fading. All others stay pruned or unpruned, as they were."""
        entries = self._entries()
        if (
            on_size and self._wave_steps_left == 0
            and approach.size > approach.target_size
            and self._observations >= approach.observations_needed
        ):
            self._begin_wave(approach, entries)
        if self._relaxed_weight > 0:
            self._lower_all(approach.rate, entries)
        if on_size and self._wave_steps_left > 0:
            self._wave_steps_left -= 1
            fading = self._fade > 0
            entries -= torch.where(fading, self._fade, torch.zeros_like(entries))
            out = fading & (entries <= self._threshold)
            if self._wave_steps_left == 0:
                out = fading
            self._fade[out] = _PRUNED
        pruned = self._fade == _PRUNED
        entries = torch.maximum(entries, _FLOOR_FACTOR * self._threshold)
        entries[pruned] = 0
        for d, values in zip(self._measure.bonds, entries.split(self._measure.extents)):
            with torch.no_grad():
                d.copy_(values.to(d.dtype))

    def cut(self) -> None:
        """Forgets the entries that a compaction is about to cut."""
        entries = self._entries()
        alive = entries > self._threshold
        kept = []
        bonds = alive.split(self._measure.extents)
        for modes, first in zip(self._measure.modes, self._measure.first):
            of_layer = bonds[first : first + len(modes) - 1]
            gone = any(not bool(bond.any()) for bond in of_layer)
            kept += [bond & (not gone) for bond in of_layer]
        mask = torch.cat(kept) if kept else alive
        self._saliency, self._fade = self._saliency[mask], self._fade[mask]

    def state_dict(self) -> Dict[str, Any]:
        return {
            "saliency": self._saliency.clone(),
            "fade": self._fade.clone(),
            "observations": self._observations,
            "wave_steps_left": self._wave_steps_left,
            "start_size": self._start_size,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._saliency = state["saliency"].clone()
        self._fade = state["fade"].clone()
        self._observations = state["observations"]
        self._wave_steps_left = state["wave_steps_left"]
        self._start_size = state["start_size"]
