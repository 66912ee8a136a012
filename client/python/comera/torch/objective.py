"""What a training step minimises: the loss, and how large the model is."""

from __future__ import annotations

import fnmatch
import math
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Union

import torch
from torch import Tensor, nn

from comera.torch import gang
from comera.torch.canonical import make_canonical
from comera.torch.compaction import compact
from comera.torch.pruning import Approach, SizeController
from comera.torch.sizes import SizeMeasure, Sizes

# Weights of the published code (REFERENCE.md, "What the published code does").
_RANK_WEIGHT = 0.01
_LATE_LOSS_WEIGHT = 0.1
# Decay of the average of the mini-batches' losses.
_LOSS_DECAY = 0.95


@dataclass(frozen=True)
class ObjectiveStep:
    """What the objective saw and did in one step. Sizes are in parameters, and those
    of the whole module."""

    # The mean loss of the step, over all processes.
    loss: float
    # S and its relaxation.
    size: float
    relaxed_size: float
    # Entries above the threshold, and the mean of their values.
    alive_entries: int
    mean_alive_entry: float
    # What the gradient of the loss was multiplied by.
    loss_factor: float = 1.0
    # Late stage: a step on the size is due.
    on_size: bool = False


@dataclass(frozen=True)
class Target:
    """What the late stage is to reach: a level, usually the validation loss in nats,
    of at most `loss`, with at most `size` parameters."""

    loss: float
    size: int
    mode: str  # "constraint", "achievement", "reference"
    max_steps: int
    w_loss: float
    w_size: float
    rho: float


class _LossAverage:
    """Exponential average with its start-up bias removed."""

    def __init__(self) -> None:
        self.sum = self.weight = 0.0

    def add(self, loss: float) -> None:
        self.sum = _LOSS_DECAY * self.sum + (1 - _LOSS_DECAY) * loss
        self.weight = _LOSS_DECAY * self.weight + (1 - _LOSS_DECAY)

    @property
    def value(self) -> float:
        return self.sum / self.weight if self.weight > 0 else 0.0


