"""Plain data (dicts, lists, scalars) to messages, as job files are read."""

from __future__ import annotations

import difflib
import math
import re
import warnings
from typing import Any, Dict, Iterable, List, Optional

from comera.errors import SpecError

# Former names of fields by message, which are read with a DeprecationWarning.
FORMER_NAMES = {
    "comera.v1.ResourceSpec": {
        "ranks": "processes",
        "min_ranks": "min_processes",
        "minRanks": "min_processes",
        "threads_per_rank": "threads_per_process",
        "threadsPerRank": "threads_per_process",
    },
}

_MAX_DEPTH = 32
_MAX_NODES = 10_000
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "B": 1,
}


def did_you_mean(word: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(names), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _by_former_name(type_: Any, key: str, where: str) -> Optional[Any]:
    """The field of the message type that was once called `key`, if any."""
    current = FORMER_NAMES.get(type_.full_name, {}).get(key)
    if current is None:
        return None
    warn_of_former_name(where, current)
    return type_.fields_by_name[current]


def warn_of_former_name(path: str, current: str) -> None:
    parent, dot, _ = path.rpartition(".")
    warnings.warn(
        f"{path} is now called {parent}{dot}{current}; the old name is still read",
        DeprecationWarning,
        stacklevel=2,
    )


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a group of fields"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "a single value"


def parse_duration(value: Any) -> float:
    """Seconds, from 90, "90s" or "1h30m". ValueError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    text = str(value)
    parts = _DURATION.findall(text)
    if not parts or "".join(n + u for n, u in parts) != text:
        raise ValueError(f"`{text}` is not a duration such as 90s or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def parse_bytes(value: Any) -> int:
    """Bytes, from 1000, "64MiB" or "2GB". ValueError."""
    text = str(value)
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    for unit, factor in _BYTES.items():
        if text.endswith(unit):
            try:
                number = float(text[: -len(unit)].rstrip()) * factor
            except ValueError:
                break
            if math.isfinite(number) and abs(number) < 9e18:
                return round(number)
            break
    raise ValueError(f"`{text}` is not a size such as 1000, 64MiB or 2GB")


def _parse_int(value: Any, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not re.fullmatch(r"[+-]?[0-9]+", str(value)):
        raise ValueError(f"`{value}` is not a whole number in range")
    number = int(value)
    if not low <= number <= high:
        raise ValueError(f"{number} is out of range")
    return number


def _parse_double(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(f"`{value}` is not a finite number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"`{value}` is not a finite number")
    return number


def _parse_enum(value: Any, field: Any) -> int:
    choices = {
        v.name: v.number
        for v in field.enum_type.values
        if not v.name.endswith("_UNSPECIFIED")
    }
    number = choices.get(str(value).upper())
    if number is not None:
        return number
    names = [name.lower() for name in choices]
    raise ValueError(
        f"`{value}` is none of {', '.join(names)}"
        + did_you_mean(str(value).lower(), names)
    )


def _parse_scalar(value: Any, field: Any) -> Any:
    cpp = field.cpp_type
    if cpp == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            raise ValueError("cannot be given here")
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)
    if cpp == field.CPPTYPE_BOOL:
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise ValueError(f"`{value}` is not true or false")
    if cpp in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return _parse_double(value)
    if cpp == field.CPPTYPE_INT32:
        return _parse_int(value, -(2**31), 2**31 - 1)
    if cpp == field.CPPTYPE_UINT64:
        return _parse_int(value, 0, 2**64 - 1)
    if cpp == field.CPPTYPE_INT64:
        if field.name.endswith("_bytes"):
            value = parse_bytes(value)
        return _parse_int(value, -(2**63), 2**63 - 1)
    if cpp == field.CPPTYPE_ENUM:
        return _parse_enum(value, field)
    raise ValueError("cannot be given here")


class _Reader:
    def __init__(self) -> None:
        self._nodes = 0

    def fields(self, data: Any, path: str, message: Any, depth: int = 0) -> None:
        if not isinstance(data, dict):
            raise SpecError(path, f"needs fields, has {_kind(data)}")
        if depth > _MAX_DEPTH:
            raise SpecError(path, "nested too deeply")
        by_name = message.DESCRIPTOR.fields_by_name
        given: Dict[str, str] = {}
        for key, value in data.items():
            self._nodes += 1
            if self._nodes > _MAX_NODES:
                raise SpecError(path, "too many values")
            key = str(key)
            where = f"{path}.{key}" if path else key
            field = by_name.get(key)
            if field is None:
                field = message.DESCRIPTOR.fields_by_camelcase_name.get(key)
            if field is None:
                field = _by_former_name(message.DESCRIPTOR, key, where)
            if field is None:
                raise SpecError(where, "unknown field" + did_you_mean(key, by_name))
            other_name = given.setdefault(field.name, key)
            if other_name != key:
                raise SpecError(where, f"is `{other_name}`, which is given too")
            oneof = field.containing_oneof
            if oneof is not None:
                other = message.WhichOneof(oneof.name)
                if other is not None and other != field.name:
                    raise SpecError(where, f"excludes `{other}`, which is given too")
            if value is None:
                raise SpecError(where, "has no value")
            self._value(value, where, field, message, depth)

    def _value(self, value: Any, path: str, field: Any, message: Any, depth: int) -> None:
        sub = field.message_type
        if sub is not None and sub.GetOptions().map_entry:
            self._map(value, path, field, message)
        elif field.label == field.LABEL_REPEATED:
            self._list(value, path, field, message, depth)
        elif sub is not None and sub.full_name == "google.protobuf.Duration":
            try:
                seconds = parse_duration(value)
            except ValueError as error:
                raise SpecError(path, str(error)) from None
            getattr(message, field.name).FromNanoseconds(round(seconds * 1e9))
        elif sub is not None:
            child = getattr(message, field.name)
            child.SetInParent()
            self.fields(value, path, child, depth + 1)
        else:
            setattr(message, field.name, self._scalar(value, path, field))

    def _scalar(self, value: Any, path: str, field: Any) -> Any:
        if value is None or isinstance(value, (dict, list, tuple)):
            raise SpecError(path, f"needs one value, has {_kind(value)}")
        try:
            return _parse_scalar(value, field)
        except ValueError as error:
            raise SpecError(path, str(error)) from None

    def _map(self, value: Any, path: str, field: Any, message: Any) -> None:
        if not isinstance(value, dict):
            raise SpecError(path, f"needs keys and values, has {_kind(value)}")
        of_value = field.message_type.fields_by_name["value"]
        for key, item in value.items():
            parsed = self._scalar(item, f"{path}[{key}]", of_value)
            getattr(message, field.name)[str(key)] = parsed

    def _list(self, value: Any, path: str, field: Any, message: Any, depth: int) -> None:
        to = getattr(message, field.name)
        if field.message_type is not None:
            # One group is a list of one.
            items: List[Any] = [value] if isinstance(value, dict) else value
            if not isinstance(items, (list, tuple)):
                raise SpecError(path, f"needs a list, has {_kind(value)}")
            for i, item in enumerate(items):
                self.fields(item, f"{path}[{i}]", to.add(), depth + 1)
            return
        if isinstance(value, dict):
            raise SpecError(path, f"needs a list, has {_kind(value)}")
        if not isinstance(value, (list, tuple)):
            # `ranks: 30` and `ranks: auto`.
            if value == "auto" and field.cpp_type == field.CPPTYPE_INT64:
                return
            to.append(self._scalar(value, path, field))
            return
        for i, item in enumerate(value):
            to.append(self._scalar(item, f"{path}[{i}]", field))


def read_message(data: Any, message: Any) -> None:
    """Fills `message`. SpecError names the field."""
    _Reader().fields(data, "", message)


def set_field(path: str, value: Any, message: Any) -> None:
    """One field by its path, e.g. `objective.early.steps`. SpecError."""
    reader = _Reader()
    keys = path.split(".")
    for i, key in enumerate(keys):
        by_name = message.DESCRIPTOR.fields_by_name
        field = by_name.get(key)
        if field is None:
            field = _by_former_name(message.DESCRIPTOR, key, path)
            key = key if field is None else field.name
        if field is None:
            raise SpecError(path, "unknown field" + did_you_mean(key, by_name))
        sub = field.message_type
        if i + 1 == len(keys):
            message.ClearField(key)
            reader.fields({key: value}, ".".join(keys[:i]), message)
            return
        if sub is not None and sub.GetOptions().map_entry:
            # The rest of the path after the map's name is the key, dots included.
            rest = {".".join(keys[i + 1 :]): value}
            reader.fields({key: rest}, ".".join(keys[:i]), message)
            return
        if sub is None or field.label == field.LABEL_REPEATED:
            raise SpecError(path, f"`{key}` has no fields")
        child = getattr(message, key)
        child.SetInParent()
        message = child
