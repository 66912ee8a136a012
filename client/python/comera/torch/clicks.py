"""How rows of click logs become a model's inputs."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, List, Sequence

from comera import safetensors
from comera.errors import IntegrityError

FILE = "categories.safetensors"

_MASK = (1 << 64) - 1
_MAX_DIGITS = 15
_HEX = frozenset("0123456789abcdefABCDEF")


def _mix(bits: int) -> int:
    """One step of SplitMix64."""
    bits = bits + 0x9E3779B97F4A7C15 & _MASK
    bits ^= bits >> 30
    bits = bits * 0xBF58476D1CE4E5B9 & _MASK
    bits ^= bits >> 27
    bits = bits * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31


def _integers(tensors: safetensors.Tensors, name: str, path: Path) -> List[int]:
    tensor = tensors.get(name)
    if tensor is None or tensor.dtype != "I64" or len(tensor.shape) != 1:
        raise IntegrityError(f"{path}: {name}: missing, or no list of integers")
    return list(struct.unpack(f"<{tensor.shape[0]}Q", tensor.data))


class CategoryTables:
    """Criteo: which row of its table each value of a categorical column has. The
    first rows are those of values of their own; all others share the rest."""

    def __init__(self, values: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        self._rows = list(rows)
        self._own = [{value: row for row, value in enumerate(v)} for v in values]
        for own, given, count in zip(self._own, values, rows):
            if len(own) != len(given) or not len(own) <= count or count < 1:
                raise IntegrityError("a value occurs twice, or has no row")

    @classmethod
    def load(cls, folder: Path) -> "CategoryTables":
        path = folder / FILE
        tensors = safetensors.read(path)
        rows = _integers(tensors, "rows", path)
        values = [_integers(tensors, f"values.{t}", path) for t in range(len(rows))]
        try:
            return cls(values, rows)
        except IntegrityError as error:
            raise IntegrityError(f"{path}: {error}") from None

    @property
    def rows(self) -> List[int]:
        return list(self._rows)

    def row(self, table: int, text: str) -> int:
        """Key of a hexadecimal value; "" has one of its own. ValueError."""
        if len(text) > _MAX_DIGITS or not _HEX.issuperset(text):
            raise ValueError(f"{text[:80]!r} is not at most 15 hexadecimal digits")
        # The number of digits belongs to it, so that "0a" is not "a".
        value = (int(text, 16) if text else 0) | len(text) << 60
        own = self._own[table]
        if value in own:
            return own[value]
        rest = self._rows[table] - len(own)
        if rest > 0:
            return len(own) + _mix(value) % rest
        return own.get(0, self._rows[table] - 1)


def criteo_number(count: Any) -> float:
    """log(x + 1); 0 for nothing ("" or None) and what is negative."""
    value = float(count) if count not in ("", None) else 0.0
    return math.log1p(value) if value > 0 else 0.0
