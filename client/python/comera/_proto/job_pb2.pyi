from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CANCELLED: JobState
CANCELLING: JobState
CHECKPOINT_DAMAGED: FailureClass
COLLECTIVE_HANG: FailureClass
COMPLETED: Outcome
DATA: FailureClass
DESCRIPTOR: _descriptor.FileDescriptor
DISK_FULL: FailureClass
EARLY: Stage
FAILED: JobState
FAILURE_CLASS_UNSPECIFIED: FailureClass
INTERNAL: FailureClass
JOB_STATE_UNSPECIFIED: JobState
LATE: Stage
NAN_LOSS: FailureClass
NODE_LOST: FailureClass
OUTCOME_UNSPECIFIED: Outcome
OUT_OF_MEMORY: FailureClass
PAUSED: JobState
PREEMPTED: FailureClass
PREPARING: Stage
QUEUED: JobState
RANK_LOST: FailureClass
RUNNING: JobState
STAGE_UNSPECIFIED: Stage
STARTING: JobState
SUCCEEDED: JobState
TARGET_MET: Outcome
TARGET_MISSED: Outcome
USER: FailureClass

class Artifact(_message.Message):
    __slots__ = ["create_time", "files", "name", "size_parameters", "validation_loss"]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    create_time: _timestamp_pb2.Timestamp
    files: _containers.RepeatedCompositeFieldContainer[ArtifactFile]
    name: str
    size_parameters: int
    validation_loss: float
    def __init__(self, name: _Optional[str] = ..., files: _Optional[_Iterable[_Union[ArtifactFile, _Mapping]]] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., validation_loss: _Optional[float] = ..., size_parameters: _Optional[int] = ...) -> None: ...

class ArtifactFile(_message.Message):
    __slots__ = ["path", "sha256", "size_bytes"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    sha256: str
    size_bytes: int
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ["create_time", "durable", "file", "name", "size_bytes", "stage", "step", "workers"]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    create_time: _timestamp_pb2.Timestamp
    durable: bool
    file: ArtifactFile
    name: str
    size_bytes: int
    stage: Stage
    step: int
    workers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., size_bytes: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., workers: _Optional[_Iterable[str]] = ..., durable: bool = ..., stage: _Optional[_Union[Stage, str]] = ..., file: _Optional[_Union[ArtifactFile, _Mapping]] = ...) -> None: ...

class CheckpointSpec(_message.Message):
    __slots__ = ["durable", "every_steps", "keep", "replicas", "snapshot_every_steps"]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    durable: bool
    every_steps: int
    keep: int
    replicas: int
    snapshot_every_steps: int
    def __init__(self, every_steps: _Optional[int] = ..., keep: _Optional[int] = ..., replicas: _Optional[int] = ..., durable: bool = ..., snapshot_every_steps: _Optional[int] = ...) -> None: ...

class ClassBudget(_message.Message):
    __slots__ = ["failure_class", "retries"]
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    failure_class: FailureClass
    retries: int
    def __init__(self, failure_class: _Optional[_Union[FailureClass, str]] = ..., retries: _Optional[int] = ...) -> None: ...

class CodeDirectory(_message.Message):
    __slots__ = ["globs", "max_bytes", "max_file_bytes", "roots", "validation_fraction"]
    GLOBS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROOTS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FRACTION_FIELD_NUMBER: _ClassVar[int]
    globs: _containers.RepeatedScalarFieldContainer[str]
    max_bytes: int
    max_file_bytes: int
    roots: _containers.RepeatedScalarFieldContainer[str]
    validation_fraction: float
    def __init__(self, roots: _Optional[_Iterable[str]] = ..., globs: _Optional[_Iterable[str]] = ..., validation_fraction: _Optional[float] = ..., max_bytes: _Optional[int] = ..., max_file_bytes: _Optional[int] = ...) -> None: ...

class ColaSpec(_message.Message):
    __slots__ = ["rank"]
    RANK_FIELD_NUMBER: _ClassVar[int]
    rank: int
    def __init__(self, rank: _Optional[int] = ...) -> None: ...

