"""Jobs."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from comera._proto import job_pb2, progress_pb2, sweep_service_pb2
from comera._proto import training_service_pb2 as service_pb2
from comera._stubs import stub
from comera._text import enum_name, html_table, optional_datetime
from comera.errors import ComeraError
from comera.events import Event
from comera.front import ParetoFront
from comera.models import Model
from comera.series import Series

if TYPE_CHECKING:
    from comera.client import Client

FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED")


class JobFailedError(ComeraError):
    """A job that was waited for FAILED or was CANCELLED."""

    def __init__(self, job: "Job") -> None:
        text = f"{job.name} {job.state}: {job.reason}"
        if job.failure and job.failure.log_tail:
            text += f"\n--- end of the log of member {job.failure.rank} ---\n"
            text += str(job.failure.log_tail)
        super().__init__(text)
        self.job = job


class Job:
    """A job, as it was when it was read last.

    `watch` and `wait` keep it up to date while they run, `refresh` reads it
    again. Leaving them early, also by Ctrl-C, leaves the job running.
    """

    def __init__(self, client: "Client", proto: job_pb2.Job) -> None:
        self._client = client
        self.proto = proto

    # --- what is known -------------------------------------------------------

    @property
    def name(self) -> str:
        """`jobs/{job}`."""
        return str(self.proto.name)

    @property
    def id(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def display_name(self) -> str:
        return str(self.proto.spec.display_name)

    @property
    def labels(self) -> Dict[str, str]:
        return dict(self.proto.spec.labels)

    @property
    def spec(self) -> job_pb2.JobSpec:
        return self.proto.spec

    @property
    def state(self) -> str:
        """QUEUED, STARTING, RUNNING, PAUSED, CANCELLING, SUCCEEDED, FAILED or
        CANCELLED."""
        return enum_name(job_pb2.JobState.DESCRIPTOR, self.proto.state)

    @property
    def outcome(self) -> str:
        """TARGET_MET, TARGET_MISSED or COMPLETED once it SUCCEEDED, else ""."""
        return enum_name(job_pb2.Outcome.DESCRIPTOR, self.proto.outcome)

    @property
    def done(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def reason(self) -> str:
        return str(self.proto.reason)

    @property
    def failure(self) -> Optional[job_pb2.Failure]:
        return self.proto.failure if self.proto.HasField("failure") else None

    @property
    def progress(self) -> job_pb2.JobProgress:
        return self.proto.progress

    @property
    def created(self) -> Optional[datetime.datetime]:
        return optional_datetime(self.proto, "create_time")

    @property
    def ended(self) -> Optional[datetime.datetime]:
        return optional_datetime(self.proto, "end_time")

    # --- following -----------------------------------------------------------

    def refresh(self) -> "Job":
        self.proto = self._client._training("GetJob", service_pb2.GetJobRequest(name=self.name))
        return self

    def watch(
        self, after_sequence: int = 0, timeout: Optional[float] = None
    ) -> Iterator[Event]:
        """Every event once, in order, until the job has ended.

        Comes back by itself when the connection or the coordinator is lost.
        `after_sequence`: only later events; 0: from the first still kept.
        DeadlineExceededError: not ended within `timeout` seconds.
        """
        last = after_sequence
        deadline = None if timeout is None else time.monotonic() + timeout

        def open_stream(channel: Any, lifetime: float) -> Any:
            request = service_pb2.WatchJobRequest(name=self.name, after_sequence=last)
            return stub("training", channel).WatchJob(request, timeout=lifetime)

        messages = self._client._connection.stream(
            open_stream, lambda: self.done, deadline
        )
        try:
            for message in messages:
                if message.HasField("job"):
                    self.proto = message.job
                    continue
                event = message.event
                # A notice of lost events has no number of its own.
                if 0 < event.sequence <= last:
                    continue
                last = max(last, event.sequence)
                self._take(event)
                yield Event.from_proto(event)
        finally:
            messages.close()  # type: ignore[attr-defined]
        self.refresh()

    def _take(self, event: progress_pb2.JobEvent) -> None:
        """Takes over what the event says about the job."""
        progress = self.proto.progress
        kind = event.WhichOneof("event")
        if kind == "state_change":
            change = event.state_change
            self.proto.state = change.state
            self.proto.outcome = change.outcome
            self.proto.reason = change.reason
            self.proto.attempt = max(self.proto.attempt, event.attempt)
            if change.HasField("failure"):
                self.proto.failure.CopyFrom(change.failure)
        elif kind == "metrics":
            metrics = event.metrics
            progress.step, progress.total_steps = metrics.step, metrics.total_steps
            progress.stage = metrics.stage
            progress.loss = metrics.smoothed_loss
            progress.size_parameters = metrics.size_parameters
            progress.size_bytes = metrics.size_bytes
            progress.samples_per_second = metrics.samples_per_second
            if metrics.HasField("validation_loss"):
                progress.validation_loss = metrics.validation_loss
                progress.has_validation_loss = True

    def wait(
        self,
        timeout: Optional[float] = None,
        check: bool = True,
        on_event: Optional[Callable[[Event], Any]] = None,
    ) -> "Job":
        """Waits for the end. JobFailedError, unless `check` is False, when it
        FAILED or was CANCELLED; DeadlineExceededError after `timeout` seconds.

            job.wait(on_event=print)
        """
        for event in self.watch(timeout=timeout):
            if on_event is not None:
                on_event(event)
        if check and self.state != "SUCCEEDED":
            raise JobFailedError(self)
        return self

    def logs(
        self, rank: int = 0, attempt: int = 0, offset: int = 0, follow: bool = False
    ) -> Iterator[str]:
        """The lines of a member's log, without their ends. `attempt` 0: of the newest
        attempt; `follow`: until the job has ended."""
        request = service_pb2.ReadLogRequest(
            name=self.name, rank=rank, attempt=attempt, offset=offset, follow=follow
        )

        def open_stream(channel: Any, lifetime: float) -> Any:
            return stub("training", channel).ReadLog(request, timeout=lifetime)

        pieces = self._client._connection.stream(open_stream, lambda: True)
        rest = b""
        try:
            for piece in pieces:
                # The offset is this attempt's: a newer attempt's log begins anew.
                if piece.attempt > 0:
                    request.attempt = piece.attempt
                # Bytes from before a disconnect are not given twice.
                data = piece.data[max(0, request.offset - piece.offset) :]
                if not data:
                    continue
                request.offset = piece.offset + len(piece.data)
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    yield line.decode("utf-8", "replace")
        finally:
            pieces.close()  # type: ignore[attr-defined]
        if rest:
            yield rest.decode("utf-8", "replace")

    # --- changing ------------------------------------------------------------

    def cancel(self, reason: str = "") -> "Job":
        self.proto = self._client._training(
            "CancelJob", service_pb2.CancelJobRequest(name=self.name, reason=reason)
        )
        return self

    def pause(self, reason: str = "") -> "Job":
        self.proto = self._client._training(
            "PauseJob", service_pb2.PauseJobRequest(name=self.name, reason=reason)
        )
        return self

    def resume(self, start_over: bool = False) -> "Job":
        """Queues a job again that is paused, failed or was cancelled;
        `start_over` begins at step 0."""
        self.proto = self._client._training(
            "ResumeJob",
            service_pb2.ResumeJobRequest(name=self.name, start_over=start_over),
        )
        return self

    def delete(self) -> None:
        """Removes it, when it has ended, with all that is kept of it."""
        self._client._training(
            "DeleteJob", service_pb2.DeleteJobRequest(name=self.name)
        )

    # --- asking --------------------------------------------------------------

    def explain(self) -> service_pb2.JobExplanation:
        """Why it waits, who is ahead, when it may start."""
        return self._client._training(
            "ExplainJob", service_pb2.ExplainJobRequest(name=self.name)
        )

    def series(
        self, *metrics: str, max_points: int = 1000, after_sequence: int = 0
    ) -> Series:
        """Its figures over the steps: fields of StepMetrics, e.g. "loss",
        "validation_loss", "size_parameters"; none: all that it has."""
        return Series(
            self._client._training(
                "ReadSeries",
                service_pb2.ReadSeriesRequest(
                    name=self.name,
                    metrics=metrics,
                    max_points=max_points,
                    after_sequence=after_sequence,
                ),
            )
        )

    def pareto(self) -> ParetoFront:
        """The front of all models that it has reported so far."""
        request = sweep_service_pb2.ComputeFrontRequest(names=[self.name])
        front = self._client._call("sweeps", "ComputeFront", request)
        return ParetoFront(front, self._targets())

    def _targets(self) -> List[Tuple[float, int]]:
        late = self.proto.spec.objective.late
        found = []
        for target in list(late.targets) or [late]:
            kind = target.WhichOneof("target_size")
            size = 0
            if kind == "target_bytes":
                # Without the header of the file, some 100 bytes a tensor.
                size = target.target_bytes // 4
            elif kind == "target_parameters":
                size = target.target_parameters
            elif not late.targets:
                size = self.proto.progress.target_size_parameters
            if target.target_loss > 0 and size > 0:
                found.append((target.target_loss, size))
        return found

    @property
    def models(self) -> List[Model]:
        """Its exported models, oldest first; asks the coordinator."""
        return list(self._client.list_models(job=self.name))

    def __repr__(self) -> str:
        return f"<Job {self.name} {' '.join(filter(None, (self.state, self.outcome)))}>"

    def _repr_html_(self) -> str:
        p = self.progress
        rows: List[Tuple[str, Any]] = [
            ("name", self.display_name),
            ("state", " ".join(filter(None, (self.state, self.outcome)))),
            ("reason", self.reason),
            ("step", f"{p.step} / {p.total_steps}"),
            ("loss", f"{p.loss:.4f}"),
        ]
        if p.has_validation_loss:
            rows.append(("validation loss", f"{p.validation_loss:.4f}"))
        rows.append(("parameters", f"{p.size_parameters:,}"))
        return html_table([r for r in rows if r[1]], caption=self.name)
