"""Uploads and downloads of datasets, by their contents."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Union,
)

import grpc

from comera._files import PartFile, is_there
from comera._proto import dataset_service_pb2 as service_pb2
from comera._stubs import stub
from comera._text import html_table, size_text, to_datetime
from comera.errors import (
    ComeraError,
    ConfigError,
    DataLossError,
    FailedPreconditionError,
    IntegrityError,
    UnavailableError,
)

if TYPE_CHECKING:
    from comera.client import Client

PathLike = Union[str, "os.PathLike[str]"]
# Bytes done and bytes in all.
ProgressCallback = Callable[[int, int], Any]

_CHUNK = 1 << 20
_MAX_QUERY = 1000
# How often blobs may vanish between upload and creation.
_MAX_ROUNDS = 3


@dataclass
class _LocalFile:
    source: Path
    path: str
    size: int
    sha256: str = ""


def _check_path(path: str) -> str:
    parts = path.split("/")
    bad = (
        len(path.encode()) > 512
        or any(ord(c) < 0x20 or ord(c) == 0x7F for c in path)
        or any(p in ("", ".", "..") for p in parts)
    )
    if bad:
        raise ConfigError(f"{path[:80]!r} cannot be a file's name in a dataset")
    return path


def find_files(sources: Sequence[PathLike]) -> List[_LocalFile]:
    """Files by their name, folders with all below them by the path below the
    folder; hidden files and links below folders are left out."""
    found: Dict[str, _LocalFile] = {}

    def add(source: Path, path: str) -> None:
        if _check_path(path) in found:
            raise ConfigError(f"{source} and {found[path].source}: both are {path}")
        found[path] = _LocalFile(source, path, source.stat().st_size)

    for item in sources:
        source = Path(item)
        if not source.exists():
            raise FileNotFoundError(f"{source}: no such file or folder")
        if not source.is_dir():
            add(source, source.name)
            continue
        for folder, folders, names in os.walk(source):
            folders[:] = sorted(n for n in folders if not n.startswith("."))
            for name in names:
                path = Path(folder) / name
                mode = path.lstat().st_mode
                if not name.startswith(".") and stat.S_ISREG(mode):
                    add(path, path.relative_to(source).as_posix())
    if not found:
        raise ConfigError("there is no file to upload")
    return [found[path] for path in sorted(found)]


class Uploader:
    """Sends what the server does not have yet."""

    def __init__(self, client: "Client", on_progress: Optional[ProgressCallback]) -> None:
        self._client = client
        self._on_progress = on_progress or (lambda done, total: None)
        self._done = 0
        self._total = 0

    def run(
        self, dataset_id: str, sources: Sequence[PathLike], labels: Mapping[str, str]
    ) -> service_pb2.Dataset:
        files = find_files(sources)
        for file in files:
            file.sha256 = self._checksum(file)
        request = service_pb2.CreateDatasetRequest(
            dataset_id=dataset_id,
            labels=dict(labels),
            files=[
                service_pb2.DatasetFile(path=f.path, size_bytes=f.size, sha256=f.sha256)
                for f in files
            ],
        )
        for round_number in range(_MAX_ROUNDS):
            self._send_missing(files)
            try:
                return self._client._call("datasets", "CreateDataset", request)
            except FailedPreconditionError:
                # Blobs of another dataset may have been deleted with it.
                if round_number + 1 == _MAX_ROUNDS:
                    raise
        raise AssertionError("not reached")

    @staticmethod
    def _checksum(file: _LocalFile) -> str:
        digest = hashlib.sha256()
        size = 0
        with open(file.source, "rb") as source:
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                digest.update(chunk)
                size += len(chunk)
        if size != file.size:
            raise IntegrityError(f"{file.source} changed while it was being read")
        return digest.hexdigest()

    def _states(self, digests: Sequence[str]) -> List[service_pb2.BlobState]:
        states: List[service_pb2.BlobState] = []
        for start in range(0, len(digests), _MAX_QUERY):
            asked = digests[start : start + _MAX_QUERY]
            answer = self._client._call(
                "datasets", "QueryBlobs", service_pb2.QueryBlobsRequest(sha256=asked)
            )
            if len(answer.blobs) != len(asked):
                raise ComeraError("the server does not answer what was asked")
            states += answer.blobs
        return states

    def _send_missing(self, files: List[_LocalFile]) -> None:
        states = self._states([f.sha256 for f in files])
        self._total = sum(f.size for f in files)
        self._done = 0
        known = {s.sha256 for s in states if s.complete}
        for file in files:
            if file.sha256 not in known:
                self._send(file)
                known.add(file.sha256)
            self._done += file.size
            self._on_progress(self._done, self._total)

    def _send(self, file: _LocalFile) -> None:
        # The server's part may be another client's, and wrong: it then forgets
        # it, and a second try sends all.
        for again in (True, False):
            upload = _BlobUpload(self, file)
            try:
                self._client._connection.repeat(upload.attempt, upload.progressed)
                return
            except DataLossError:
                if upload.offset == 0 or not again:
                    raise IntegrityError(
                        f"{file.source} changed while it was being read"
                    ) from None

    def _sent(self, size: int) -> None:
        self._on_progress(self._done + size, self._total)


class _BlobUpload:
    """One blob, from where the server's copy ends."""

    def __init__(self, uploader: Uploader, file: _LocalFile) -> None:
        self._uploader = uploader
        self._file = file
        self._progressed = False
        self.offset = 0

    def progressed(self) -> bool:
        progressed, self._progressed = self._progressed, False
        return progressed

    def attempt(self, channel: grpc.Channel, timeout: float) -> None:
        state = self._uploader._states([self._file.sha256])[0]
        if state.complete:
            return
        # Another client may be sending it meanwhile.
        self._progressed = state.offset > self.offset
        self.offset = state.offset
        try:
            stub("datasets", channel).UploadBlob(self._parts(), timeout=timeout)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                # The server knows better how much there is: ask again.
                raise UnavailableError(error.details() or "") from None
            raise

    def _parts(self) -> Iterator[service_pb2.UploadBlobRequest]:
        file, offset = self._file, self.offset
        yield service_pb2.UploadBlobRequest(
            header=service_pb2.UploadBlobHeader(
                sha256=file.sha256, size_bytes=file.size, offset=offset
            )
        )
        with open(file.source, "rb") as source:
            source.seek(offset)
            while offset < file.size:
                chunk = source.read(_CHUNK)
                if not chunk:
                    return
                yield service_pb2.UploadBlobRequest(data=chunk)
                offset += len(chunk)
                self._uploader._sent(min(offset, file.size))


