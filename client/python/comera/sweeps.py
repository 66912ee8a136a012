"""Sweeps: many jobs from one specification, and their front."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional

from comera._proto import job_pb2, sweep_service_pb2
from comera._stubs import stub
from comera._text import enum_name, html_table
from comera.errors import ComeraError
from comera.front import ParetoFront
from comera.jobs import FINAL_STATES, Job

if TYPE_CHECKING:
    from comera.client import Client

_RUN_STATE = sweep_service_pb2.SweepRunState.DESCRIPTOR


class SweepFailedError(ComeraError):
    """A sweep that was waited for FAILED or was CANCELLED."""

    def __init__(self, sweep: "Sweep") -> None:
        super().__init__(f"{sweep.name} {sweep.state}: {sweep.reason}")
        self.sweep = sweep


class Sweep:
    """A sweep, as it was when it was read last; see Job."""

    def __init__(self, client: "Client", proto: sweep_service_pb2.Sweep) -> None:
        self._client = client
        self.proto = proto

    @property
    def name(self) -> str:
        """`sweeps/{sweep}`."""
        return str(self.proto.name)

    @property
    def display_name(self) -> str:
        return str(self.proto.spec.display_name)

    @property
    def state(self) -> str:
        """ACTIVE, CANCELLING, SUCCEEDED, FAILED or CANCELLED."""
        return enum_name(sweep_service_pb2.Sweep.State.DESCRIPTOR, self.proto.state)

    @property
    def outcome(self) -> str:
        return enum_name(job_pb2.Outcome.DESCRIPTOR, self.proto.outcome)

    @property
    def done(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def reason(self) -> str:
        return str(self.proto.reason)

    @property
    def runs(self) -> List[sweep_service_pb2.SweepRun]:
        """The runs, in the order of the specification."""
        return list(self.proto.runs)

    @property
    def chosen(self) -> Optional[Job]:
        """The job whose model a search (compression.method auto) chose; `reason`
        says why. None before its end, and for other sweeps."""
        if not self.proto.search.HasField("chosen_run"):
            return None
        return self._client.get(self.proto.runs[self.proto.search.chosen_run].job)

    @property
    def jobs(self) -> List[Job]:
        """The jobs of the runs that have one; asks the coordinator."""
        return [self._client.get(run.job) for run in self.proto.runs if run.job]

    def refresh(self) -> "Sweep":
        request = sweep_service_pb2.GetSweepRequest(name=self.name)
        self.proto = self._client._call("sweeps", "GetSweep", request)
        return self

    def watch(
        self, after_sequence: int = 0, timeout: Optional[float] = None
    ) -> Iterator[sweep_service_pb2.SweepEvent]:
        """Changes, until the sweep has ended; the sweep itself is kept up to date.
        Comes back by itself; see Job.watch."""
        last = after_sequence
        deadline = None if timeout is None else time.monotonic() + timeout

        def open_stream(channel: Any, lifetime: float) -> Any:
            request = sweep_service_pb2.WatchSweepRequest(
                name=self.name, after_sequence=last
            )
            return stub("sweeps", channel).WatchSweep(request, timeout=lifetime)

        messages = self._client._connection.stream(
            open_stream, lambda: self.done, deadline
        )
        try:
            for message in messages:
                if message.HasField("sweep"):
                    self.proto = message.sweep
                    continue
                event = message.event
                if 0 < event.sequence <= last:
                    continue
                last = max(last, event.sequence)
                self._take(event)
                yield event
        finally:
            messages.close()  # type: ignore[attr-defined]
        self.refresh()

    def _take(self, event: sweep_service_pb2.SweepEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "state_change":
            self.proto.state = event.state_change.state
            self.proto.outcome = event.state_change.outcome
            self.proto.reason = event.state_change.reason
        elif kind == "front":
            self.proto.front.CopyFrom(event.front)
        elif kind == "search":
            self.proto.search.CopyFrom(event.search)
        elif kind in ("run", "stage"):
            changed = getattr(event, kind)
            for known in self.proto.runs if kind == "run" else self.proto.stages:
                if known.index == changed.index:
                    known.CopyFrom(changed)

    def wait(
        self,
        timeout: Optional[float] = None,
        check: bool = True,
        on_event: Optional[Callable[[sweep_service_pb2.SweepEvent], Any]] = None,
    ) -> "Sweep":
        """Waits for the end. SweepFailedError, unless `check` is False, when it
        FAILED or was CANCELLED; DeadlineExceededError after `timeout` seconds."""
        for event in self.watch(timeout=timeout):
            if on_event is not None:
                on_event(event)
        if check and self.state != "SUCCEEDED":
            raise SweepFailedError(self)
        return self

    def front(self) -> ParetoFront:
        """The front of all its runs so far; asks the coordinator."""
        return self._client.front(self.name)

    def cancel(self, reason: str = "") -> "Sweep":
        request = sweep_service_pb2.CancelSweepRequest(name=self.name, reason=reason)
        self.proto = self._client._call("sweeps", "CancelSweep", request)
        return self

    def delete(self) -> None:
        """Forgets an ended sweep; its jobs stay."""
        request = sweep_service_pb2.DeleteSweepRequest(name=self.name)
        self._client._call("sweeps", "DeleteSweep", request)

    def __repr__(self) -> str:
        return f"<Sweep {self.name} {' '.join(filter(None, (self.state, self.outcome)))}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                run.index,
                run.label,
                enum_name(_RUN_STATE, run.state).replace("SWEEP_RUN_", ""),
                run.job,
                f"{run.progress.validation_loss:.4f}"
                if run.progress.has_validation_loss
                else "",
                f"{run.progress.size_parameters:,}",
            )
            for run in self.proto.runs
        ]
        return html_table(
            rows,
            ("run", "what", "state", "job", "validation loss", "parameters"),
            f"{self.name} {self.state} {self.outcome}: {self.reason}",
        )
