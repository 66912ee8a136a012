"""Checkpoints in a folder: there whole or not at all, the newest kept."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import pickle
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch

_log = logging.getLogger("comera.torch")

_NAME = "step-{:010d}"
_MARKER = re.compile(r"step-(\d{10})\.json\Z")


def _write(path: Path, contents: bytes) -> None:
    """Puts a file into its place at once, and onto the disk."""
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        # On a full disk, what was written would be in the way of the next attempt.
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _encode(value: Any, where: str, tensors: List[torch.Tensor]) -> Any:
    """What JSON can hold of a state; its tensors go into a list beside it."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(v, f"{where}[{i}]", tensors) for i, v in enumerate(value)]}
    if isinstance(value, dict):
        # JSON's keys are texts, those of an optimiser's state are numbers.
        return {
            # MultiStepLR calls methods of its Counter.
            "counter" if isinstance(value, Counter) else "dict": [
                [_encode(k, where, tensors), _encode(v, f"{where}.{k}", tensors)]
                for k, v in value.items()
            ]
        }
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{where}: a {type(value).__name__} cannot be kept in a checkpoint")


def _decode(value: Any, tensors: List[torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind in ("dict", "counter"):
        pairs = {_decode(k, tensors): _decode(v, tensors) for k, v in content}
        return Counter(pairs) if kind == "counter" else pairs
    items = [_decode(v, tensors) for v in content]
    return tuple(items) if kind == "tuple" else items


class CheckpointFolder:
    """step-N.pt, a JSON document and tensors as torch.save writes them, and
    step-N.json, which is written afterwards and says with what checksum it is
    complete. The newest `keep` stay."""

    def __init__(self, folder: "os.PathLike[str]", keep: int = 2) -> None:
        """ValueError: nothing is to be kept. OSError."""
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint stays")
        self.folder = Path(folder)
        self._keep = keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def check_writable(self) -> None:
        """OSError: no file can be created here, which is better known before the
        first hundred steps than after them."""
        part = self.folder / ".step-check.part"
        part.write_bytes(b"")
        part.unlink(missing_ok=True)

    def save(self, step: int, state: Dict[str, Any], figures: Dict[str, Any]) -> Path:
        """`state`: tensors, numbers, texts, and lists, tuples and dicts of those.
        `figures` are noted in the marker, for people. OSError: the disk is full.
        TypeError: the state holds something else."""
        tensors: List[torch.Tensor] = []
        document = json.dumps(_encode(state, "state", tensors))
        buffer = io.BytesIO()
        torch.save({"document": document, "tensors": tensors}, buffer)
        contents = buffer.getvalue()
        path = self.folder / (_NAME.format(step) + ".pt")
        _write(path, contents)
        marker = {
            "step": step,
            "bytes": len(contents),
            "sha256": hashlib.sha256(contents).hexdigest(),
            **figures,
        }
        _write(path.with_suffix(".json"), json.dumps(marker).encode() + b"\n")
        self._remove_old(step)
        return path

    def _steps(self) -> List[int]:
        """Of complete checkpoints, the newest first."""
        found = (_MARKER.match(p.name) for p in self.folder.iterdir())
        return sorted((int(m.group(1)) for m in found if m), reverse=True)

    def _remove_old(self, newest: int) -> None:
        """Later ones than `newest` were damaged, or it would have continued from them:
        they do not count."""
        for part in self.folder.glob(".step-*.part"):
            part.unlink(missing_ok=True)
        for step in [step for step in self._steps() if step <= newest][self._keep :]:
            path = self.folder / _NAME.format(step)
            path.with_suffix(".json").unlink(missing_ok=True)
            path.with_suffix(".pt").unlink(missing_ok=True)

    def newest(self) -> Optional[Tuple[int, Dict[str, Any]]]:
        """The step and the state of the newest checkpoint that is sound; None: there
        is none. Damaged ones are named in the log. Nothing in a checkpoint is
        executed."""
        for step in self._steps():
            path = self.folder / (_NAME.format(step) + ".pt")
            try:
                marker = json.loads(path.with_suffix(".json").read_text())
                contents = path.read_bytes()
                if hashlib.sha256(contents).hexdigest() != marker["sha256"]:
                    raise ValueError("its checksum is wrong")
                kept = torch.load(
                    io.BytesIO(contents), map_location="cpu", weights_only=True
                )
                state = _decode(json.loads(kept["document"]), kept["tensors"])
            except (
                OSError, ValueError, LookupError, TypeError, RuntimeError,
                pickle.UnpicklingError,
            ) as error:
                _log.warning("%s is left out: %s", path, error)
                continue
            return step, state
        return None


def random_state() -> Dict[str, Any]:
    """The states of Python's and PyTorch's generators, and of NumPy's where it is in
    use."""
    state: Dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        state["numpy"] = (name, keys.tolist(), *rest)
    return state


def set_random_state(state: Dict[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    numpy = sys.modules.get("numpy")
    if "numpy" in state and numpy is not None:
        name, keys, *rest = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
