"""Files that arrive in pieces: resumed, checked, and there whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from pathlib import Path
from typing import IO, Any, Optional

from comera.errors import ComeraError, IntegrityError

_CHUNK = 1 << 20
_PLAIN_NAME = re.compile(r"[!-.0-~ ][ -.0-~]{0,254}\Z")


def check_plain_name(name: str) -> str:
    """A file's name from the server, which may not lead elsewhere."""
    if not _PLAIN_NAME.match(name) or name.startswith("."):
        raise IntegrityError(f"{name[:80]!r} is no plain file name")
    return name


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


class PartFile:
    """Collects a file's bytes beside it, under a name of its contents: what an
    earlier attempt left there is continued. A context manager; leaving it
    without finish() keeps the part, unless its bytes were wrong."""

    def __init__(self, path: Path, size: int, sha256: str) -> None:
        self._path = path
        self._expected_size = size
        self._expected = sha256
        # The server may call anything a checksum.
        mark = hashlib.sha256(sha256.encode()).hexdigest()[:16]
        self._part = path.with_name(f"{path.name}.{mark}.part")
        self._digest = hashlib.sha256()
        self._useless = False
        self._file: Optional[IO[bytes]] = None
        # Bytes that are there: where to continue.
        self.size = 0

    def __enter__(self) -> "PartFile":
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = open(os.open(self._part, flags, 0o644), "r+b", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ComeraError(
                f"{self._path}: another download of it is going on"
            ) from None
        for chunk in iter(lambda: self._open.read(_CHUNK), b""):
            self._digest.update(chunk)
            self.size += len(chunk)
        if self.size > self._expected_size:
            self.restart()
        return self

    @property
    def _open(self) -> IO[bytes]:
        assert self._file is not None, "used outside `with`"
        return self._file

    def restart(self) -> None:
        """Begins anew."""
        self._open.seek(0)
        self._open.truncate()
        self._digest = hashlib.sha256()
        self.size = 0

    def append(self, offset: int, data: bytes) -> None:
        """Bytes from `offset` on; those that are there already are skipped."""
        if offset < 0 or offset > self.size:
            self._useless = True
            raise IntegrityError(
                f"{self._path.name}: bytes from {offset} came after {self.size}"
            )
        data = data[self.size - offset :]
        if self.size + len(data) > self._expected_size:
            self._useless = True
            raise IntegrityError(
                f"{self._path.name}: more than the announced "
                f"{self._expected_size} bytes"
            )
        view = memoryview(data)
        while view:
            view = view[self._open.write(view) or 0 :]
        self._digest.update(data)
        self.size += len(data)

    def finish(self) -> None:
        """Checks size and checksum, and puts the file into its place."""
        actual = self._digest.hexdigest()
        if self.size != self._expected_size or actual != self._expected:
            self._useless = True
            raise IntegrityError(
                f"{self._path.name}: {self.size} bytes with checksum {actual} in "
                f"place of {self._expected_size} with {self._expected}"
            )
        os.fsync(self._open.fileno())
        os.replace(self._part, self._path)

    def __exit__(self, *unused: Any) -> None:
        if self._useless or self.size == 0:
            try:
                os.unlink(self._part)
            except FileNotFoundError:
                pass
        self._open.close()


def is_there(path: Path, size: int, sha256: str) -> bool:
    """Whether the file lies there with these contents."""
    try:
        return path.stat().st_size == size and sha256_of(path) == sha256
    except OSError:
        return False
