"""Pareto fronts: the models that no other one beats in both loss and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from comera import _optional
from comera._proto import sweep_service_pb2
from comera._text import html_table, size_text


@dataclass(frozen=True)
class FrontPoint:
    """One model of a front."""

    job: str
    step: int
    validation_loss: float
    size_parameters: int
    size_bytes: int
    # Index of the sweep's run; None: a job of its own, or a shared early stage.
    run: Optional[int] = None


class ParetoFront:
    """Points by ascending size, hence descending loss.

        front = sweep.front()
        front.points[0].size_bytes
        front.to_pandas()
        front.plot()
    """

    def __init__(
        self,
        proto: sweep_service_pb2.SweepFront,
        targets: Sequence[Tuple[float, int]] = (),
    ) -> None:
        self.proto = proto
        # (loss, parameters), drawn as corners to get below.
        self.targets = list(targets)

    @property
    def points(self) -> List[FrontPoint]:
        return [
            FrontPoint(
                job=p.job,
                step=p.point.step,
                validation_loss=p.point.validation_loss,
                size_parameters=p.point.size_parameters,
                size_bytes=p.point.size_bytes,
                run=p.run if p.run >= 0 else None,
            )
            for p in self.proto.points
        ]

    @property
    def hypervolume(self) -> float:
        """Area up to the reference point, nats x parameters; 0 without one."""
        return float(self.proto.hypervolume)

    @property
    def hypervolume_ratio(self) -> float:
        """The same as a share of reference loss x reference size."""
        return float(self.proto.hypervolume_ratio)

    def __len__(self) -> int:
        return len(self.proto.points)

    def __iter__(self) -> Iterator[FrontPoint]:
        return iter(self.points)

    def columns(self) -> Dict[str, List[Any]]:
        points = self.points
        names = ("job", "run", "step", "validation_loss", "size_parameters", "size_bytes")
        return {name: [getattr(p, name) for p in points] for name in names}

    def to_pandas(self) -> Any:
        """A DataFrame, one row per point. Needs pandas."""
        return _optional.pandas().DataFrame(self.columns())

    def plot(self, ax: Any = None, label: Optional[str] = None) -> Any:
        """Loss over size with the front as a staircase; returns the axes. Needs
        matplotlib. Call again with `ax` to compare fronts."""
        if ax is None:
            ax = _optional.pyplot().subplots()[1]
        points = self.points
        sizes = [p.size_parameters for p in points]
        losses = [p.validation_loss for p in points]
        (line,) = ax.step(sizes, losses, where="post", linewidth=1, label=label)
        ax.plot(sizes, losses, "o", color=line.get_color(), markersize=5)
        for loss, size in self.targets:
            ax.plot([size], [loss], "x", color="black")
            ax.annotate(
                f"target {loss:g}", (size, loss), textcoords="offset points",
                xytext=(4, 4), fontsize=8,
            )
        ax.set_xlabel("parameters")
        ax.set_ylabel("validation loss (nats)")
        if label:
            ax.legend()
        return ax

    def __repr__(self) -> str:
        return f"<ParetoFront of {len(self)} points>"

    def _repr_html_(self) -> str:
        rows = [
            (
                p.job + (f" (run {p.run})" if p.run is not None else ""),
                p.step,
                f"{p.validation_loss:.4f}",
                f"{p.size_parameters:,}",
                size_text(p.size_bytes),
            )
            for p in self.points
        ]
        return html_table(
            rows, ("job", "step", "validation loss", "parameters", "size"),
            f"Pareto front, hyper-volume {self.hypervolume_ratio:.4g} of the reference",
        )
