"""A training run that reports, keeps checkpoints, and stops where it is asked to."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Type, Union

import torch
from torch import Tensor, nn

from comera.torch import gang
from comera.torch.checkpoints import CheckpointFolder, random_state, set_random_state
from comera.torch.compaction import load_state_dict
from comera.torch.objective import Objective
from comera.torch.sizes import dense_parameters, num_parameters, ranks

# What a job sets (docs/pytorch.md, "The interface to a job").
EVENTS_VARIABLE = "COMERA_RUN_EVENTS"
CHECKPOINTS_VARIABLE = "COMERA_RUN_CHECKPOINTS"
CHECKPOINT_EVERY_VARIABLE = "COMERA_RUN_CHECKPOINT_EVERY"
MODEL_VARIABLE = "COMERA_RUN_MODEL"
TARGET_LOSS_VARIABLE = "COMERA_TARGET_LOSS"
TARGET_SIZE_VARIABLE = "COMERA_TARGET_PARAMETERS"

# Seconds between two signs of life.
_SIGN_INTERVAL = 0.5

# The version of a state that Run writes; others are refused.
_VERSION = 1


@dataclass(frozen=True)
class Point:
    """A validated model: its loss, and its size in parameters."""

    step: int
    validation_loss: float
    size_parameters: int

    def beats(self, other: "Point") -> bool:
        return (
            self.validation_loss <= other.validation_loss
            and self.size_parameters <= other.size_parameters
        )


def _for_json(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _without_functions(state: Any) -> Any:
    """A state without the functions that OneCycleLR and others put into theirs: those
    are code, and whoever loads the rest has them from its constructor."""
    if type(state) is dict:
        kept = {key: value for key, value in state.items() if not callable(value)}
        return {key: _without_functions(value) for key, value in kept.items()}
    if type(state) is list:
        return [_without_functions(value) for value in state]
    return state


def _from_job(variable: str) -> Optional[float]:
    """The number that a job set; None: it set none. ValueError: not a number."""
    text = os.environ.get(variable)
    return float(text) if text else None


class _Events:
    """Lines of JSON in a file or pipe, one write each, so that no line is torn."""

    def __init__(self, path: Optional[str]) -> None:
        self._file = -1
        # When the last line was written.
        self.last_time = 0.0
        if path:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o644)

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        if self._file >= 0:
            known = {key: _for_json(value) for key, value in fields.items()}
            line = json.dumps({"event": event, "time": time.time(), **known})
            os.write(self._file, line.encode() + b"\n")
            self.last_time = time.monotonic()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Run:
    """Steps of a training run, which continues where its newest checkpoint is:

        with comera.torch.Run(model, optimizer, objective, steps=500,
                              checkpoints="checkpoints") as run:
            for step in run:
                optimizer.zero_grad()
                loss = loss_of_a_batch(step)
                objective.backward(loss)
                objective.step()
                run.report(loss)
                if step % 50 == 49:
                    run.validate(validation_loss())
        print(run.outcome)

    It is the same with or without a service around it: progress goes to stderr,
    checkpoints to the folder. As the program of a job it also tells the service what
    it does, keeps its checkpoints where the service copies them from, leaves the
    module's state dict as the job's model, and takes the job's targets and its
    interval of checkpoints in place of the script's (docs/programs.md).

    A run ends, each time with a checkpoint if there is a folder: after `steps` steps
    ("completed"); when a validation meets the loss and the size of the objective's
    late stage, or `target_loss` and `target_size` ("target_met"); after SIGTERM, at
    the end of the step ("stopped"). After an exception there is none ("failed").
    Where a job has targets, those alone count.

    A checkpoint holds module, optimiser, objective, `extras` (objects with state_dict
    and load_state_dict, such as schedulers), the step, the front, and the states of
    the random generators of Python, PyTorch and NumPy; a run that resumes computes
    what the uninterrupted one would have, as long as its data are a function of
    those and of the step. `module` is not wrapped: wrap it for DDP inside the
    context, when it has the checkpoint's ranks. In a gang of processes
    (torch.distributed) member 0 reports and writes, all stop together.

    `report_every`: steps from one report to the next. `checkpoint_every`: likewise.
    `keep`: how many of the newest checkpoints stay.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        objective: Optional[Objective] = None,
        *,
        steps: int,
        checkpoints: Union[None, str, "os.PathLike[str]"] = None,
        checkpoint_every: int = 100,
        keep: int = 2,
        report_every: int = 10,
        target_loss: Optional[float] = None,
        target_size: Optional[int] = None,
        extras: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """ValueError: numbers below 1, one target without the other, or a wrapped
        module."""
        if min(steps, checkpoint_every, report_every) < 1:
            raise ValueError("steps, checkpoint_every and report_every are at least 1")
        if (target_loss is None) != (target_size is None):
            raise ValueError("target_loss and target_size belong together")
        if isinstance(module, nn.parallel.DistributedDataParallel):
            raise ValueError("pass the module itself, not its wrapper for DDP")
        self.module, self.optimizer, self.objective = module, optimizer, objective
        self.steps = steps
        # Done so far.
        self.step = 0
        # "completed", "target_met", "stopped", "failed"; "" while it goes on.
        self.outcome = ""
        # Validated models that no other one beats, by ascending size.
        self.front: List[Point] = []
        every = _from_job(CHECKPOINT_EVERY_VARIABLE)
        self._checkpoint_every = checkpoint_every if every is None else int(every)
        self._report_every = report_every
        job_loss, job_size = _from_job(TARGET_LOSS_VARIABLE), _from_job(TARGET_SIZE_VARIABLE)
        # Whether the job's targets, and no others, end the run.
        self._job_decides = job_loss is not None and job_size is not None
        if job_loss is not None and job_size is not None:
            target_loss, target_size = job_loss, int(job_size)
        # In nats, and in parameters; None: there is no such target.
        self.target_loss = target_loss
        self.target_size = target_size
        self._met = False
        self._stop = False
        self._entered = False
        self._in_step = False
        self._extras = dict(extras or {})
        folder = os.environ.get(CHECKPOINTS_VARIABLE) or checkpoints
        self._folder = CheckpointFolder(Path(folder), keep) if folder else None
        self._events = _Events(None)
        self._saved_step = 0
        self._reported_ranks: Dict[str, List[int]] = {}
        self._handler: Any = None

    @property
    def size(self) -> int:
        """S of the whole module, in parameters."""
        return num_parameters(self.module)

    def __enter__(self) -> "Run":
        self._events = _Events(os.environ.get(EVENTS_VARIABLE))
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            self._resume()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        self._entered = True
        size = self.size
        self._emit(
            "started",
            {
                "step": self.step,
                "steps": self.steps,
                "size": size,
                "dense_size": dense_parameters(self.module),
                "front": [asdict(point) for point in self.front],
            },
        )
        self._say(f"step {self.step} of {self.steps}, {size:,} parameters")
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
        self._entered = False
        if kind is not None:
            self.outcome = "failed"
        else:
            self._leave_model()
        self._emit(
            "ended",
            {
                "step": self.step,
                "outcome": self.outcome or "left",
                **({"error": f"{kind.__name__}: {error}"} if kind else {}),
            },
        )
        self._say(f"ended after step {self.step}: {self.outcome or 'left'}")
        self._events.close()

    def _leave_model(self) -> None:
        """Writes the module's state dict to where the job takes its model from."""
        folder = os.environ.get(MODEL_VARIABLE)
        if folder and gang.member() == 0:
            Path(folder).mkdir(parents=True, exist_ok=True)
            torch.save(self.module.state_dict(), Path(folder) / "model.pt")

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        # Only noted: a step is not left in its middle.
        self._stop = True

    def __iter__(self) -> Iterator[int]:
        """Numbers of the steps that are still to do, from 0. What a step is followed
        by (stop, checkpoint, end) happens when the next is asked for. RuntimeError: the
        run was not entered, and has not looked for a checkpoint."""
        if not self._entered:
            raise RuntimeError("iterate inside `with run`, which loads checkpoints")
        self._in_step = False
        while True:
            if self._met:
                self.outcome = "target_met"
            elif self.step >= self.steps:
                self.outcome = "completed"
            elif self.step > self._saved_step and self.step % self._checkpoint_every == 0:
                self.save()
            if self.outcome:
                break
            self._in_step = True
            yield self.step
            self._in_step = False
            self.step += 1
            if time.monotonic() - self._events.last_time >= _SIGN_INTERVAL:
                self._emit("at", {"step": self.step})
            # A run that has just reached its end was not stopped.
            ended = self._met or self.step >= self.steps
            if gang.any_of(self._stop) and not ended:
                self.outcome = "stopped"
                break
        if self.step != self._saved_step:
            self.save()

    def _done(self) -> int:
        """Steps done, that which is under way included."""
        return self.step + int(self._in_step)

    def report(
        self, loss: Union[Tensor, float], **figures: Union[Tensor, float]
    ) -> None:
        """Tells the training loss of the step, in nats, and further figures of it by
        name. In a gang all members call it, and their mean is reported."""
        done = self._done()
        if done % self._report_every and done != self.steps:
            return
        mean = gang.mean(float(loss), gang.REPORT)
        size = self.size
        numbers = {name: float(value) for name, value in figures.items()}
        late = self.objective is not None and self.objective.late
        stage = "late" if late else "early"
        self._emit(
            "step", {**numbers, "step": done, "stage": stage, "loss": mean, "size": size}
        )
        rest = "".join(f"  {name} {value:.4g}" for name, value in numbers.items())
        self._say(f"step {done}  loss {mean:.4f}  {size:,} parameters{rest}")
        now = ranks(self.module)
        if now != self._reported_ranks:
            self._reported_ranks = now
            self._emit("ranks", {"step": done, "ranks": now})

    def validate(self, loss: float) -> bool:
        """Tells the loss of a validation after the step. Returns whether it and the
        size meet the targets; the run then ends with this step. In a gang all members
        call it, and the mean of what they tell counts."""
        mean = gang.mean(float(loss), gang.VALIDATION)
        point = Point(self._done(), mean, self.size)
        on_front = math.isfinite(point.validation_loss) and not any(
            other.beats(point) for other in self.front
        )
        if on_front:
            self.front = [p for p in self.front if not point.beats(p)]
            self.front = sorted([*self.front, point], key=lambda p: p.size_parameters)
        self._emit("validation", {**asdict(point), "on_front": on_front})
        self._say(
            f"step {point.step}  validation loss {point.validation_loss:.4f}  "
            f"{point.size_parameters:,} parameters"
        )
        met = False
        if self.objective is not None:
            met = self.objective.validated(point.validation_loss)
        if self._job_decides:
            met = False
        if self.target_loss is not None and self.target_size is not None:
            met = met or (
                point.validation_loss <= self.target_loss
                and point.size_parameters <= self.target_size
            )
        self._met = self._met or met
        return met

    def save(self) -> Optional[Path]:
        """Writes a checkpoint after the steps done so far; called by itself, between
        steps. None: there is no folder, or another member writes. RuntimeError: within
        a step, which would be done once more after resuming."""
        if self._in_step:
            raise RuntimeError("checkpoints are written between steps")
        # All take part, also where member 0 alone has a folder.
        generators = gang.gather(random_state())
        self._saved_step = self.step
        if self._folder is None or gang.member() != 0:
            return None
        state: Dict[str, Any] = {
            "version": _VERSION,
            "step": self.step,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "objective": None if self.objective is None else self.objective.state_dict(),
            "extras": {
                name: _without_functions(extra.state_dict())
                for name, extra in self._extras.items()
            },
            "front": [asdict(point) for point in self.front],
            "met": self._met,
            "random": generators,
        }
        size = self.size
        path = self._folder.save(self.step, state, {"size": size})
        self._emit("checkpoint", {"step": self.step, "path": str(path), "size": size})
        return path

    def _resume(self) -> None:
        found = None
        if self._folder is not None and gang.member() == 0:
            self._folder.check_writable()
            found = self._folder.newest()
        found = gang.from_first(found)
        if found is None:
            return
        step, state = found
        if state.get("version") != _VERSION:
            raise ValueError(f"a checkpoint of version {state.get('version')!r}")
        if set(state["extras"]) != set(self._extras):
            raise ValueError(
                f"the checkpoint has extras {sorted(state['extras'])}, "
                f"the run {sorted(self._extras)}"
            )
        if (state["objective"] is None) != (self.objective is None):
            has = ("the checkpoint", "the run")[self.objective is not None]
            raise ValueError(f"{has} alone has an objective")
        load_state_dict(self.module, state["module"], self.optimizer)
        settings = set(self.optimizer.param_groups[0]) & set(self.optimizer.defaults)
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:
            missing = ", ".join(sorted(settings - set(group)))
            if missing:
                raise ValueError(
                    f"the checkpoint is of another optimiser, without {missing}"
                )
        if self.objective is not None:
            self.objective.load_state_dict(state["objective"])
        for name, extra in self._extras.items():
            extra.load_state_dict(state["extras"][name])
        self.front = [Point(**point) for point in state["front"]]
        if len(state["random"]) == gang.size():
            set_random_state(state["random"][gang.member()])
        else:
            self._say(
                f"the checkpoint is of {len(state['random'])} processes, this run has "
                f"{gang.size()}: random numbers begin anew"
            )
        self._met = state["met"]
        self.step = self._saved_step = step

    def _emit(self, event: str, fields: Mapping[str, Any]) -> None:
        self._events.write(event, fields)

    def _say(self, text: str) -> None:
        if gang.member() == 0:
            print(text, file=sys.stderr, flush=True)
