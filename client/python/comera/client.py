"""The client."""

from __future__ import annotations

import os
import secrets
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Union

from comera import _settings
from comera._calls import Connection, RetryPolicy
from comera._proto import access_service_pb2
from comera._proto import dataset_service_pb2
from comera._proto import job_pb2, model_service_pb2
from comera._proto import queue_service_pb2
from comera._proto import sweep_service_pb2
from comera._proto import training_service_pb2 as service_pb2
from comera._text import alias_name, resource_name
from comera.datasets import Dataset, PathLike, ProgressCallback, Uploader
from comera.errors import ConfigError, InternalError
from comera.events import Event
from comera.front import ParetoFront
from comera.jobs import Job
from comera.models import Model
from comera.series import Series
from comera.specs import SpecLike, SweepSpecLike, job_spec, sweep_spec
from comera.sweeps import Sweep

_PAGE = 500

JobLike = Union[Job, str]


class Client:
    """A connection to the coordinator.

        client = comera.Client()                       # as the CLI finds it
        client = comera.Client("host:7400", ca="ca.pem", token_file="token")
        job = client.submit("job.yaml").wait(on_event=print)

    `server`: host:port, any gRPC target, or several coordinators with commas in
    between. What is not given comes from COMERA_SERVER, COMERA_TOKEN,
    COMERA_TOKEN_FILE, COMERA_CA, COMERA_CERT and COMERA_KEY, then from what
    `comera login` stored; the server's last resort is 127.0.0.1:7400.

    Connecting is lazy and lasts across restarts of the coordinator. Calls are
    repeated, with growing pauses, while it cannot be reached. Nothing is done
    twice; but a deletion whose reply was lost says NotFoundError when repeated.
    Thread-safe. All calls raise RpcError's subclasses.
    """

    def __init__(
        self,
        server: Optional[str] = None,
        token: Optional[str] = None,
        token_file: Optional[PathLike] = None,
        ca: Optional[PathLike] = None,
        cert: Optional[PathLike] = None,
        key: Optional[PathLike] = None,
        insecure_token: bool = False,
        retry: Optional[RetryPolicy] = None,
    ) -> None:
        settings = _settings.resolve(
            server, token, token_file, ca, cert, key, insecure_token
        )
        self._connection = Connection(settings, retry or RetryPolicy())

    @property
    def server(self) -> str:
        return self._connection.settings.server

    def close(self) -> None:
        """Ends all streams; later calls fail."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<comera.Client {self.server}>"

    def _call(self, service: str, method: str, request: Any) -> Any:
        return self._connection.unary(service, method, request)

    def _training(self, method: str, request: Any) -> Any:
        return self._call("training", method, request)

    def _pages(
        self, service: str, method: str, request: Any, field: str
    ) -> Iterator[Any]:
        """All items of a list, page by page as they are asked for."""
        while True:
            page = self._call(service, method, request)
            yield from getattr(page, field)
            if not page.next_page_token:
                return
            if page.next_page_token == request.page_token:
                raise InternalError("the server repeats a page token")
            request.page_token = page.next_page_token

    # --- jobs ----------------------------------------------------------------

    def submit(
        self,
        spec: SpecLike,
        set: Optional[Mapping[str, Any]] = None,
        request_id: Optional[str] = None,
    ) -> Job:
        """Creates a job, which is durable when this returns.

        `spec`: a JobSpec, a dict, the path of a job file (.json, .textproto; .yaml
        with PyYAML) or such a file's text. `set`: fields by their paths.
        `request_id`: the same id and spec give the same job, whatever happens to
        the connection; by default a random one.

        SpecError, InvalidArgumentError: a bad field, named.

            client.submit("job.yaml", set={"objective.early.steps": 100})
        """
        proto = self._training(
            "CreateJob",
            service_pb2.CreateJobRequest(
                spec=job_spec(spec, set), request_id=request_id or secrets.token_hex(16)
            ),
        )
        return Job(self, proto)

    def validate(
        self, spec: SpecLike, set: Optional[Mapping[str, Any]] = None
    ) -> job_pb2.Job:
        """Checks everything and creates nothing: the job as it would be, with its
        defaults and a `forecast`. Errors of `submit`."""
        return self._training(
            "CreateJob",
            service_pb2.CreateJobRequest(spec=job_spec(spec, set), validate_only=True),
        )

    def get(self, job: str) -> Job:
        """`jobs/{job}` or the bare id. NotFoundError."""
        name = resource_name("jobs", job)
        return Job(self, self._training("GetJob", service_pb2.GetJobRequest(name=name)))

    def list(
        self,
        states: Union[str, Iterable[str]] = (),
        queue: str = "",
        user: str = "",
        labels: Optional[Mapping[str, str]] = None,
        text: str = "",
        sweep: str = "",
        limit: Optional[int] = None,
        full: bool = False,
    ) -> Iterator[Job]:
        """Jobs, newest first, page by page as the iterator is read.

        `states`: only these, e.g. "RUNNING". `text`: in the name, display name or
        labels. Without `full` a job has what a table shows; `refresh` it for the
        rest.
        """
        wanted = [states] if isinstance(states, str) else states
        numbers = []
        for state in wanted:
            try:
                numbers.append(job_pb2.JobState.Value(state.upper()))
            except ValueError:
                raise ConfigError(f"`{state}` is no state of a job") from None
        request = service_pb2.ListJobsRequest(
            page_size=_PAGE if limit is None else max(1, min(limit, _PAGE)),
            states=numbers,
            queue=queue,
            user=user,
            labels=dict(labels or {}),
            text=text,
            sweep=resource_name("sweeps", sweep) if sweep else "",
            view=(
                service_pb2.JOB_VIEW_UNSPECIFIED if full else service_pb2.JOB_VIEW_BASIC
            ),
        )
        left = limit
        for proto in self._pages("training", "ListJobs", request, "jobs"):
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield Job(self, proto)

    def _job(self, job: JobLike) -> Job:
        if isinstance(job, Job):
            return job
        return Job(self, job_pb2.Job(name=resource_name("jobs", job)))

    def watch(self, job: JobLike, after_sequence: int = 0) -> Iterator[Event]:
        """See Job.watch. Like the methods below, takes a job or its name."""
        return self._job(job).watch(after_sequence)

    def wait(self, job: JobLike, timeout: Optional[float] = None, check: bool = True) -> Job:
        return self._job(job).wait(timeout, check)

    def cancel(self, job: JobLike, reason: str = "") -> Job:
        return self._job(job).cancel(reason)

    def pause(self, job: JobLike, reason: str = "") -> Job:
        return self._job(job).pause(reason)

    def resume(self, job: JobLike) -> Job:
        return self._job(job).resume()

    def explain(self, job: JobLike) -> service_pb2.JobExplanation:
        return self._job(job).explain()

    def logs(
        self, job: JobLike, rank: int = 0, attempt: int = 0, follow: bool = False
    ) -> Iterator[str]:
        return self._job(job).logs(rank, attempt, follow=follow)

    def series(self, job: JobLike, *metrics: str, max_points: int = 1000) -> Series:
        return self._job(job).series(*metrics, max_points=max_points)

    def front(self, *names: Union[Job, Sweep, str]) -> ParetoFront:
        """The front over any jobs and sweeps, from all that they reported."""
        asked = [n if isinstance(n, str) else n.name for n in names]
        request = sweep_service_pb2.ComputeFrontRequest(names=asked)
        return ParetoFront(self._call("sweeps", "ComputeFront", request))

    # --- sweeps --------------------------------------------------------------

    def submit_sweep(
        self, spec: SweepSpecLike, request_id: Optional[str] = None
    ) -> Sweep:
        """Creates a sweep from a SweepSpec, or from a job with a `sweep` section
        as dict, file or text. Errors of `submit`."""
        request = sweep_service_pb2.CreateSweepRequest(
            spec=sweep_spec(spec), request_id=request_id or secrets.token_hex(16)
        )
        return Sweep(self, self._call("sweeps", "CreateSweep", request))

    def validate_sweep(self, spec: SweepSpecLike) -> sweep_service_pb2.Sweep:
        """The sweep as it would be, with its runs; creates nothing."""
        request = sweep_service_pb2.CreateSweepRequest(
            spec=sweep_spec(spec), validate_only=True
        )
        return self._call("sweeps", "CreateSweep", request)

    def get_sweep(self, sweep: str) -> Sweep:
        name = resource_name("sweeps", sweep)
        request = sweep_service_pb2.GetSweepRequest(name=name)
        return Sweep(self, self._call("sweeps", "GetSweep", request))

    def list_sweeps(self) -> Iterator[Sweep]:
        """Sweeps, newest first, without runs and points; `refresh` reads those."""
        request = sweep_service_pb2.ListSweepsRequest(page_size=_PAGE)
        for proto in self._pages("sweeps", "ListSweeps", request, "sweeps"):
            yield Sweep(self, proto)

    # --- models --------------------------------------------------------------

    def list_models(
        self,
        job: Optional[JobLike] = None,
        labels: Optional[Mapping[str, str]] = None,
        text: str = "",
        kept: bool = False,
    ) -> Iterator[Model]:
        """Newest job first, a job's models oldest first; of one job, or of jobs
        with all these labels. `text`: only those with these words in the name of
        model, job or alias; `kept`: only those that are pinned or have an alias."""
        request = model_service_pb2.ListModelsRequest(
            page_size=_PAGE,
            job="" if job is None else self._job(job).name,
            labels=dict(labels or {}),
            text=text,
            kept=kept,
        )
        for proto in self._pages("models", "ListModels", request, "models"):
            yield Model(self, proto)

    def get_model(self, name: str) -> Model:
        """`jobs/{job}/models/{model}`, or an alias `{name}@{alias}`, with ranks and
        figures."""
        if "@" in name:
            alias = model_service_pb2.GetModelAliasRequest(name=alias_name(name))
            return Model(self, self._call("models", "GetModelAlias", alias))
        request = model_service_pb2.GetModelRequest(name=name)
        return Model(self, self._call("models", "GetModel", request))

    def delete_alias(self, alias: str) -> None:
        """Ends an alias, `{name}@{alias}`; its model stays."""
        request = model_service_pb2.DeleteModelAliasRequest(name=alias_name(alias))
        self._call("models", "DeleteModelAlias", request)

    # --- datasets ------------------------------------------------------------

    def upload_dataset(
        self,
        dataset: str,
        *sources: PathLike,
        labels: Optional[Mapping[str, str]] = None,
        on_progress: Optional[ProgressCallback] = None,
    ) -> Dataset:
        """Adds a version with these files, and all files below these folders.

        Sends only what the server does not have, and goes on where a broken upload
        stopped; the version appears whole or not at all.
        """
        name = resource_name("datasets", dataset)
        uploader = Uploader(self, on_progress)
        proto = uploader.run(name.partition("/")[2], sources, labels or {})
        return Dataset(self, proto)

    def get_dataset(self, dataset: str) -> Dataset:
        name = resource_name("datasets", dataset)
        request = dataset_service_pb2.GetDatasetRequest(name=name)
        return Dataset(self, self._call("datasets", "GetDataset", request))

    def list_datasets(
        self, labels: Optional[Mapping[str, str]] = None
    ) -> Iterator[Dataset]:
        """Datasets with all these labels, by name."""
        request = dataset_service_pb2.ListDatasetsRequest(
            page_size=_PAGE, labels=dict(labels or {})
        )
        for proto in self._pages("datasets", "ListDatasets", request, "datasets"):
            yield Dataset(self, proto)

    # --- the cluster ---------------------------------------------------------

    def list_workers(self) -> List[service_pb2.WorkerSummary]:
        answer = self._training("ListWorkers", service_pb2.ListWorkersRequest())
        return [*answer.workers]

    def forget_worker(self, worker: str) -> None:
        """Has the server forget a worker that is gone, and a drain of it.

        For administrators. `FailedPrecondition` while the worker is connected, or
        while members of jobs may still run there.
        """
        name = resource_name("workers", worker)
        self._training("DeleteWorker", service_pb2.DeleteWorkerRequest(name=name))

    def list_queues(self) -> Iterator[queue_service_pb2.Queue]:
        request = queue_service_pb2.ListQueuesRequest(page_size=_PAGE)
        return self._pages("queues", "ListQueues", request, "queues")

    def whoami(self) -> access_service_pb2.WhoAmIResponse:
        """The caller as the server sees it; `open` if it asks for no token."""
        return self._call("access", "WhoAmI", access_service_pb2.WhoAmIRequest())

    def server_version(self) -> str:
        info = self._training("GetServerInfo", service_pb2.GetServerInfoRequest())
        return str(info.version)


def login(
    server: Optional[str] = None,
    token: Optional[str] = None,
    token_file: Optional[PathLike] = None,
    ca: Optional[PathLike] = None,
    cert: Optional[PathLike] = None,
    key: Optional[PathLike] = None,
    insecure_token: bool = False,
) -> access_service_pb2.WhoAmIResponse:
    """Tries the connection, then stores it where `comera login` does: clients
    and commands find it there from then on. Returns who the server takes the
    caller for; nothing is stored if it refuses."""
    with Client(server, token, token_file, ca, cert, key, insecure_token) as client:
        answer = client.whoami()
        settings = client._connection.settings

    def absolute(path: str) -> str:
        return path if path in ("", "system") else os.path.abspath(path)

    stored = {
        "server": settings.server,
        "token": settings.token.get(),
        "ca": absolute(settings.ca),
        "cert": absolute(settings.cert),
        "key": absolute(settings.key),
    }
    if settings.insecure_token:
        stored["insecure_token"] = True  # type: ignore[assignment]
    _settings.write_login(stored)
    return answer
