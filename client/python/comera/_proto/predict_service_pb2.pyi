from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Evaluation(_message.Message):
    __slots__ = ["accuracy", "auc", "failed", "labels", "loss", "normalized_entropy", "samples"]
    ACCURACY_FIELD_NUMBER: _ClassVar[int]
    AUC_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_ENTROPY_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    accuracy: float
    auc: float
    failed: int
    labels: int
    loss: float
    normalized_entropy: float
    samples: int
    def __init__(self, loss: _Optional[float] = ..., accuracy: _Optional[float] = ..., auc: _Optional[float] = ..., normalized_entropy: _Optional[float] = ..., samples: _Optional[int] = ..., labels: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class FilledMask(_message.Message):
    __slots__ = ["choices", "logits", "position"]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    choices: _containers.RepeatedCompositeFieldContainer[TokenChoice]
    logits: _containers.RepeatedScalarFieldContainer[float]
    position: int
    def __init__(self, choices: _Optional[_Iterable[_Union[TokenChoice, _Mapping]]] = ..., logits: _Optional[_Iterable[float]] = ..., position: _Optional[int] = ...) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ["logits", "name", "pseudo_loss", "rows", "top_k"]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PSEUDO_LOSS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    logits: bool
    name: str
    pseudo_loss: bool
    rows: _containers.RepeatedCompositeFieldContainer[PredictRow]
    top_k: int
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[PredictRow, _Mapping]]] = ..., top_k: _Optional[int] = ..., logits: bool = ..., pseudo_loss: bool = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ["error", "predictions"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONS_FIELD_NUMBER: _ClassVar[int]
    error: str
    predictions: _containers.RepeatedCompositeFieldContainer[Prediction]
    def __init__(self, predictions: _Optional[_Iterable[_Union[Prediction, _Mapping]]] = ..., error: _Optional[str] = ...) -> None: ...

class PredictRow(_message.Message):
    __slots__ = ["categories", "label", "numbers", "text", "text_pair"]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TEXT_PAIR_FIELD_NUMBER: _ClassVar[int]
    categories: _containers.RepeatedScalarFieldContainer[str]
    label: str
    numbers: _containers.RepeatedScalarFieldContainer[float]
    text: str
    text_pair: str
    def __init__(self, text: _Optional[str] = ..., text_pair: _Optional[str] = ..., numbers: _Optional[_Iterable[float]] = ..., categories: _Optional[_Iterable[str]] = ..., label: _Optional[str] = ...) -> None: ...

class Prediction(_message.Message):
    __slots__ = ["class_index", "error", "label", "logits", "loss", "masks", "probabilities", "truncated"]
    CLASS_INDEX_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    LOGITS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    class_index: int
    error: str
    label: str
    logits: _containers.RepeatedScalarFieldContainer[float]
    loss: float
    masks: _containers.RepeatedCompositeFieldContainer[FilledMask]
    probabilities: _containers.RepeatedScalarFieldContainer[float]
    truncated: bool
    def __init__(self, error: _Optional[str] = ..., class_index: _Optional[int] = ..., label: _Optional[str] = ..., probabilities: _Optional[_Iterable[float]] = ..., logits: _Optional[_Iterable[float]] = ..., masks: _Optional[_Iterable[_Union[FilledMask, _Mapping]]] = ..., truncated: bool = ..., loss: _Optional[float] = ...) -> None: ...

class ServedModel(_message.Message):
    __slots__ = ["categories", "classes", "criteo", "family", "fields", "fields_joined", "label_field", "labels", "mask_token", "max_length", "max_rows", "name", "numbers"]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    CRITEO_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JOINED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_FIELD_NUMBER: _ClassVar[int]
    MASK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    categories: int
    classes: int
    criteo: bool
    family: str
    fields: _containers.RepeatedScalarFieldContainer[str]
    fields_joined: bool
    label_field: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    mask_token: str
    max_length: int
    max_rows: int
    name: str
    numbers: int
    def __init__(self, name: _Optional[str] = ..., family: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., classes: _Optional[int] = ..., max_length: _Optional[int] = ..., fields: _Optional[_Iterable[str]] = ..., fields_joined: bool = ..., label_field: _Optional[str] = ..., mask_token: _Optional[str] = ..., numbers: _Optional[int] = ..., categories: _Optional[int] = ..., criteo: bool = ..., max_rows: _Optional[int] = ...) -> None: ...

class TokenChoice(_message.Message):
    __slots__ = ["id", "probability", "token"]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    probability: float
    token: str
    def __init__(self, token: _Optional[str] = ..., id: _Optional[int] = ..., probability: _Optional[float] = ...) -> None: ...
