from . import job_pb2 as _job_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckpointSaved(_message.Message):
    __slots__ = ["size_bytes", "snapshot", "step"]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    snapshot: bool
    step: int
    def __init__(self, step: _Optional[int] = ..., size_bytes: _Optional[int] = ..., snapshot: bool = ...) -> None: ...

class DroppedEvents(_message.Message):
    __slots__ = ["count"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ["activity", "collectives", "collectives_begun", "stage", "step", "work"]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_BEGUN_FIELD_NUMBER: _ClassVar[int]
    COLLECTIVES_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    activity: str
    collectives: int
    collectives_begun: int
    stage: _job_pb2.Stage
    step: int
    work: int
    def __init__(self, stage: _Optional[_Union[_job_pb2.Stage, str]] = ..., step: _Optional[int] = ..., collectives: _Optional[int] = ..., activity: _Optional[str] = ..., collectives_begun: _Optional[int] = ..., work: _Optional[int] = ...) -> None: ...

class JobEvent(_message.Message):
    __slots__ = ["attempt", "checkpoint", "dropped", "incident", "job", "metrics", "pareto_point", "rank_snapshot", "result", "run_info", "sequence", "state_change", "time"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    PARETO_POINT_FIELD_NUMBER: _ClassVar[int]
    RANK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RUN_INFO_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    checkpoint: CheckpointSaved
    dropped: DroppedEvents
    incident: _job_pb2.Failure
    job: str
    metrics: StepMetrics
    pareto_point: ParetoPoint
    rank_snapshot: RankSnapshot
    result: TrainingResult
    run_info: RunInfo
    sequence: int
    state_change: StateChange
    time: _timestamp_pb2.Timestamp
    def __init__(self, job: _Optional[str] = ..., sequence: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., state_change: _Optional[_Union[StateChange, _Mapping]] = ..., metrics: _Optional[_Union[StepMetrics, _Mapping]] = ..., rank_snapshot: _Optional[_Union[RankSnapshot, _Mapping]] = ..., pareto_point: _Optional[_Union[ParetoPoint, _Mapping]] = ..., checkpoint: _Optional[_Union[CheckpointSaved, _Mapping]] = ..., incident: _Optional[_Union[_job_pb2.Failure, _Mapping]] = ..., dropped: _Optional[_Union[DroppedEvents, _Mapping]] = ..., run_info: _Optional[_Union[RunInfo, _Mapping]] = ..., result: _Optional[_Union[TrainingResult, _Mapping]] = ...) -> None: ...

class LayerError(_message.Message):
    __slots__ = ["layer", "relative_error"]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    layer: str
    relative_error: float
    def __init__(self, layer: _Optional[str] = ..., relative_error: _Optional[float] = ...) -> None: ...

class LayerRanks(_message.Message):
    __slots__ = ["current", "initial", "layer", "layer_class"]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    LAYER_CLASS_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    current: _containers.RepeatedScalarFieldContainer[int]
    initial: _containers.RepeatedScalarFieldContainer[int]
    layer: str
    layer_class: str
    def __init__(self, layer: _Optional[str] = ..., layer_class: _Optional[str] = ..., initial: _Optional[_Iterable[int]] = ..., current: _Optional[_Iterable[int]] = ...) -> None: ...

class ParetoPoint(_message.Message):
    __slots__ = ["size_bytes", "size_parameters", "step", "validation_loss"]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    size_parameters: int
    step: int
    validation_loss: float
    def __init__(self, step: _Optional[int] = ..., validation_loss: _Optional[float] = ..., size_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class RankSnapshot(_message.Message):
    __slots__ = ["layers", "step"]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    layers: _containers.RepeatedCompositeFieldContainer[LayerRanks]
    step: int
    def __init__(self, step: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerRanks, _Mapping]]] = ...) -> None: ...