class CompressionSpec(_message.Message):
    __slots__ = ["attention", "cola", "compact_every_steps", "embedding", "ffn_down", "ffn_up", "galore", "head", "lora", "lte", "method", "mlp", "output", "rank_threshold", "table"]
    class Method(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    COLA: CompressionSpec.Method
    COLA_FIELD_NUMBER: _ClassVar[int]
    COMERA: CompressionSpec.Method
    COMPACT_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    DENSE: CompressionSpec.Method
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    FFN_DOWN_FIELD_NUMBER: _ClassVar[int]
    FFN_UP_FIELD_NUMBER: _ClassVar[int]
    GALORE: CompressionSpec.Method
    GALORE_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    LORA: CompressionSpec.Method
    LORA_FIELD_NUMBER: _ClassVar[int]
    LTE: CompressionSpec.Method
    LTE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    METHOD_UNSPECIFIED: CompressionSpec.Method
    MLP_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RANK_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    attention: LayerCompression
    cola: ColaSpec
    compact_every_steps: int
    embedding: LayerCompression
    ffn_down: LayerCompression
    ffn_up: LayerCompression
    galore: GaloreSpec
    head: LayerCompression
    lora: LoraSpec
    lte: LteSpec
    method: CompressionSpec.Method
    mlp: LayerCompression
    output: LayerCompression
    rank_threshold: float
    table: LayerCompression
    def __init__(self, method: _Optional[_Union[CompressionSpec.Method, str]] = ..., embedding: _Optional[_Union[LayerCompression, _Mapping]] = ..., attention: _Optional[_Union[LayerCompression, _Mapping]] = ..., ffn_up: _Optional[_Union[LayerCompression, _Mapping]] = ..., ffn_down: _Optional[_Union[LayerCompression, _Mapping]] = ..., head: _Optional[_Union[LayerCompression, _Mapping]] = ..., output: _Optional[_Union[LayerCompression, _Mapping]] = ..., rank_threshold: _Optional[float] = ..., compact_every_steps: _Optional[int] = ..., table: _Optional[_Union[LayerCompression, _Mapping]] = ..., mlp: _Optional[_Union[LayerCompression, _Mapping]] = ..., galore: _Optional[_Union[GaloreSpec, _Mapping]] = ..., lora: _Optional[_Union[LoraSpec, _Mapping]] = ..., lte: _Optional[_Union[LteSpec, _Mapping]] = ..., cola: _Optional[_Union[ColaSpec, _Mapping]] = ...) -> None: ...

class CriteoTsv(_message.Message):
    __slots__ = ["files", "max_table_rows", "parts"]
    FILES_FIELD_NUMBER: _ClassVar[int]
    MAX_TABLE_ROWS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedScalarFieldContainer[str]
    max_table_rows: int
    parts: int
    def __init__(self, files: _Optional[_Iterable[str]] = ..., parts: _Optional[int] = ..., max_table_rows: _Optional[int] = ...) -> None: ...

class DataSpec(_message.Message):
    __slots__ = ["code_directory", "criteo_tsv", "glue_tsv", "jsonl", "mask_probability", "max_length", "synthetic_clicks", "tokenizer"]
    CODE_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    CRITEO_TSV_FIELD_NUMBER: _ClassVar[int]
    GLUE_TSV_FIELD_NUMBER: _ClassVar[int]
    JSONL_FIELD_NUMBER: _ClassVar[int]
    MASK_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SYNTHETIC_CLICKS_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    code_directory: CodeDirectory
    criteo_tsv: CriteoTsv
    glue_tsv: GlueTsv
    jsonl: Jsonl
    mask_probability: float
    max_length: int
    synthetic_clicks: SyntheticClicks
    tokenizer: TokenizerSpec
    def __init__(self, glue_tsv: _Optional[_Union[GlueTsv, _Mapping]] = ..., code_directory: _Optional[_Union[CodeDirectory, _Mapping]] = ..., jsonl: _Optional[_Union[Jsonl, _Mapping]] = ..., criteo_tsv: _Optional[_Union[CriteoTsv, _Mapping]] = ..., synthetic_clicks: _Optional[_Union[SyntheticClicks, _Mapping]] = ..., tokenizer: _Optional[_Union[TokenizerSpec, _Mapping]] = ..., max_length: _Optional[int] = ..., mask_probability: _Optional[float] = ...) -> None: ...

class DatasetPin(_message.Message):
    __slots__ = ["digest", "reference", "version"]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    digest: str
    reference: str
    version: str
    def __init__(self, reference: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class DlrmSpec(_message.Message):
    __slots__ = ["bottom_mlp", "compressed_tables", "min_compressed_width", "top_mlp"]
    BOTTOM_MLP_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_TABLES_FIELD_NUMBER: _ClassVar[int]
    MIN_COMPRESSED_WIDTH_FIELD_NUMBER: _ClassVar[int]
    TOP_MLP_FIELD_NUMBER: _ClassVar[int]
    bottom_mlp: _containers.RepeatedScalarFieldContainer[int]
    compressed_tables: int
    min_compressed_width: int
    top_mlp: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, bottom_mlp: _Optional[_Iterable[int]] = ..., top_mlp: _Optional[_Iterable[int]] = ..., compressed_tables: _Optional[int] = ..., min_compressed_width: _Optional[int] = ...) -> None: ...

class EarlyStage(_message.Message):
    __slots__ = ["beta", "gamma", "only", "steps"]
    BETA_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    beta: float
    gamma: float
    only: bool
    steps: int
    def __init__(self, steps: _Optional[int] = ..., gamma: _Optional[float] = ..., beta: _Optional[float] = ..., only: bool = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ["attempt", "failure_class", "log_tail", "message", "rank", "time"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    LOG_TAIL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    failure_class: FailureClass
    log_tail: str
    message: str
    rank: int
    time: _timestamp_pb2.Timestamp
    def __init__(self, failure_class: _Optional[_Union[FailureClass, str]] = ..., message: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., rank: _Optional[int] = ..., log_tail: _Optional[str] = ...) -> None: ...

class Forecast(_message.Message):
    __slots__ = ["blocked_by", "expected_start", "position", "processes_now"]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_START_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_NOW_FIELD_NUMBER: _ClassVar[int]
    blocked_by: str
    expected_start: _timestamp_pb2.Timestamp
    position: int
    processes_now: int
    def __init__(self, processes_now: _Optional[int] = ..., position: _Optional[int] = ..., expected_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., blocked_by: _Optional[str] = ...) -> None: ...

class GaloreSpec(_message.Message):
    __slots__ = ["rank", "refresh_every_steps", "scale"]
    RANK_FIELD_NUMBER: _ClassVar[int]
    REFRESH_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    refresh_every_steps: int
    scale: float
    def __init__(self, rank: _Optional[int] = ..., refresh_every_steps: _Optional[int] = ..., scale: _Optional[float] = ...) -> None: ...

class GlueTsv(_message.Message):
    __slots__ = ["label_column", "labels", "sentence1_column", "sentence2_column", "train", "validation"]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SENTENCE1_COLUMN_FIELD_NUMBER: _ClassVar[int]
    SENTENCE2_COLUMN_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    label_column: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    sentence1_column: int
    sentence2_column: int
    train: str
    validation: str
    def __init__(self, train: _Optional[str] = ..., validation: _Optional[str] = ..., sentence1_column: _Optional[int] = ..., sentence2_column: _Optional[int] = ..., label_column: _Optional[int] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class InitialWeights(_message.Message):
    __slots__ = ["safetensors"]
    SAFETENSORS_FIELD_NUMBER: _ClassVar[int]
    safetensors: str
    def __init__(self, safetensors: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ["attempt", "checkpoints", "create_time", "datasets", "end_time", "etag", "failure", "forecast", "incidents", "models", "name", "outcome", "pausing", "progress", "reason", "request_id", "spec", "start_time", "state", "sweep", "user"]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    INCIDENTS_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PAUSING_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SWEEP_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    checkpoints: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    create_time: _timestamp_pb2.Timestamp
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetPin]
    end_time: _timestamp_pb2.Timestamp
    etag: str
    failure: Failure
    forecast: Forecast
    incidents: _containers.RepeatedCompositeFieldContainer[Failure]
    models: _containers.RepeatedCompositeFieldContainer[Artifact]
    name: str
    outcome: Outcome
    pausing: bool
    progress: JobProgress
    reason: str
    request_id: str
    spec: JobSpec
    start_time: _timestamp_pb2.Timestamp
    state: JobState
    sweep: str
    user: str
    def __init__(self, name: _Optional[str] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., state: _Optional[_Union[JobState, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., reason: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., incidents: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., progress: _Optional[_Union[JobProgress, _Mapping]] = ..., etag: _Optional[str] = ..., request_id: _Optional[str] = ..., models: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., user: _Optional[str] = ..., sweep: _Optional[str] = ..., checkpoints: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., forecast: _Optional[_Union[Forecast, _Mapping]] = ..., pausing: bool = ..., datasets: _Optional[_Iterable[_Union[DatasetPin, _Mapping]]] = ...) -> None: ...

class JobProgress(_message.Message):
    __slots__ = ["eta", "has_validation_loss", "loss", "samples_per_second", "size_bytes", "size_parameters", "stage", "step", "target_loss", "target_size_parameters", "total_steps", "validation_loss"]
    ETA_FIELD_NUMBER: _ClassVar[int]
    HAS_VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOSS_FIELD_NUMBER: _ClassVar[int]
    TARGET_SIZE_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_LOSS_FIELD_NUMBER: _ClassVar[int]
    eta: _duration_pb2.Duration
    has_validation_loss: bool
    loss: float
    samples_per_second: float
    size_bytes: int
    size_parameters: int
    stage: Stage
    step: int
    target_loss: float
    target_size_parameters: int
    total_steps: int
    validation_loss: float
    def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., stage: _Optional[_Union[Stage, str]] = ..., loss: _Optional[float] = ..., validation_loss: _Optional[float] = ..., has_validation_loss: bool = ..., size_parameters: _Optional[int] = ..., size_bytes: _Optional[int] = ..., samples_per_second: _Optional[float] = ..., eta: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., target_loss: _Optional[float] = ..., target_size_parameters: _Optional[int] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ["checkpoint", "compression", "data", "display_name", "initial_weights", "labels", "model", "objective", "optimizer", "preemptible", "priority", "queue", "resources", "retries", "start_from", "time_limit", "training"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    INITIAL_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    START_FROM_FIELD_NUMBER: _ClassVar[int]
    TIME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    checkpoint: CheckpointSpec
    compression: CompressionSpec
    data: DataSpec
    display_name: str
    initial_weights: InitialWeights
    labels: _containers.ScalarMap[str, str]
    model: ModelSpec
    objective: ObjectiveSpec
    optimizer: OptimizerSpec
    preemptible: bool
    priority: int
    queue: str
    resources: ResourceSpec
    retries: RetryBudget
    start_from: StartFrom
    time_limit: _duration_pb2.Duration
    training: TrainingSpec
    def __init__(self, display_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., model: _Optional[_Union[ModelSpec, _Mapping]] = ..., data: _Optional[_Union[DataSpec, _Mapping]] = ..., compression: _Optional[_Union[CompressionSpec, _Mapping]] = ..., objective: _Optional[_Union[ObjectiveSpec, _Mapping]] = ..., optimizer: _Optional[_Union[OptimizerSpec, _Mapping]] = ..., training: _Optional[_Union[TrainingSpec, _Mapping]] = ..., resources: _Optional[_Union[ResourceSpec, _Mapping]] = ..., queue: _Optional[str] = ..., priority: _Optional[int] = ..., retries: _Optional[_Union[RetryBudget, _Mapping]] = ..., time_limit: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., checkpoint: _Optional[_Union[CheckpointSpec, _Mapping]] = ..., initial_weights: _Optional[_Union[InitialWeights, _Mapping]] = ..., start_from: _Optional[_Union[StartFrom, _Mapping]] = ..., preemptible: bool = ...) -> None: ...

class Jsonl(_message.Message):
    __slots__ = ["fields", "train", "validation"]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    TRAIN_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedScalarFieldContainer[str]
    train: str
    validation: str
    def __init__(self, train: _Optional[str] = ..., validation: _Optional[str] = ..., fields: _Optional[_Iterable[str]] = ...) -> None: ...

class LateStage(_message.Message):
    __slots__ = ["max_steps", "rho", "target_bytes", "target_loss", "target_parameters", "target_ratio", "targets", "w_loss", "w_size"]
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    RHO_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    TARGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOSS_FIELD_NUMBER: _ClassVar[int]
    TARGET_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TARGET_RATIO_FIELD_NUMBER: _ClassVar[int]
    W_LOSS_FIELD_NUMBER: _ClassVar[int]
    W_SIZE_FIELD_NUMBER: _ClassVar[int]
    max_steps: int
    rho: float
    target_bytes: int
    target_loss: float
    target_parameters: int
    target_ratio: float
    targets: _containers.RepeatedCompositeFieldContainer[Target]
    w_loss: float
    w_size: float
    def __init__(self, target_loss: _Optional[float] = ..., target_bytes: _Optional[int] = ..., target_parameters: _Optional[int] = ..., target_ratio: _Optional[float] = ..., w_loss: _Optional[float] = ..., w_size: _Optional[float] = ..., rho: _Optional[float] = ..., max_steps: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[Target, _Mapping]]] = ...) -> None: ...

class LayerCompression(_message.Message):
    __slots__ = ["dense", "input_modes", "output_modes", "ranks"]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    INPUT_MODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODES_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    dense: bool
    input_modes: _containers.RepeatedScalarFieldContainer[int]
    output_modes: _containers.RepeatedScalarFieldContainer[int]
    ranks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, input_modes: _Optional[_Iterable[int]] = ..., output_modes: _Optional[_Iterable[int]] = ..., ranks: _Optional[_Iterable[int]] = ..., dense: bool = ...) -> None: ...

class LoraSpec(_message.Message):
    __slots__ = ["alpha", "rank"]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    rank: int
    def __init__(self, rank: _Optional[int] = ..., alpha: _Optional[float] = ...) -> None: ...

class LteSpec(_message.Message):
    __slots__ = ["heads", "merge_every_steps", "rank", "scale"]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    MERGE_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    heads: int
    merge_every_steps: int
    rank: int
    scale: float
    def __init__(self, rank: _Optional[int] = ..., heads: _Optional[int] = ..., scale: _Optional[float] = ..., merge_every_steps: _Optional[int] = ...) -> None: ...

class ModelSpec(_message.Message):
    __slots__ = ["classes", "dlrm", "dropout", "dropout_off", "family", "ffn", "heads", "hidden", "layers", "max_positions", "segments", "tie_output"]
    class Family(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    DLRM: ModelSpec.Family
    DLRM_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_OFF_FIELD_NUMBER: _ClassVar[int]
    ENCODER_CLASSIFIER: ModelSpec.Family
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    FAMILY_UNSPECIFIED: ModelSpec.Family
    FFN_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    MASKED_LM: ModelSpec.Family
    MAX_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TIE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    classes: int
    dlrm: DlrmSpec
    dropout: float
    dropout_off: bool
    family: ModelSpec.Family
    ffn: int
    heads: int
    hidden: int
    layers: int
    max_positions: int
    segments: int
    tie_output: bool
    def __init__(self, family: _Optional[_Union[ModelSpec.Family, str]] = ..., layers: _Optional[int] = ..., hidden: _Optional[int] = ..., ffn: _Optional[int] = ..., heads: _Optional[int] = ..., max_positions: _Optional[int] = ..., segments: _Optional[int] = ..., classes: _Optional[int] = ..., dropout: _Optional[float] = ..., dropout_off: bool = ..., dlrm: _Optional[_Union[DlrmSpec, _Mapping]] = ..., tie_output: bool = ...) -> None: ...

class ObjectiveSpec(_message.Message):
    __slots__ = ["early", "kind", "late"]
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    EARLY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_UNSPECIFIED: ObjectiveSpec.Kind
    LATE_FIELD_NUMBER: _ClassVar[int]
    PARETO: ObjectiveSpec.Kind
    REFERENCE: ObjectiveSpec.Kind
    early: EarlyStage
    kind: ObjectiveSpec.Kind
    late: LateStage
    def __init__(self, kind: _Optional[_Union[ObjectiveSpec.Kind, str]] = ..., early: _Optional[_Union[EarlyStage, _Mapping]] = ..., late: _Optional[_Union[LateStage, _Mapping]] = ...) -> None: ...

class OptimizerSpec(_message.Message):
    __slots__ = ["beta1", "beta2", "clip_norm", "decay", "epsilon", "learning_rate_cores", "learning_rate_other", "learning_rate_ranks", "warmup_steps", "weight_decay"]
    class Decay(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    CLIP_NORM_FIELD_NUMBER: _ClassVar[int]
    COSINE: OptimizerSpec.Decay
    DECAY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_CORES_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_OTHER_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_RANKS_FIELD_NUMBER: _ClassVar[int]
    LINEAR: OptimizerSpec.Decay
    NONE: OptimizerSpec.Decay
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    beta1: float
    beta2: float
    clip_norm: float
    decay: OptimizerSpec.Decay
    epsilon: float
    learning_rate_cores: float
    learning_rate_other: float
    learning_rate_ranks: float
    warmup_steps: int
    weight_decay: float
    def __init__(self, learning_rate_cores: _Optional[float] = ..., learning_rate_ranks: _Optional[float] = ..., learning_rate_other: _Optional[float] = ..., weight_decay: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ..., epsilon: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., decay: _Optional[_Union[OptimizerSpec.Decay, str]] = ..., clip_norm: _Optional[float] = ...) -> None: ...

class Phase(_message.Message):
    __slots__ = ["batch_size", "max_length", "steps"]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    max_length: int
    steps: int
    def __init__(self, steps: _Optional[int] = ..., max_length: _Optional[int] = ..., batch_size: _Optional[int] = ...) -> None: ...

class ResourceSpec(_message.Message):
    __slots__ = ["device", "memory_bytes", "min_processes", "processes", "threads_per_process"]
    class Device(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    ANY: ResourceSpec.Device
    CPU: ResourceSpec.Device
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    GPU: ResourceSpec.Device
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_PROCESS_FIELD_NUMBER: _ClassVar[int]
    device: ResourceSpec.Device
    memory_bytes: int
    min_processes: int
    processes: int
    threads_per_process: int
    def __init__(self, device: _Optional[_Union[ResourceSpec.Device, str]] = ..., processes: _Optional[int] = ..., threads_per_process: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., min_processes: _Optional[int] = ...) -> None: ...

class RetryBudget(_message.Message):
    __slots__ = ["classes", "infrastructure", "training"]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    INFRASTRUCTURE_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    classes: _containers.RepeatedCompositeFieldContainer[ClassBudget]
    infrastructure: int
    training: int
    def __init__(self, infrastructure: _Optional[int] = ..., training: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassBudget, _Mapping]]] = ...) -> None: ...

class StartFrom(_message.Message):
    __slots__ = ["checkpoint"]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: str
    def __init__(self, checkpoint: _Optional[str] = ...) -> None: ...

class SyntheticClicks(_message.Message):
    __slots__ = ["dense_features", "seed", "table_rows", "train_rows", "validation_rows"]
    DENSE_FEATURES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TABLE_ROWS_FIELD_NUMBER: _ClassVar[int]
    TRAIN_ROWS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_ROWS_FIELD_NUMBER: _ClassVar[int]
    dense_features: int
    seed: int
    table_rows: _containers.RepeatedScalarFieldContainer[int]
    train_rows: int
    validation_rows: int
    def __init__(self, train_rows: _Optional[int] = ..., validation_rows: _Optional[int] = ..., seed: _Optional[int] = ..., table_rows: _Optional[_Iterable[int]] = ..., dense_features: _Optional[int] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ["target_bytes", "target_loss", "target_parameters", "target_ratio"]
    TARGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_LOSS_FIELD_NUMBER: _ClassVar[int]
    TARGET_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    TARGET_RATIO_FIELD_NUMBER: _ClassVar[int]
    target_bytes: int
    target_loss: float
    target_parameters: int
    target_ratio: float
    def __init__(self, target_loss: _Optional[float] = ..., target_bytes: _Optional[int] = ..., target_parameters: _Optional[int] = ..., target_ratio: _Optional[float] = ...) -> None: ...

class TokenizerSpec(_message.Message):
    __slots__ = ["kind", "lowercase", "merges_file", "train_vocabulary_size", "vocabulary_file"]
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BYTE_BPE: TokenizerSpec.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    KIND_UNSPECIFIED: TokenizerSpec.Kind
    LOWERCASE_FIELD_NUMBER: _ClassVar[int]
    MERGES_FILE_FIELD_NUMBER: _ClassVar[int]
    TRAIN_VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FILE_FIELD_NUMBER: _ClassVar[int]
    WORDPIECE: TokenizerSpec.Kind
    kind: TokenizerSpec.Kind
    lowercase: bool
    merges_file: str
    train_vocabulary_size: int
    vocabulary_file: str
    def __init__(self, kind: _Optional[_Union[TokenizerSpec.Kind, str]] = ..., vocabulary_file: _Optional[str] = ..., merges_file: _Optional[str] = ..., train_vocabulary_size: _Optional[int] = ..., lowercase: bool = ...) -> None: ...

class TrainingSpec(_message.Message):
    __slots__ = ["batch_size", "phases", "precision", "report_every_steps", "seed", "validate_every_steps", "validation_samples"]
    class Precision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    BF16: TrainingSpec.Precision
    FP32: TrainingSpec.Precision
    PHASES_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    REPORT_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TF32: TrainingSpec.Precision
    VALIDATE_EVERY_STEPS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    phases: _containers.RepeatedCompositeFieldContainer[Phase]
    precision: TrainingSpec.Precision
    report_every_steps: int
    seed: int
    validate_every_steps: int
    validation_samples: int
    def __init__(self, batch_size: _Optional[int] = ..., seed: _Optional[int] = ..., precision: _Optional[_Union[TrainingSpec.Precision, str]] = ..., report_every_steps: _Optional[int] = ..., validate_every_steps: _Optional[int] = ..., validation_samples: _Optional[int] = ..., phases: _Optional[_Iterable[_Union[Phase, _Mapping]]] = ...) -> None: ...

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class FailureClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
