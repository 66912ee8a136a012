from . import job_pb2 as _job_pb2
from . import progress_pb2 as _progress_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
JOB_VIEW_BASIC: JobView
JOB_VIEW_UNSPECIFIED: JobView

class CancelJobRequest(_message.Message):
    __slots__ = ["name", "reason"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CreateJobRequest(_message.Message):
    __slots__ = ["request_id", "spec", "validate_only"]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    spec: _job_pb2.JobSpec
    validate_only: bool
    def __init__(self, spec: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class DownloadArtifactRequest(_message.Message):
    __slots__ = ["name", "offset", "path"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    offset: int
    path: str
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class DownloadArtifactResponse(_message.Message):
    __slots__ = ["data", "offset"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class DrainWorkerRequest(_message.Message):
    __slots__ = ["name", "reason", "wait"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    wait: bool
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., wait: bool = ...) -> None: ...

class ExplainJobRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetWorkerRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class JobAhead(_message.Message):
    __slots__ = ["name", "priority", "processes", "queue", "why"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    priority: int
    processes: int
    queue: str
    why: str
    def __init__(self, name: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., processes: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class JobExplanation(_message.Message):
    __slots__ = ["ahead", "blocked_by", "expected_start", "fit_slots", "free_slots", "max_processes", "min_processes", "name", "position", "preemptions", "priority", "processes", "queue", "queue_guaranteed_processes", "queue_max_processes", "queue_processes", "reason", "smaller_gangs", "state", "workers"]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_START_FIELD_NUMBER: _ClassVar[int]
    FIT_SLOTS_FIELD_NUMBER: _ClassVar[int]
    FREE_SLOTS_FIELD_NUMBER: _ClassVar[int]
    MAX_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    MIN_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_GUARANTEED_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MAX_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SMALLER_GANGS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    ahead: _containers.RepeatedCompositeFieldContainer[JobAhead]
    blocked_by: str
    expected_start: _timestamp_pb2.Timestamp
    fit_slots: int
    free_slots: int
    max_processes: int
    min_processes: int
    name: str
    position: int
    preemptions: int
    priority: int
    processes: int
    queue: str
    queue_guaranteed_processes: int
    queue_max_processes: int
    queue_processes: int
    reason: str
    smaller_gangs: _containers.RepeatedCompositeFieldContainer[SmallerGang]
    state: _job_pb2.JobState
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[_job_pb2.JobState, str]] = ..., reason: _Optional[str] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., processes: _Optional[int] = ..., max_processes: _Optional[int] = ..., min_processes: _Optional[int] = ..., position: _Optional[int] = ..., ahead: _Optional[_Iterable[_Union[JobAhead, _Mapping]]] = ..., blocked_by: _Optional[str] = ..., expected_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., smaller_gangs: _Optional[_Iterable[_Union[SmallerGang, _Mapping]]] = ..., fit_slots: _Optional[int] = ..., free_slots: _Optional[int] = ..., queue_processes: _Optional[int] = ..., queue_guaranteed_processes: _Optional[int] = ..., queue_max_processes: _Optional[int] = ..., workers: _Optional[_Iterable[str]] = ..., preemptions: _Optional[int] = ...) -> None: ...

class JobSeries(_message.Message):
    __slots__ = ["last_sequence", "pareto_points", "rank_snapshots", "run_info", "series"]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PARETO_POINTS_FIELD_NUMBER: _ClassVar[int]
    RANK_SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    RUN_INFO_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    last_sequence: int
    pareto_points: _containers.RepeatedCompositeFieldContainer[_progress_pb2.ParetoPoint]
    rank_snapshots: _containers.RepeatedCompositeFieldContainer[_progress_pb2.RankSnapshot]
    run_info: _progress_pb2.RunInfo
    series: _containers.RepeatedCompositeFieldContainer[MetricSeries]
    def __init__(self, series: _Optional[_Iterable[_Union[MetricSeries, _Mapping]]] = ..., rank_snapshots: _Optional[_Iterable[_Union[_progress_pb2.RankSnapshot, _Mapping]]] = ..., pareto_points: _Optional[_Iterable[_Union[_progress_pb2.ParetoPoint, _Mapping]]] = ..., last_sequence: _Optional[int] = ..., run_info: _Optional[_Union[_progress_pb2.RunInfo, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ["labels", "page_size", "page_token", "queue", "states", "sweep", "text", "user", "view"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    SWEEP_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    queue: str
    states: _containers.RepeatedScalarFieldContainer[_job_pb2.JobState]
    sweep: str
    text: str
    user: str
    view: JobView
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_job_pb2.JobState, str]]] = ..., queue: _Optional[str] = ..., user: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., text: _Optional[str] = ..., sweep: _Optional[str] = ..., view: _Optional[_Union[JobView, str]] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ["jobs", "next_page_token", "total_size"]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.Job]
    next_page_token: str
    total_size: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total_size: _Optional[int] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ["workers"]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerSummary]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerSummary, _Mapping]]] = ...) -> None: ...

