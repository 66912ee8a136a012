from . import job_pb2 as _job_pb2
from . import progress_pb2 as _progress_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
SWEEP_RUN_ACTIVE: SweepRunState
SWEEP_RUN_CANCELLED: SweepRunState
SWEEP_RUN_FAILED: SweepRunState
SWEEP_RUN_STATE_UNSPECIFIED: SweepRunState
SWEEP_RUN_STOPPED: SweepRunState
SWEEP_RUN_SUCCEEDED: SweepRunState
SWEEP_RUN_WAITING: SweepRunState

class CancelSweepRequest(_message.Message):
    __slots__ = ["name", "reason"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ComputeFrontRequest(_message.Message):
    __slots__ = ["names", "reference"]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    reference: ReferencePoint
    def __init__(self, names: _Optional[_Iterable[str]] = ..., reference: _Optional[_Union[ReferencePoint, _Mapping]] = ...) -> None: ...

class CreateSweepRequest(_message.Message):
    __slots__ = ["request_id", "spec", "validate_only"]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    spec: SweepSpec
    validate_only: bool
    def __init__(self, spec: _Optional[_Union[SweepSpec, _Mapping]] = ..., request_id: _Optional[str] = ..., validate_only: bool = ...) -> None: ...

class DeleteSweepRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteSweepResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class FieldValue(_message.Message):
    __slots__ = ["path", "value"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    path: str
    value: str
    def __init__(self, path: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class FieldValues(_message.Message):
    __slots__ = ["path", "values"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    path: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class FrontPoint(_message.Message):
    __slots__ = ["job", "point", "run"]
    JOB_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    job: str
    point: _progress_pb2.ParetoPoint
    run: int
    def __init__(self, point: _Optional[_Union[_progress_pb2.ParetoPoint, _Mapping]] = ..., job: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class GetSweepRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListSweepsRequest(_message.Message):
    __slots__ = ["page_size", "page_token"]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSweepsResponse(_message.Message):
    __slots__ = ["next_page_token", "sweeps"]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SWEEPS_FIELD_NUMBER: _ClassVar[int]
    next_page_token: str
    sweeps: _containers.RepeatedCompositeFieldContainer[Sweep]
    def __init__(self, sweeps: _Optional[_Iterable[_Union[Sweep, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReferencePoint(_message.Message):
    __slots__ = ["size_parameters", "validation_loss"]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    size_parameters: int
    validation_loss: float
    def __init__(self, validation_loss: _Optional[float] = ..., size_parameters: _Optional[int] = ...) -> None: ...

class Sweep(_message.Message):
    __slots__ = ["counts", "create_time", "end_time", "etag", "front", "name", "outcome", "reason", "request_id", "runs", "spec", "stages", "state", "user"]
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ACTIVE: Sweep.State
    CANCELLED: Sweep.State
    CANCELLING: Sweep.State
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FAILED: Sweep.State
    FRONT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_UNSPECIFIED: Sweep.State
    SUCCEEDED: Sweep.State
    USER_FIELD_NUMBER: _ClassVar[int]
    counts: SweepCounts
    create_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    etag: str
    front: SweepFront
    name: str
    outcome: _job_pb2.Outcome
    reason: str
    request_id: str
    runs: _containers.RepeatedCompositeFieldContainer[SweepRun]
    spec: SweepSpec
    stages: _containers.RepeatedCompositeFieldContainer[SweepStage]
    state: Sweep.State
    user: str
    def __init__(self, name: _Optional[str] = ..., spec: _Optional[_Union[SweepSpec, _Mapping]] = ..., state: _Optional[_Union[Sweep.State, str]] = ..., outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., reason: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ..., request_id: _Optional[str] = ..., etag: _Optional[str] = ..., runs: _Optional[_Iterable[_Union[SweepRun, _Mapping]]] = ..., stages: _Optional[_Iterable[_Union[SweepStage, _Mapping]]] = ..., front: _Optional[_Union[SweepFront, _Mapping]] = ..., counts: _Optional[_Union[SweepCounts, _Mapping]] = ...) -> None: ...

class SweepCounts(_message.Message):
    __slots__ = ["active", "cancelled", "failed", "runs", "stopped", "succeeded", "waiting"]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    active: int
    cancelled: int
    failed: int
    runs: int
    stopped: int
    succeeded: int
    waiting: int
    def __init__(self, runs: _Optional[int] = ..., waiting: _Optional[int] = ..., active: _Optional[int] = ..., succeeded: _Optional[int] = ..., failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., stopped: _Optional[int] = ...) -> None: ...

class SweepEvent(_message.Message):
    __slots__ = ["front", "run", "sequence", "stage", "state_change", "time"]
    FRONT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    front: SweepFront
    run: SweepRun
    sequence: int
    stage: SweepStage
    state_change: SweepStateChange
    time: _timestamp_pb2.Timestamp
    def __init__(self, sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., state_change: _Optional[_Union[SweepStateChange, _Mapping]] = ..., run: _Optional[_Union[SweepRun, _Mapping]] = ..., stage: _Optional[_Union[SweepStage, _Mapping]] = ..., front: _Optional[_Union[SweepFront, _Mapping]] = ...) -> None: ...

class SweepFront(_message.Message):
    __slots__ = ["hypervolume", "hypervolume_ratio", "points", "reference"]
    HYPERVOLUME_FIELD_NUMBER: _ClassVar[int]
    HYPERVOLUME_RATIO_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    hypervolume: float
    hypervolume_ratio: float
    points: _containers.RepeatedCompositeFieldContainer[FrontPoint]
    reference: ReferencePoint
    def __init__(self, points: _Optional[_Iterable[_Union[FrontPoint, _Mapping]]] = ..., hypervolume: _Optional[float] = ..., hypervolume_ratio: _Optional[float] = ..., reference: _Optional[_Union[ReferencePoint, _Mapping]] = ...) -> None: ...

class SweepGrid(_message.Message):
    __slots__ = ["fields", "methods", "ranks", "seeds", "targets"]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    METHODS_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[FieldValues]
    methods: _containers.RepeatedScalarFieldContainer[_job_pb2.CompressionSpec.Method]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    seeds: _containers.RepeatedScalarFieldContainer[int]
    targets: _containers.RepeatedCompositeFieldContainer[_job_pb2.Target]
    def __init__(self, methods: _Optional[_Iterable[_Union[_job_pb2.CompressionSpec.Method, str]]] = ..., ranks: _Optional[_Iterable[int]] = ..., fields: _Optional[_Iterable[_Union[FieldValues, _Mapping]]] = ..., seeds: _Optional[_Iterable[int]] = ..., targets: _Optional[_Iterable[_Union[_job_pb2.Target, _Mapping]]] = ...) -> None: ...

class SweepPoint(_message.Message):
    __slots__ = ["fields", "method", "ranks", "seed", "target"]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[FieldValue]
    method: _job_pb2.CompressionSpec.Method
    ranks: int
    seed: int
    target: _job_pb2.Target
    def __init__(self, method: _Optional[_Union[_job_pb2.CompressionSpec.Method, str]] = ..., ranks: _Optional[int] = ..., fields: _Optional[_Iterable[_Union[FieldValue, _Mapping]]] = ..., seed: _Optional[int] = ..., target: _Optional[_Union[_job_pb2.Target, _Mapping]] = ...) -> None: ...

class SweepRun(_message.Message):
    __slots__ = ["index", "job", "job_state", "label", "outcome", "points", "progress", "reason", "stage", "state"]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_STATE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    index: int
    job: str
    job_state: _job_pb2.JobState
    label: str
    outcome: _job_pb2.Outcome
    points: _containers.RepeatedCompositeFieldContainer[_progress_pb2.ParetoPoint]
    progress: _job_pb2.JobProgress
    reason: str
    stage: int
    state: SweepRunState
    def __init__(self, index: _Optional[int] = ..., label: _Optional[str] = ..., state: _Optional[_Union[SweepRunState, str]] = ..., reason: _Optional[str] = ..., job: _Optional[str] = ..., job_state: _Optional[_Union[_job_pb2.JobState, str]] = ..., outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., progress: _Optional[_Union[_job_pb2.JobProgress, _Mapping]] = ..., points: _Optional[_Iterable[_Union[_progress_pb2.ParetoPoint, _Mapping]]] = ..., stage: _Optional[int] = ...) -> None: ...

class SweepSpec(_message.Message):
    __slots__ = ["display_name", "dominance_margin", "grid", "job", "list", "max_parallel", "reference", "share_early_stage", "stop_dominated"]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DOMINANCE_MARGIN_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    SHARE_EARLY_STAGE_FIELD_NUMBER: _ClassVar[int]
    STOP_DOMINATED_FIELD_NUMBER: _ClassVar[int]
    display_name: str
    dominance_margin: float
    grid: SweepGrid
    job: _job_pb2.JobSpec
    list: _containers.RepeatedCompositeFieldContainer[SweepPoint]
    max_parallel: int
    reference: ReferencePoint
    share_early_stage: bool
    stop_dominated: bool
    def __init__(self, display_name: _Optional[str] = ..., job: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., grid: _Optional[_Union[SweepGrid, _Mapping]] = ..., list: _Optional[_Iterable[_Union[SweepPoint, _Mapping]]] = ..., max_parallel: _Optional[int] = ..., share_early_stage: bool = ..., stop_dominated: bool = ..., dominance_margin: _Optional[float] = ..., reference: _Optional[_Union[ReferencePoint, _Mapping]] = ...) -> None: ...

class SweepStage(_message.Message):
    __slots__ = ["checkpoint", "index", "job", "job_state", "points", "progress", "reason", "state"]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_STATE_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    checkpoint: str
    index: int
    job: str
    job_state: _job_pb2.JobState
    points: _containers.RepeatedCompositeFieldContainer[_progress_pb2.ParetoPoint]
    progress: _job_pb2.JobProgress
    reason: str
    state: SweepRunState
    def __init__(self, index: _Optional[int] = ..., state: _Optional[_Union[SweepRunState, str]] = ..., reason: _Optional[str] = ..., job: _Optional[str] = ..., job_state: _Optional[_Union[_job_pb2.JobState, str]] = ..., progress: _Optional[_Union[_job_pb2.JobProgress, _Mapping]] = ..., points: _Optional[_Iterable[_Union[_progress_pb2.ParetoPoint, _Mapping]]] = ..., checkpoint: _Optional[str] = ...) -> None: ...

class SweepStateChange(_message.Message):
    __slots__ = ["outcome", "reason", "state"]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    outcome: _job_pb2.Outcome
    reason: str
    state: Sweep.State
    def __init__(self, state: _Optional[_Union[Sweep.State, str]] = ..., outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class WatchSweepRequest(_message.Message):
    __slots__ = ["after_sequence", "name"]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    name: str
    def __init__(self, name: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WatchSweepResponse(_message.Message):
    __slots__ = ["event", "sweep"]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    SWEEP_FIELD_NUMBER: _ClassVar[int]
    event: SweepEvent
    sweep: Sweep
    def __init__(self, sweep: _Optional[_Union[Sweep, _Mapping]] = ..., event: _Optional[_Union[SweepEvent, _Mapping]] = ...) -> None: ...

class SweepRunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
