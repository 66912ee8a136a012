"""The safetensors format without a dependency: a little-endian uint64 header
length, a JSON header, then raw bytes.

    tensors = comera.safetensors.read("model.safetensors")
    tensors["head.fc2.bias"].shape
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from comera.errors import IntegrityError

_MAX_HEADER = 100 << 20
_SIZES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "U8": 1,
    "BOOL": 1,
}


@dataclass(frozen=True)
class Tensor:
    """`dtype` as the format names it, e.g. "F32"; `data` little-endian, row-major."""

    dtype: str
    shape: Tuple[int, ...]
    data: Any  # bytes, bytearray or memoryview


class Tensors(Dict[str, Tensor]):
    """Tensors by name, and the file's metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: Dict[str, str] = {}


def _count(shape: Any) -> int:
    if not isinstance(shape, list) or len(shape) > 64:
        raise ValueError("malformed shape")
    count = 1
    for extent in shape:
        if type(extent) is not int or not 0 <= extent < 1 << 48:
            raise ValueError("malformed shape")
        count *= extent
        if count >= 1 << 56:
            raise ValueError("too large")
    return count


def _entry(entry: Any, data: memoryview) -> Tuple[int, int, Tensor]:
    if not isinstance(entry, dict):
        raise ValueError("malformed")
    size = _SIZES.get(str(entry.get("dtype")))
    offsets = entry.get("data_offsets")
    if size is None:
        raise ValueError(f"unknown type {str(entry.get('dtype'))[:20]!r}")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or any(type(o) is not int for o in offsets)
    ):
        raise ValueError("malformed offsets")
    begin, end = offsets
    shape = entry.get("shape")
    if not 0 <= begin <= end <= len(data) or end - begin != _count(shape) * size:
        raise ValueError("its bytes are not where the header says")
    tensor = Tensor(str(entry["dtype"]), tuple(shape or ()), data[begin:end])
    return begin, end, tensor


def parse(contents: Union[bytes, bytearray], name: str = "safetensors") -> Tensors:
    """IntegrityError: malformed in any way."""
    view = memoryview(contents)
    if len(view) < 8:
        raise IntegrityError(f"{name}: too short")
    (length,) = struct.unpack("<Q", view[:8])
    if length > min(_MAX_HEADER, len(view) - 8):
        raise IntegrityError(f"{name}: truncated header")
    try:
        header = json.loads(bytes(view[8 : 8 + length]).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{name}: malformed header: {error}") from None
    if not isinstance(header, dict):
        raise IntegrityError(f"{name}: malformed header")
    tensors = Tensors()
    metadata = header.pop("__metadata__", {})
    if isinstance(metadata, dict):
        tensors.metadata = {str(k): str(v) for k, v in metadata.items()}
    data = view[8 + length :]
    spans = []
    for key, entry in header.items():
        try:
            begin, end, tensor = _entry(entry, data)
        except ValueError as error:
            raise IntegrityError(f"{name}: {key[:80]}: {error}") from None
        spans.append((begin, end))
        tensors[key] = tensor
    last = 0
    for begin, end in sorted(spans):
        if begin != last:
            raise IntegrityError(f"{name}: tensors overlap or leave gaps")
        last = end
    if last != len(data):
        raise IntegrityError(f"{name}: bytes behind the last tensor")
    return tensors


def read(path: Union[str, "os.PathLike[str]"]) -> Tensors:
    """The file's tensors, in memory that may be written to. FileNotFoundError;
    IntegrityError: malformed in any way."""
    with open(path, "rb") as file:
        contents = bytearray(file.read())
    return parse(contents, os.fspath(path))


def write(
    path: Union[str, "os.PathLike[str]"],
    tensors: Mapping[str, Tensor],
    metadata: Optional[Mapping[str, str]] = None,
) -> None:
    """Replaces the file as a whole."""
    header: Dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    offset = 0
    for name, tensor in tensors.items():
        size = _count(list(tensor.shape)) * _SIZES[tensor.dtype]
        if size != len(tensor.data):
            raise ValueError(f"{name}: {len(tensor.data)} bytes for {tensor.shape}")
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".tensors")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in tensors.values():
                file.write(tensor.data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
