from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BlobState(_message.Message):
    __slots__ = ["complete", "offset", "sha256"]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    offset: int
    sha256: str
    def __init__(self, sha256: _Optional[str] = ..., complete: bool = ..., offset: _Optional[int] = ...) -> None: ...

class CreateDatasetRequest(_message.Message):
    __slots__ = ["dataset_id", "files", "labels"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DATASET_ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    dataset_id: str
    files: _containers.RepeatedCompositeFieldContainer[DatasetFile]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, dataset_id: _Optional[str] = ..., files: _Optional[_Iterable[_Union[DatasetFile, _Mapping]]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ["create_time", "labels", "name", "user", "versions"]
    class LabelsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    create_time: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    name: str
    user: str
    versions: _containers.RepeatedCompositeFieldContainer[DatasetVersion]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., user: _Optional[str] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., versions: _Optional[_Iterable[_Union[DatasetVersion, _Mapping]]] = ...) -> None: ...

class DatasetDescription(_message.Message):
    __slots__ = ["endings", "files", "version"]
    ENDINGS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    endings: _containers.RepeatedCompositeFieldContainer[EndingDescription]
    files: _containers.RepeatedCompositeFieldContainer[FileDescription]
    version: str
    def __init__(self, version: _Optional[str] = ..., files: _Optional[_Iterable[_Union[FileDescription, _Mapping]]] = ..., endings: _Optional[_Iterable[_Union[EndingDescription, _Mapping]]] = ...) -> None: ...

class DatasetFile(_message.Message):
    __slots__ = ["path", "sha256", "size_bytes"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    sha256: str
    size_bytes: int
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class DatasetManifest(_message.Message):
    __slots__ = ["files"]
    FILES_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[DatasetFile]
    def __init__(self, files: _Optional[_Iterable[_Union[DatasetFile, _Mapping]]] = ...) -> None: ...

class DatasetVersion(_message.Message):
    __slots__ = ["create_time", "digest", "file_count", "name", "number", "size_bytes", "user"]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    create_time: _timestamp_pb2.Timestamp
    digest: str
    file_count: int
    name: str
    number: int
    size_bytes: int
    user: str
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., digest: _Optional[str] = ..., file_count: _Optional[int] = ..., size_bytes: _Optional[int] = ..., create_time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class DeleteDatasetRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteDatasetResponse(_message.Message):
    __slots__ = ["freed_bytes"]
    FREED_BYTES_FIELD_NUMBER: _ClassVar[int]
    freed_bytes: int
    def __init__(self, freed_bytes: _Optional[int] = ...) -> None: ...

class DescribeDatasetRequest(_message.Message):
    __slots__ = ["label_column", "name", "path"]
    LABEL_COLUMN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    label_column: int
    name: str
    path: str
    def __init__(self, name: _Optional[str] = ..., path: _Optional[str] = ..., label_column: _Optional[int] = ...) -> None: ...

class DownloadBlobRequest(_message.Message):
    __slots__ = ["offset", "sha256"]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    offset: int
    sha256: str
    def __init__(self, sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class DownloadBlobResponse(_message.Message):
    __slots__ = ["data", "offset"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class EndingDescription(_message.Message):
    __slots__ = ["ending", "files", "size_bytes"]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ending: str
    files: int
    size_bytes: int
    def __init__(self, ending: _Optional[str] = ..., files: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class FileDescription(_message.Message):
    __slots__ = ["columns", "format", "gzip", "labels", "lengths", "odd_rows", "path", "problem", "rows", "size_bytes", "truncated"]
    class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = []
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    CRITEO: FileDescription.Format
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GZIP_FIELD_NUMBER: _ClassVar[int]
    JSONL: FileDescription.Format
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    ODD_ROWS_FIELD_NUMBER: _ClassVar[int]
    OTHER: FileDescription.Format
    PATH_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SAFETENSORS: FileDescription.Format
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TEXT: FileDescription.Format
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    TSV: FileDescription.Format
    columns: _containers.RepeatedScalarFieldContainer[str]
    format: FileDescription.Format
    gzip: bool
    labels: _containers.RepeatedCompositeFieldContainer[LabelCount]
    lengths: _containers.RepeatedCompositeFieldContainer[LengthBucket]
    odd_rows: int
    path: str
    problem: str
    rows: int
    size_bytes: int
    truncated: bool
    def __init__(self, path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., format: _Optional[_Union[FileDescription.Format, str]] = ..., gzip: bool = ..., rows: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[_Union[LabelCount, _Mapping]]] = ..., lengths: _Optional[_Iterable[_Union[LengthBucket, _Mapping]]] = ..., odd_rows: _Optional[int] = ..., truncated: bool = ..., problem: _Optional[str] = ...) -> None: ...

class GetDatasetRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LabelCount(_message.Message):
    __slots__ = ["label", "rows"]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    label: str
    rows: int
    def __init__(self, label: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class LengthBucket(_message.Message):
    __slots__ = ["at_most", "rows"]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    at_most: int
    rows: int
    def __init__(self, at_most: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class ListDatasetFilesRequest(_message.Message):
    __slots__ = ["name", "page_size", "page_token"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDatasetFilesResponse(_message.Message):
    __slots__ = ["files", "next_page_token", "version"]
    FILES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[DatasetFile]
    next_page_token: str
    version: str
    def __init__(self, files: _Optional[_Iterable[_Union[DatasetFile, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class ListDatasetsRequest(_message.Message):
    __slots__ = ["labels", "page_size", "page_token"]
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
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListDatasetsResponse(_message.Message):
    __slots__ = ["datasets", "next_page_token"]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    datasets: _containers.RepeatedCompositeFieldContainer[Dataset]
    next_page_token: str
    def __init__(self, datasets: _Optional[_Iterable[_Union[Dataset, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class QueryBlobsRequest(_message.Message):
    __slots__ = ["sha256"]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sha256: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryBlobsResponse(_message.Message):
    __slots__ = ["blobs"]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    blobs: _containers.RepeatedCompositeFieldContainer[BlobState]
    def __init__(self, blobs: _Optional[_Iterable[_Union[BlobState, _Mapping]]] = ...) -> None: ...

class UploadBlobHeader(_message.Message):
    __slots__ = ["offset", "sha256", "size_bytes"]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    offset: int
    sha256: str
    size_bytes: int
    def __init__(self, sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class UploadBlobRequest(_message.Message):
    __slots__ = ["data", "header"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    header: UploadBlobHeader
    def __init__(self, header: _Optional[_Union[UploadBlobHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class UploadBlobResponse(_message.Message):
    __slots__ = ["size_bytes"]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    def __init__(self, size_bytes: _Optional[int] = ...) -> None: ...
