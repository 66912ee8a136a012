"""Job and sweep specifications from what people write."""

from __future__ import annotations

import copy
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from google.protobuf import text_format

from comera._proto import job_pb2, sweep_service_pb2
from comera._reader import (
    FORMER_NAMES,
    read_message,
    set_field,
    warn_of_former_name,
)
from comera.errors import MissingDependencyError, SpecError

JobSpec = job_pb2.JobSpec
SweepSpec = sweep_service_pb2.SweepSpec

# A message, a mapping, the path of a file, or a file's text.
SpecLike = Union[JobSpec, Mapping[str, Any], str, "os.PathLike[str]"]
SweepSpecLike = Union[SweepSpec, Mapping[str, Any], str, "os.PathLike[str]"]

_MAX_BYTES = 1 << 20


def _load_yaml(text: str, name: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError(
            f"{name}: reading YAML needs PyYAML (Debian: python3-yaml); JSON and "
            "dicts need nothing"
        ) from None

    class Loader(yaml.SafeLoader):
        """Refuses keys that come twice, of which PyYAML takes the last."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if key in seen:
                    line = key_node.start_mark.line + 1
                    raise SpecError("", f"{name}:{line}: {key}: given twice")
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)  # a SafeLoader
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise SpecError("", f"{name}: {error}") from None


def _load_json(text: str, name: str) -> Any:
    def without_doubles(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise SpecError("", f"{name}: {twice}: given twice")
        return result

    try:
        return json.loads(text, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError("", f"{name}: {error}") from None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise SpecError("", f"{path}: larger than {_MAX_BYTES} bytes")
    return text


def _looks_like_text(source: str) -> bool:
    return "\n" in source or source.lstrip().startswith("{") or ": " in source


def _parse(source: Union[str, "os.PathLike[str]"]) -> Tuple[Any, str]:
    """Plain data (or a textproto's text) and the folder of its file, or ""."""
    if isinstance(source, str) and _looks_like_text(source):
        if source.lstrip().startswith("{"):
            return _load_json(source, "specification"), ""
        return _load_yaml(source, "specification"), ""
    path = os.fspath(source)
    folder = os.path.dirname(os.path.abspath(path))
    ending = os.path.splitext(path)[1]
    if ending in (".yaml", ".yml"):
        return _load_yaml(_read(path), path), folder
    if ending == ".json":
        return _load_json(_read(path), path), folder
    if ending in (".textproto", ".txtpb", ".pbtxt"):
        return _read(path), folder
    raise SpecError("", f"{path}: ends in none of .yaml, .yml, .json, .textproto")


def resolve_data_paths(spec: JobSpec, folder: str) -> None:
    """Makes relative paths of data absolute; datasets' names and URLs stay."""

    def absolute(path: str) -> str:
        if not path or path.startswith("datasets/"):
            return path
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://", path):
            return path
        return os.path.normpath(os.path.join(folder, path))

    data = spec.data
    for name in ("glue_tsv", "jsonl", "labelled_text", "token_shards"):
        if data.HasField(name):
            texts = getattr(data, name)
            texts.train = absolute(texts.train)
            texts.validation = absolute(texts.validation)
            texts.test = absolute(texts.test)
    if data.HasField("text"):
        for files in (data.text.train, data.text.validation, data.text.test):
            files[:] = [absolute(path) for path in files]
    if data.HasField("code_directory"):
        roots = [absolute(root) for root in data.code_directory.roots]
        data.code_directory.roots[:] = roots
    if data.HasField("criteo_tsv"):
        files = [absolute(path) for path in data.criteo_tsv.files]
        data.criteo_tsv.files[:] = files
    if data.HasField("tokenizer"):
        tokenizer = data.tokenizer
        tokenizer.vocabulary_file = absolute(tokenizer.vocabulary_file)
        tokenizer.merges_file = absolute(tokenizer.merges_file)
        tokenizer.tokenizer_file = absolute(tokenizer.tokenizer_file)
    if spec.HasField("initial_weights"):
        weights = spec.initial_weights
        weights.safetensors = absolute(weights.safetensors)


def _with_current_names(textproto: str) -> str:
    """Renames what a textproto's `resources` group says under a former name."""
    names = FORMER_NAMES["comera.v1.ResourceSpec"]

    def rename(match: "re.Match[str]") -> str:
        current = names.get(match[0])
        if current is None:
            return match[0]
        warn_of_former_name(f"resources.{match[0]}", current)
        return current

    def group(match: "re.Match[str]") -> str:
        return re.sub(r"\b\w+(?=\s*:)", rename, match[0])

    return re.sub(r"\bresources\s*:?\s*[{<][^}>]*", group, textproto)


def job_spec(
    source: SpecLike, overrides: Optional[Mapping[str, Any]] = None
) -> JobSpec:
    """The message for `source`, with fields changed by their paths.

    Paths of data are taken relative to the file, or to the working directory.
    SpecError names what is wrong.

        job_spec("job.yaml", {"objective.early.steps": 100})
    """
    spec = JobSpec()
    folder = ""
    if isinstance(source, JobSpec):
        spec.CopyFrom(source)
    elif isinstance(source, Mapping):
        read_message(dict(source), spec)
    else:
        data, folder = _parse(source)
        if isinstance(data, str):
            try:
                text_format.Parse(_with_current_names(data), spec)
            except text_format.ParseError as error:
                raise SpecError("", f"{os.fspath(source)}:{error}") from None
        else:
            read_message(data, spec)
    if folder:
        resolve_data_paths(spec, folder)
    for path, value in (overrides or {}).items():
        set_field(path, value, spec)
    if spec.HasField("data") or spec.HasField("initial_weights"):
        resolve_data_paths(spec, os.getcwd())
    return spec


def _axis_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_axis_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _fields_as_list(fields: Any, axis: bool) -> Any:
    """{path: values} as SweepSpec has it: [{path, values}]."""
    if not isinstance(fields, Mapping):
        return fields
    result = []
    for path, value in fields.items():
        if axis:
            values = value if isinstance(value, (list, tuple)) else [value]
            result.append({"path": path, "values": [_axis_value(v) for v in values]})
        else:
            result.append({"path": path, "value": _axis_value(value)})
    return result


def _is_search(data: Mapping[str, Any]) -> bool:
    """Whether the service is to choose the runs, so that no section is needed."""
    compression = data.get("compression")
    method = compression.get("method") if isinstance(compression, Mapping) else ""
    return str(method).lower() == "auto"


def sweep_spec(source: SweepSpecLike) -> SweepSpec:
    """The message for a sweep file: a job's fields and a `sweep` section, which
    may be left out where compression.method is auto."""
    spec = SweepSpec()
    if isinstance(source, SweepSpec):
        spec.CopyFrom(source)
        return spec
    folder = ""
    if isinstance(source, Mapping):
        data: Any = dict(source)
    else:
        data, folder = _parse(source)
    section = data.get("sweep", {}) if isinstance(data, dict) else None
    if not isinstance(section, Mapping) or not (section or _is_search(data)):
        raise SpecError(
            "sweep", "missing; a sweep is a job with a `sweep` section beside it"
        )
    data = copy.deepcopy(data)
    section = dict(data.pop("sweep", {}))
    if "job" in section:
        raise SpecError("sweep.job", "the job stands beside `sweep`")
    grid = section.get("grid")
    if isinstance(grid, dict) and "fields" in grid:
        grid["fields"] = _fields_as_list(grid["fields"], axis=True)
    points = section.get("list")
    for point in points if isinstance(points, list) else ():
        if isinstance(point, dict) and "fields" in point:
            point["fields"] = _fields_as_list(point["fields"], axis=False)
    read_message(section, spec)
    read_message(data, spec.job)
    if spec.job.HasField("data") or spec.job.HasField("initial_weights"):
        resolve_data_paths(spec.job, folder or os.getcwd())
    return spec