class Objective:
    """The two-stage objective of the engine (worker/trainer/objective), for a module
    that tensorize() prepared and its optimiser:

        objective = comera.torch.Objective(model, optimizer, gamma=0.01)
        for step in range(steps):
            if step == early_steps:
                objective.begin_late(target_loss=1.2, target_ratio=0.5, max_steps=300)
            optimizer.zero_grad()
            objective.backward(loss_of_a_batch())
            objective.step()

    With s = S / S(0) and s^ = S^ / S(0), sizes relative to that of the whole module
    at the start, the early stage minimises L + gamma s^ + beta |G|^2, |G|^2 over all
    cores. The late stage works on L + beta |G|^2 in every step, and lowers rank
    entries by proximal steps of its own, since Adam would normalise a gradient of
    the size to the same step for every entry; docs/late_stage.md has the rules.

    kind="reference" is the objective of the method's published code: L + 0.01 R, R
    the mean of the alive entries; late 0.1 L + 0.01 R + (R or L), by which of the
    two is further from its target. `gamma` and `beta` are not used then.

    Every `compact_every` steps (0: never) dead entries are cut out of the module and
    the optimiser (compact()), where step() returns True: cut parameters are new
    objects, and a module in DDP has to be wrapped again. Pass the module itself, not
    its wrapper. Where torch.distributed has several processes, the losses are
    averaged over them (8 bytes a step), so that all decide equally; that gradients
    are equal is checked in the first step and after each compaction. Not
    thread-safe.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        gamma: float = 0.05,
        beta: float = 1e-5,
        kind: str = "pareto",
        compact_every: int = 50,
    ) -> None:
        """ValueError: negative weights, an unknown kind, a module without rank
        entries, or cores and entries that the optimiser does not have."""
        if kind not in ("pareto", "reference"):
            raise ValueError(f"kind={kind!r}: expected 'pareto' or 'reference'")
        if gamma < 0 or beta < 0 or compact_every < 0:
            raise ValueError("gamma, beta and compact_every are not negative")
        if isinstance(module, nn.parallel.DistributedDataParallel):
            raise ValueError("pass the module itself, not its wrapper for DDP")
        self.module, self.optimizer = module, optimizer
        self.gamma, self.beta, self.kind = gamma, beta, kind
        self.compact_every = compact_every
        self.target: Optional[Target] = None
        # Done in all, and when the late stage began.
        self.steps = 0
        self._late_start = 0
        self._loss = _LossAverage()
        self._validation_gap = 0.0
        self._met = False
        self._floors_of_layers: Dict[str, int] = {}
        self._controller: Optional[SizeController] = None
        self._last: Optional[ObjectiveStep] = None
        self._gradients_checked = False
        self._bind()
        if not self.measure.bonds:
            raise ValueError("the module has no rank entries: tensorize() gives it some")
        self._group_of_ranks()
        self._check_optimizer()
        sizes = self.measure.measure()
        self.initial_size = self.measure.fixed + sizes.counted

    def _bind(self) -> None:
        self.measure = SizeMeasure(self.module)

    def _group_of_ranks(self) -> Dict[str, Any]:
        entries = {id(d) for d in self.measure.bonds}
        for group in self.optimizer.param_groups:
            if any(id(p) in entries for p in group["params"]):
                return group
        raise ValueError(
            "the optimiser has none of the module's rank entries: create it after "
            "tensorize(), and with parameters of the module as it is now"
        )

    def _check_optimizer(self) -> None:
        """A second optimiser would go on with parameters that a compaction took out of
        the module, and nobody would notice."""
        held = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        for name, layer in self.measure.layers:
            assert layer.rank is not None
            for p in (*layer.core, *layer.rank):
                if p.requires_grad and id(p) not in held:
                    raise ValueError(
                        f"{name}: the optimiser has not all of its cores and rank "
                        "entries; one optimiser trains them, or they want no gradient"
                    )

    @property
    def late(self) -> bool:
        return self.target is not None

    @property
    def met(self) -> bool:
        """Whether a validation met both targets."""
        return self._met

    @property
    def size(self) -> int:
        """S of the whole module, in parameters."""
        return self.measure.fixed + int(self.measure.measure().counted)

    @property
    def smoothed_loss(self) -> float:
        """L~: the average of the mini-batches' losses, moved by what separated it
        from the last validation."""
        return self._loss.value + self._validation_gap

    def backward(self, loss: Tensor) -> ObjectiveStep:
        """loss.backward(), and then apply(loss). `loss`: the mean over this process's
        part of the batch, in nats."""
        loss.backward()
        return self.apply(loss)

    def apply(self, loss: Union[Tensor, float]) -> ObjectiveStep:
        """Turns gradients of the loss, which are there, into those of the objective.
        For those who accumulate gradients; clip them afterwards. RuntimeError: the
        module was compacted by somebody else, or the gradients of the processes
        differ. FloatingPointError: the loss is not finite, in whichever process."""
        self._check_bound()
        mean = gang.mean(float(loss), gang.LOSS)
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss of step {self.steps} is {mean}")
        if not self._gradients_checked:
            self._check_gradients()
        self._loss.add(mean)
        if self._controller is not None:
            self._controller.observe()
        sizes = self.measure.measure()
        with torch.no_grad():
            step = (
                self._apply_reference(mean, sizes)
                if self.kind == "reference"
                else self._apply_pareto(mean, sizes)
            )
        self._last = step
        return step

    def _step_of(self, loss: float, sizes: Sizes, factor: float, on_size: bool) -> ObjectiveStep:
        alive = sizes.alive_entries
        return ObjectiveStep(
            loss=loss,
            size=self.measure.fixed + sizes.counted,
            relaxed_size=self.measure.fixed + sizes.relaxed,
            alive_entries=alive,
            mean_alive_entry=sizes.alive_sum / alive if alive else 0.0,
            loss_factor=factor,
            on_size=on_size,
        )

    def _apply_pareto(self, loss: float, sizes: Sizes) -> ObjectiveStep:
        target, factor, on_size = self.target, 1.0, False
        if target is not None:
            size = self.measure.fixed + sizes.counted
            loss_excess = target.w_loss * (self.smoothed_loss - target.loss)
            size_excess = target.w_size * (size - target.size) / self.initial_size
            on_size = loss_excess < size_excess
            if target.mode == "achievement" and on_size:
                factor = target.rho / (target.w_loss + target.rho)
                self._scale_gradients(factor)
        else:
            weight = self.gamma / self.initial_size
            self.measure.add_to_gradients([weight * s for s in self.measure.slopes()])
        if self.beta > 0:
            for core in self.measure.cores:
                if not core.requires_grad:
                    continue
                if core.grad is None:
                    core.grad = torch.zeros_like(core)
                core.grad.add_(core, alpha=2 * self.beta)
        return self._step_of(loss, sizes, factor, on_size)

    def _apply_reference(self, loss: float, sizes: Sizes) -> ObjectiveStep:
        target, factor, on_size = self.target, 1.0, False
        rank_weight = _RANK_WEIGHT
        if target is not None:
            size = self.measure.fixed + sizes.counted
            # Multiplied out: 0 is no division then.
            on_size = (loss - target.loss) * size < (size - target.size) * loss
            factor = _LATE_LOSS_WEIGHT + (0 if on_size else 1)
            rank_weight += 1 if on_size else 0
            self._scale_gradients(factor)
        if sizes.alive_entries:
            each = rank_weight / sizes.alive_entries
            self.measure.add_to_gradients([each] * len(self.measure.bonds))
        return self._step_of(loss, sizes, factor, on_size)

    def _scale_gradients(self, factor: float) -> None:
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def step(self) -> bool:
        """The optimiser's step, then what the late stage does to the rank entries, and
        compaction where it is due. True: parameters are new objects. RuntimeError:
        neither backward() nor apply() came before it."""
        if self._last is None:
            raise RuntimeError("call backward() or apply() before step()")
        self.optimizer.step()
        if self._controller is not None:
            assert self.target is not None
            approach = Approach(
                size=self._last.size,
                target_size=self.target.size,
                step=self.late_steps,
                max_steps=self.target.max_steps,
                rate=float(self._group_of_ranks()["lr"]),
            )
            on_size = self._last.on_size or self._controller.due(approach)
            self._controller.step(on_size, approach)
        self._last = None
        self.steps += 1
        if self.compact_every and self.steps % self.compact_every == 0:
            return self.compact() > 0
        return False

    @property
    def late_steps(self) -> int:
        """Steps of the late stage that were done."""
        return self.steps - self._late_start if self.late else 0

    def compact(self) -> int:
        """compact() of the module and the optimiser; returns the number of parameters
        that are gone."""
        if self._controller is not None:
            self._controller.cut()
        removed = compact(self.module, self.optimizer)
        if removed:
            self._gradients_checked = False
            self._bind()
            if self._controller is not None:
                self._controller.bind(self.measure)
        return removed

    def begin_late(
        self,
        target_loss: float,
        target_size: Optional[int] = None,
        target_ratio: Optional[float] = None,
        max_steps: int = 1000,
        mode: str = "constraint",
        w_loss: float = 1.0,
        w_size: float = 1.0,
        rho: float = 0.01,
        floors: Optional[Mapping[str, int]] = None,
    ) -> Target:
        """Begins the late stage: dead entries are cut out, the others rewritten in
        their canonical form, which leaves what the module computes, and the size is
        brought down to its target. Call it before the step's backward pass, and wrap
        a module in DDP again afterwards.

        One of `target_size`, in parameters of the whole module, and `target_ratio`,
        of its size now. `mode`: "constraint" meets the size by half of `max_steps` at
        the latest and whatever the loss says; "achievement" approaches min
        max{w_loss (L - L0), w_size (S - S0) / S(0)} + rho (L + S^ / S(0)), where the
        larger term decides. `floors`: patterns of layers, and the rank that they keep
        while others have ranks to lose; of attention's projections, the number of
        heads is a good one. The published objective has targets alone.

        ValueError: no or two sizes, a size below what no rank changes, an unknown
        mode, or a second late stage."""
        self._check_bound()
        if self.late:
            raise ValueError("the late stage has begun already")
        if mode not in ("constraint", "achievement"):
            raise ValueError(f"mode={mode!r}: expected 'constraint' or 'achievement'")
        if (target_size is None) == (target_ratio is None):
            raise ValueError("expected either target_size or target_ratio")
        if max_steps < 1:
            raise ValueError(f"max_steps={max_steps}: at least 1")
        size = self.size
        if target_size is None:
            assert target_ratio is not None
            if not 0 < target_ratio <= 1:
                raise ValueError(f"target_ratio={target_ratio}: in (0, 1]")
            target_size = math.floor(target_ratio * size)
        if target_size < self.measure.fixed:
            raise ValueError(
                f"a target of {target_size:,} parameters is below the "
                f"{self.measure.fixed:,} that no rank changes"
            )
        reference = self.kind == "reference"
        of_layers = {} if reference else self._floors(floors or {})
        self.compact()
        if not reference:
            make_canonical(self.module, self.optimizer)
        self.target = Target(
            loss=target_loss, size=target_size, mode="reference" if reference else mode,
            max_steps=max_steps, w_loss=w_loss, w_size=w_size, rho=rho,
        )
        self._late_start = self.steps
        self._met = False
        if not reference:
            self._controller = self._make_controller(of_layers, float(size))
        return self.target

    def _floors(self, patterns: Mapping[str, int]) -> Dict[str, int]:
        names = [name for name, _ in self.measure.layers]
        floors: Dict[str, int] = {}
        for pattern, floor in patterns.items():
            matching = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
            if not matching:
                raise ValueError(f"floors: {pattern!r} matches no layer with rank entries")
            for name in matching:
                floors.setdefault(name, floor)
        return floors

    def _make_controller(self, floors: Dict[str, int], start_size: float) -> SizeController:
        assert self.target is not None
        self._floors_of_layers = floors
        scheduled = self.target.mode == "constraint"
        weight = 0.0 if scheduled else self.target.rho / self.initial_size
        return SizeController(self.measure, start_size, scheduled, weight, floors)

    def validated(self, loss: float) -> bool:
        """Tells the loss of a validation, or another level that is to fall to the
        target's: L~ follows from it, unless it is not finite or no step was done.
        True: it meets the target, and so does the size."""
        if math.isfinite(loss) and self._loss.weight > 0:
            self._validation_gap = loss - self._loss.value
        if self.target is None:
            return False
        now = loss <= self.target.loss and self.size <= self.target.size
        self._met = self._met or now
        return now

    def _check_bound(self) -> None:
        now = [d for _, layer in self.measure.layers for d in layer.rank or ()]
        if any(a is not b for a, b in zip(now, self.measure.bonds)):
            raise RuntimeError(
                "the module has other rank entries than this objective: compact it by "
                "Objective.compact(), or create the objective anew"
            )

    def _check_gradients(self) -> None:
        """Whoever forgets to wrap the module again after a compaction trains every
        process by itself."""
        self._gradients_checked = True
        if gang.size() == 1:
            return
        gradients = [p.grad for p in self.module.parameters() if p.grad is not None]
        total = float(sum(float(g.double().sum()) for g in gradients))
        if not gang.all_equal(total):
            raise RuntimeError(
                "the gradients of the processes differ: wrap the module in "
                "DistributedDataParallel (again after every compaction)"
            )

    def state_dict(self) -> Dict[str, Any]:
        """Everything besides the module and the optimiser, as numbers, texts and
        tensors."""
        state: Dict[str, Any] = {
            "initial_size": self.initial_size,
            "steps": self.steps,
            "late_start": self._late_start,
            "loss": [self._loss.sum, self._loss.weight],
            "validation_gap": self._validation_gap,
            "met": self._met,
            "target": None if self.target is None else dict(vars(self.target)),
        }
        if self._controller is not None:
            state["floors"] = self._floors_of_layers
            state["controller"] = self._controller.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a state_dict(), once module and optimiser have their own
        states (comera.torch.load_state_dict)."""
        self._bind()
        self._gradients_checked = False
        self.initial_size = state["initial_size"]
        self.steps = state["steps"]
        self._late_start = state["late_start"]
        self._loss.sum, self._loss.weight = state["loss"]
        self._validation_gap = state["validation_gap"]
        self._met = state["met"]
        target = state["target"]
        self.target = None if target is None else Target(**target)
        self._controller = None
        if "controller" in state:
            self._controller = self._make_controller(dict(state["floors"]), 1.0)
            self._controller.load_state_dict(state["controller"])