class RunInfo(_message.Message):
    __slots__ = ["baseline_loss", "dense_parameters", "device", "ideal_auc", "initial_errors", "initial_parameters", "resumed_from_step", "total_steps", "train_samples", "validation_samples", "vocabulary_size", "world_size"]
    BASELINE_LOSS_FIELD_NUMBER: _ClassVar[int]
    DENSE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    IDEAL_AUC_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ERRORS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FROM_STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    TRAIN_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    baseline_loss: float
    dense_parameters: int
    device: str
    ideal_auc: float
    initial_errors: _containers.RepeatedCompositeFieldContainer[LayerError]
    initial_parameters: int
    resumed_from_step: int
    total_steps: int
    train_samples: int
    validation_samples: int
    vocabulary_size: int
    world_size: int
    def __init__(self, train_samples: _Optional[int] = ..., validation_samples: _Optional[int] = ..., vocabulary_size: _Optional[int] = ..., baseline_loss: _Optional[float] = ..., initial_parameters: _Optional[int] = ..., dense_parameters: _Optional[int] = ..., total_steps: _Optional[int] = ..., world_size: _Optional[int] = ..., resumed_from_step: _Optional[int] = ..., ideal_auc: _Optional[float] = ..., initial_errors: _Optional[_Iterable[_Union[LayerError, _Mapping]]] = ..., device: _Optional[str] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ["failure", "outcome", "reason", "state"]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    failure: _job_pb2.Failure
    outcome: _job_pb2.Outcome
    reason: str
    state: _job_pb2.JobState
    def __init__(self, state: _Optional[_Union[_job_pb2.JobState, str]] = ..., outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., reason: _Optional[str] = ..., failure: _Optional[_Union[_job_pb2.Failure, _Mapping]] = ...) -> None: ...

class StepMetrics(_message.Message):
    __slots__ = ["dense_synchronized_bytes", "device_memory_bytes", "eta", "gradient_norm", "learning_rate_scale", "loss", "peak_memory_bytes", "samples_per_second", "size_bytes", "size_parameters", "smoothed_loss", "stage", "step", "stepped_on_size", "synchronized_bytes", "target_index", "target_loss", "target_size_parameters", "total_steps", "validation_accuracy", "validation_auc", "validation_loss", "validation_normalized_entropy"]
    DENSE_SYNCHRONIZED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_NORM_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_SCALE_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    PEAK_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SMOOTHED_LOSS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEPPED_ON_SIZE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SYNCHRONIZED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_INDEX_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOSS_FIELD_NUMBER: _ClassVar[int]
    TARGET_SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_AUC_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_NORMALIZED_ENTROPY_FIELD_NUMBER: _ClassVar[int]
    dense_synchronized_bytes: int
    device_memory_bytes: int
    eta: _duration_pb2.Duration
    gradient_norm: float
    learning_rate_scale: float
    loss: float
    peak_memory_bytes: int
    samples_per_second: float
    size_bytes: int
    size_parameters: int
    smoothed_loss: float
    stage: _job_pb2.Stage
    step: int
    stepped_on_size: bool
    synchronized_bytes: int
    target_index: int
    target_loss: float
    target_size_parameters: int
    total_steps: int
    validation_accuracy: float
    validation_auc: float
    validation_loss: float
    validation_normalized_entropy: float
    def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., stage: _Optional[_Union[_job_pb2.Stage, str]] = ..., loss: _Optional[float] = ..., smoothed_loss: _Optional[float] = ..., validation_loss: _Optional[float] = ..., validation_accuracy: _Optional[float] = ..., size_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ..., samples_per_second: _Optional[float] = ..., synchronized_bytes: _Optional[int] = ..., dense_synchronized_bytes: _Optional[int] = ..., peak_memory_bytes: _Optional[int] = ..., learning_rate_scale: _Optional[float] = ..., gradient_norm: _Optional[float] = ..., stepped_on_size: bool = ..., target_loss: _Optional[float] = ..., target_size_parameters: _Optional[int] = ..., eta: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., target_index: _Optional[int] = ..., validation_auc: _Optional[float] = ..., validation_normalized_entropy: _Optional[float] = ..., device_memory_bytes: _Optional[int] = ...) -> None: ...

class TargetResult(_message.Message):
    __slots__ = ["outcome", "size_bytes", "size_parameters", "steps", "target_loss", "target_size_parameters", "validation_loss"]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOSS_FIELD_NUMBER: _ClassVar[int]
    TARGET_SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    outcome: _job_pb2.Outcome
    size_bytes: int
    size_parameters: int
    steps: int
    target_loss: float
    target_size_parameters: int
    validation_loss: float
    def __init__(self, target_loss: _Optional[float] = ..., target_size_parameters: _Optional[int] = ..., outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., steps: _Optional[int] = ..., validation_loss: _Optional[float] = ..., size_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class TrainerEvent(_message.Message):
    __slots__ = ["checkpoint", "failure", "heartbeat", "incident", "metrics", "pareto_point", "rank_snapshot", "result", "run_info", "time"]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    INCIDENT_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    PARETO_POINT_FIELD_NUMBER: _ClassVar[int]
    RANK_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RUN_INFO_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    checkpoint: CheckpointSaved
    failure: _job_pb2.Failure
    heartbeat: Heartbeat
    incident: _job_pb2.Failure
    metrics: StepMetrics
    pareto_point: ParetoPoint
    rank_snapshot: RankSnapshot
    result: TrainingResult
    run_info: RunInfo
    time: _timestamp_pb2.Timestamp
    def __init__(self, time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., run_info: _Optional[_Union[RunInfo, _Mapping]] = ..., metrics: _Optional[_Union[StepMetrics, _Mapping]] = ..., rank_snapshot: _Optional[_Union[RankSnapshot, _Mapping]] = ..., pareto_point: _Optional[_Union[ParetoPoint, _Mapping]] = ..., checkpoint: _Optional[_Union[CheckpointSaved, _Mapping]] = ..., result: _Optional[_Union[TrainingResult, _Mapping]] = ..., failure: _Optional[_Union[_job_pb2.Failure, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., incident: _Optional[_Union[_job_pb2.Failure, _Mapping]] = ...) -> None: ...

class TrainingResult(_message.Message):
    __slots__ = ["outcome", "pareto_front", "reason", "size_bytes", "size_parameters", "step", "targets", "validation_accuracy", "validation_auc", "validation_loss", "validation_normalized_entropy"]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PARETO_FRONT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_AUC_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_NORMALIZED_ENTROPY_FIELD_NUMBER: _ClassVar[int]
    outcome: _job_pb2.Outcome
    pareto_front: _containers.RepeatedCompositeFieldContainer[ParetoPoint]
    reason: str
    size_bytes: int
    size_parameters: int
    step: int
    targets: _containers.RepeatedCompositeFieldContainer[TargetResult]
    validation_accuracy: float
    validation_auc: float
    validation_loss: float
    validation_normalized_entropy: float
    def __init__(self, outcome: _Optional[_Union[_job_pb2.Outcome, str]] = ..., step: _Optional[int] = ..., validation_loss: _Optional[float] = ..., validation_accuracy: _Optional[float] = ..., size_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ..., pareto_front: _Optional[_Iterable[_Union[ParetoPoint, _Mapping]]] = ..., reason: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[TargetResult, _Mapping]]] = ..., validation_auc: _Optional[float] = ..., validation_normalized_entropy: _Optional[float] = ...) -> None: ...