class Dataset:
    """A dataset, `datasets/{dataset}`, whose versions never change.

    In a job's specification its files are `datasets/{dataset}/{file}`.
    """

    def __init__(self, client: "Client", proto: service_pb2.Dataset) -> None:
        self._client = client
        self.proto = proto

    @property
    def name(self) -> str:
        return str(self.proto.name)

    @property
    def labels(self) -> Dict[str, str]:
        return dict(self.proto.labels)

    @property
    def versions(self) -> List[service_pb2.DatasetVersion]:
        """The versions, oldest first."""
        return list(self.proto.versions)

    @property
    def latest(self) -> service_pb2.DatasetVersion:
        return self.proto.versions[-1]

    def files(self, version: Optional[int] = None) -> List[service_pb2.DatasetFile]:
        """The files by path, of the newest version unless one is named."""
        name = self.name if version is None else f"{self.name}@{version}"
        files: List[service_pb2.DatasetFile] = []
        token = ""
        while True:
            page = self._client._call(
                "datasets",
                "ListDatasetFiles",
                service_pb2.ListDatasetFilesRequest(
                    name=name, page_size=500, page_token=token
                ),
            )
            files += page.files
            if not page.next_page_token or page.next_page_token == token:
                return files
            # A version that becomes the newest meanwhile is another list.
            name, token = page.version, page.next_page_token

    def describe(self, path: str = "") -> service_pb2.DatasetDescription:
        """Rows, labels and lengths of its files."""
        request = service_pb2.DescribeDatasetRequest(name=self.name, path=path)
        return self._client._call("datasets", "DescribeDataset", request)

    def download(self, directory: PathLike, version: Optional[int] = None) -> Path:
        """Fetches the files below the folder and returns it; see Model.download."""
        folder = Path(directory)
        for file in self.files(version):
            path = folder / _check_path(file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not is_there(path, file.size_bytes, file.sha256):
                self._download_file(file, path)
        return folder

    def _download_file(self, file: service_pb2.DatasetFile, path: Path) -> None:
        with PartFile(path, file.size_bytes, file.sha256) as part:

            def open_stream(channel: Any, timeout: float) -> Any:
                request = service_pb2.DownloadBlobRequest(
                    sha256=file.sha256, offset=part.size
                )
                return stub("datasets", channel).DownloadBlob(request, timeout=timeout)

            if part.size < file.size_bytes:
                for piece in self._client._connection.stream(open_stream, lambda: True):
                    part.append(piece.offset, piece.data)
            part.finish()

    def delete(self, version: Optional[int] = None) -> int:
        """Removes it or one version; returns the bytes that this freed."""
        name = self.name if version is None else f"{self.name}@{version}"
        answer = self._client._call(
            "datasets", "DeleteDataset", service_pb2.DeleteDatasetRequest(name=name)
        )
        return int(answer.freed_bytes)

    def __repr__(self) -> str:
        return f"<Dataset {self.name} of {len(self.proto.versions)} versions>"

    def _repr_html_(self) -> str:
        rows = [
            (v.name, v.file_count, size_text(v.size_bytes), to_datetime(v.create_time))
            for v in self.proto.versions
        ]
        return html_table(rows, ("version", "files", "size", "created"), self.name)