class MetricSeries(_message.Message):
    __slots__ = ["metric", "steps", "values", "wall_times"]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    WALL_TIMES_FIELD_NUMBER: _ClassVar[int]
    metric: str
    steps: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    wall_times: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, metric: _Optional[str] = ..., steps: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ..., wall_times: _Optional[_Iterable[float]] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ["name", "reason"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ["attempt", "follow", "name", "offset", "rank"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    follow: bool
    name: str
    offset: int
    rank: int
    def __init__(self, name: _Optional[str] = ..., rank: _Optional[int] = ..., attempt: _Optional[int] = ..., offset: _Optional[int] = ..., follow: bool = ...) -> None: ...

class ReadLogResponse(_message.Message):
    __slots__ = ["attempt", "data", "offset"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    data: bytes
    offset: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ..., attempt: _Optional[int] = ...) -> None: ...

class ReadSeriesRequest(_message.Message):
    __slots__ = ["after_sequence", "max_points", "metrics", "name"]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MAX_POINTS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    max_points: int
    metrics: _containers.RepeatedScalarFieldContainer[str]
    name: str
    def __init__(self, name: _Optional[str] = ..., metrics: _Optional[_Iterable[str]] = ..., max_points: _Optional[int] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeWorkerRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ServerInfo(_message.Message):
    __slots__ = ["version"]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class SmallerGang(_message.Message):
    __slots__ = ["expected_start", "now", "processes"]
    EXPECTED_START_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    expected_start: _timestamp_pb2.Timestamp
    now: bool
    processes: int
    def __init__(self, processes: _Optional[int] = ..., now: bool = ..., expected_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ["after_sequence", "name"]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    name: str
    def __init__(self, name: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WatchJobResponse(_message.Message):
    __slots__ = ["event", "job"]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    event: _progress_pb2.JobEvent
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., event: _Optional[_Union[_progress_pb2.JobEvent, _Mapping]] = ...) -> None: ...

class WorkerSummary(_message.Message):
    __slots__ = ["busy_slots", "connected", "gpus", "hardware_failures", "host", "jobs", "last_seen", "name", "peer_address", "rack", "service", "service_reason", "service_since", "slots", "unfit_count", "unfit_slots", "version"]
    class Service(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BUSY_SLOTS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    DRAINED: WorkerSummary.Service
    DRAINING: WorkerSummary.Service
    EXCLUDED: WorkerSummary.Service
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FAILURES_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    IN_SERVICE: WorkerSummary.Service
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_REASON_FIELD_NUMBER: _ClassVar[int]
    SERVICE_SINCE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    UNFIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNFIT_SLOTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    busy_slots: int
    connected: bool
    gpus: _containers.RepeatedScalarFieldContainer[str]
    hardware_failures: int
    host: str
    jobs: _containers.RepeatedScalarFieldContainer[str]
    last_seen: _timestamp_pb2.Timestamp
    name: str
    peer_address: str
    rack: str
    service: WorkerSummary.Service
    service_reason: str
    service_since: _timestamp_pb2.Timestamp
    slots: int
    unfit_count: int
    unfit_slots: _containers.RepeatedScalarFieldContainer[str]
    version: str
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., slots: _Optional[int] = ..., busy_slots: _Optional[int] = ..., connected: bool = ..., version: _Optional[str] = ..., gpus: _Optional[_Iterable[str]] = ..., unfit_slots: _Optional[_Iterable[str]] = ..., rack: _Optional[str] = ..., service: _Optional[_Union[WorkerSummary.Service, str]] = ..., service_reason: _Optional[str] = ..., service_since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., hardware_failures: _Optional[int] = ..., jobs: _Optional[_Iterable[str]] = ..., last_seen: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., unfit_count: _Optional[int] = ..., peer_address: _Optional[str] = ...) -> None: ...

class JobView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
