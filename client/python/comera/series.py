"""The figures of a job over its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from comera import _optional
from comera._proto import progress_pb2, training_service_pb2
from comera._text import html_table


@dataclass(frozen=True)
class Metric:
    """One figure, oldest first; the three lists are equally long."""

    name: str
    steps: List[int]
    values: List[float]
    # Seconds since 1970.
    wall_times: List[float]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> Optional[float]:
        return self.values[-1] if self.values else None


class Series:
    """Figures by name, thinned by the server to what a plot can show: of every
    stretch its smallest and its largest value.

        series = job.series("loss", "validation_loss")
        series["loss"].steps, series["loss"].values
        series.to_pandas().plot()
    """

    def __init__(self, proto: training_service_pb2.JobSeries) -> None:
        self.proto = proto
        self._metrics: Dict[str, Metric] = {
            s.metric: Metric(
                s.metric, list(s.steps), list(s.values), list(s.wall_times)
            )
            for s in proto.series
        }

    @property
    def names(self) -> List[str]:
        return list(self._metrics)

    @property
    def rank_snapshots(self) -> List[progress_pb2.RankSnapshot]:
        return list(self.proto.rank_snapshots)

    @property
    def run_info(self) -> progress_pb2.RunInfo:
        return self.proto.run_info

    @property
    def last_sequence(self) -> int:
        """Number of its newest event; `watch(after_sequence=...)` goes on there."""
        return int(self.proto.last_sequence)

    def __getitem__(self, name: str) -> Metric:
        return self._metrics[name]

    def __contains__(self, name: object) -> bool:
        return name in self._metrics

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def __len__(self) -> int:
        return len(self._metrics)

    def columns(self) -> Dict[str, List[Any]]:
        """One list per figure over the union of all steps, None where a figure
        was not reported; and `step`, ascending."""
        steps = sorted({step for metric in self for step in metric.steps})
        row_of = {step: row for row, step in enumerate(steps)}
        columns: Dict[str, List[Any]] = {"step": list(steps)}
        for metric in self:
            column: List[Any] = [None] * len(steps)
            for step, value in zip(metric.steps, metric.values):
                column[row_of[step]] = value
            columns[metric.name] = column
        return columns

    def to_pandas(self) -> Any:
        """A DataFrame with a column per figure, by step. Needs pandas."""
        frame = _optional.pandas().DataFrame(self.columns())
        return frame.set_index("step").astype(float)

    def rank_columns(self) -> Dict[str, List[Any]]:
        """The layers' ranks: one row per snapshot, layer and bond."""
        columns: Dict[str, List[Any]] = {
            key: [] for key in ("step", "layer", "layer_class", "bond", "initial", "rank")
        }
        for snapshot in self.proto.rank_snapshots:
            for layer in snapshot.layers:
                for bond, rank in enumerate(layer.current):
                    initial = (
                        layer.initial[bond] if bond < len(layer.initial) else rank
                    )
                    row: Tuple[Any, ...] = (
                        snapshot.step,
                        layer.layer,
                        layer.layer_class,
                        bond,
                        initial,
                        rank,
                    )
                    for key, value in zip(columns, row):
                        columns[key].append(value)
        return columns

    def ranks_to_pandas(self) -> Any:
        """rank_columns() as a DataFrame. Needs pandas."""
        return _optional.pandas().DataFrame(self.rank_columns())

    def plot(self, *names: str, ax: Any = None) -> Any:
        """The named figures (all that are losses, if none) by step; returns the
        axes. Needs matplotlib."""
        chosen = list(names) or [n for n in self.names if n.endswith("loss")]
        if ax is None:
            ax = _optional.pyplot().subplots()[1]
        for name in chosen:
            metric = self[name]
            style = "o-" if name.startswith("validation") else "-"
            ax.plot(metric.steps, metric.values, style, label=name, markersize=3)
        ax.set_xlabel("step")
        if len(chosen) == 1:
            ax.set_ylabel(chosen[0])
        else:
            ax.legend()
        return ax

    def __repr__(self) -> str:
        inner = ", ".join(f"{m.name}: {len(m)}" for m in self)
        return f"<Series {inner}>"

    def _repr_html_(self) -> str:
        rows = [
            (m.name, len(m), m.steps[-1] if m.steps else "", f"{m.last:.6g}" if m.values else "")
            for m in self
        ]
        return html_table(rows, ("figure", "points", "last step", "last value"))
