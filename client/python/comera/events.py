"""Events of a running job."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Optional

from comera._proto import job_pb2, progress_pb2
from comera._text import enum_name, to_datetime


@dataclass(frozen=True)
class Event:
    """One event of a job.

    `kind` is one of state_change, metrics, rank_snapshot, pareto_point,
    checkpoint, incident, dropped, run_info, result, and `value` its message; the
    property of that name has it too, and all others are None:

        if event.metrics:
            print(event.metrics.step, event.metrics.loss)
    """

    job: str
    # Events count from 1; 0 is a notice of events that this reader missed
    # (`dropped`).
    sequence: int
    time: datetime.datetime
    # Number of the attempt it belongs to.
    attempt: int
    kind: str
    value: Any

    @classmethod
    def from_proto(cls, event: progress_pb2.JobEvent) -> "Event":
        kind = event.WhichOneof("event") or ""
        return cls(
            job=event.job,
            sequence=event.sequence,
            time=to_datetime(event.time),
            attempt=event.attempt,
            kind=kind,
            value=getattr(event, kind) if kind else None,
        )

    def _get(self, kind: str) -> Any:
        return self.value if self.kind == kind else None

    @property
    def state_change(self) -> Optional[progress_pb2.StateChange]:
        return self._get("state_change")

    @property
    def metrics(self) -> Optional[progress_pb2.StepMetrics]:
        return self._get("metrics")

    @property
    def rank_snapshot(self) -> Optional[progress_pb2.RankSnapshot]:
        return self._get("rank_snapshot")

    @property
    def pareto_point(self) -> Optional[progress_pb2.ParetoPoint]:
        return self._get("pareto_point")

    @property
    def checkpoint(self) -> Optional[progress_pb2.CheckpointSaved]:
        return self._get("checkpoint")

    @property
    def incident(self) -> Optional[job_pb2.Failure]:
        return self._get("incident")

    @property
    def dropped(self) -> Optional[progress_pb2.DroppedEvents]:
        return self._get("dropped")

    @property
    def run_info(self) -> Optional[progress_pb2.RunInfo]:
        return self._get("run_info")

    @property
    def result(self) -> Optional[progress_pb2.TrainingResult]:
        return self._get("result")

    @property
    def state(self) -> str:
        """The new state, e.g. "RUNNING"; "" for other events."""
        if self.kind != "state_change":
            return ""
        return enum_name(job_pb2.JobState.DESCRIPTOR, self.value.state)

    def __str__(self) -> str:
        if self.kind == "metrics":
            m = self.value
            text = f"step {m.step}/{m.total_steps}  loss {m.loss:.4f}"
            if m.HasField("validation_loss"):
                text += f"  validation {m.validation_loss:.4f}"
            return text + f"  size {m.size_parameters:,} parameters"
        if self.kind == "state_change":
            return f"{self.state}: {self.value.reason}" if self.value.reason else self.state
        return f"{self.kind} {self.sequence}"
