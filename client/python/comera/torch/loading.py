"""Exported folders to modules and back."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from pathlib import Path
from typing import Dict, List, Union

import torch
from torch import Tensor, nn

from comera import safetensors, tokenizers
from comera._files import check_plain_name
from comera.errors import IntegrityError, MissingDependencyError
from comera.models import Model
from comera.torch import clicks
from comera.torch.config import config_to_json, read_config
from comera.torch.dlrm import Dlrm
from comera.torch.families import AnyModel, build, dense_form, expected_layers
from comera.torch.layers import ColaLinear, TTLinear

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_WEIGHTS = "model.safetensors"
_CONFIG = "config.json"


def _cache_folder(model: Model) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    # The server's name for it must not lead elsewhere.
    return root.joinpath("comera", *map(check_plain_name, model.name.split("/")))


def _to_torch(tensor: safetensors.Tensor, name: str) -> Tensor:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise IntegrityError(f"{name}: {tensor.dtype} is no type of weights")
    if len(tensor.data) == 0:
        return torch.zeros(tensor.shape, dtype=dtype)
    return torch.frombuffer(tensor.data, dtype=dtype).reshape(tensor.shape)


def load(
    source: Union[str, "os.PathLike[str]", Model],
    device: Union[str, torch.device] = "cpu",
    dtype: torch.dtype = torch.float32,
) -> AnyModel:
    """An exported model as a module, in eval mode.

    `source`: its folder, or a Model of the client, which is downloaded to
    ${XDG_CACHE_HOME:-~/.cache}/comera. The module's parameters are the cores and
    whatever else was exported: train them like any others. FileNotFoundError;
    IntegrityError: the files are malformed or do not belong together.
    """
    if isinstance(source, Model):
        folder = source.download(_cache_folder(source))
    else:
        folder = Path(source)
    module = build(read_config(folder))
    path = folder / _WEIGHTS
    tensors = safetensors.read(path)
    names = {name for name, _ in module.named_parameters()}
    if names != set(tensors):
        odd = sorted(names.symmetric_difference(tensors))
        raise IntegrityError(f"{path}: {odd[0]}: missing, or not of this model")
    for owner_name, owner in module.named_modules():
        for key, parameter in list(owner.named_parameters(recurse=False)):
            name = f"{owner_name}.{key}" if owner_name else key
            if tuple(parameter.shape) != tensors[name].shape:
                raise IntegrityError(
                    f"{path}: {name} is {tensors[name].shape}, by config.json "
                    f"{tuple(parameter.shape)}"
                )
            values = _to_torch(tensors[name], name).to(device=device, dtype=dtype)
            if not bool(torch.isfinite(values).all()):
                raise IntegrityError(f"{path}: {name}: values that are not finite")
            frozen = not parameter.requires_grad
            owner.register_parameter(
                key, nn.Parameter(values.clone(), requires_grad=not frozen)
            )
    module.folder = folder
    module.labels = _labels(folder / "inputs.json")
    if isinstance(module, Dlrm):
        if (folder / clicks.FILE).exists():
            module.categories = clicks.CategoryTables.load(folder)
            if module.categories.rows != list(module.config.table_rows):
                raise IntegrityError(f"{folder}/{clicks.FILE}: not this model's tables")
    elif any((folder / name).exists() for name in tokenizers.FILES):
        try:
            module.tokenizer = tokenizers.load(folder)
        except MissingDependencyError:
            return module.eval()  # the model takes ids
        words = module.tokenizer.vocabulary_size
        if words != module.config.vocabulary:
            raise IntegrityError(
                f"{folder}: the vocabulary has {words} tokens, the model "
                f"{module.config.vocabulary}"
            )
    return module.eval()


def _labels(path: Path) -> List[str]:
    """Names of the classes, from what is kept about the training files' rows."""
    if not path.exists():
        return []
    try:
        with open(path, encoding="utf-8") as file:
            labels = json.loads(file.read(1 << 20)).get("labels", [])
    except (ValueError, RecursionError, AttributeError) as error:
        raise IntegrityError(f"{path}: {error}") from None
    if not isinstance(labels, list) or any(type(x) is not str for x in labels):
        raise IntegrityError(f"{path}: labels: expected a list of texts")
    return labels


def save(module: AnyModel, directory: Union[str, "os.PathLike[str]"]) -> Path:
    """Writes the module as the trainer exports models: load reads it, and so do
    the service's programs. The other files of the folder it was loaded from, such
    as the vocabulary, are copied."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    tensors: Dict[str, safetensors.Tensor] = {}
    for name, parameter in sorted(module.named_parameters()):
        values = parameter.detach().to("cpu", torch.float32).contiguous()
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name}: holds values that are not finite")
        # NumPy is avoided: PyTorch does not need it.
        data = ctypes.string_at(values.data_ptr(), 4 * values.numel())
        tensors[name] = safetensors.Tensor("F32", tuple(values.shape), data)
    weights = folder / _WEIGHTS
    safetensors.write(weights, tensors, {"format": "comera-model"})
    document = config_to_json(
        module.config, module.num_parameters(), weights.stat().st_size
    )
    (folder / _CONFIG).write_text(json.dumps(document, indent=2) + "\n")
    source = module.folder
    if source is not None and source.resolve() != folder.resolve():
        for path in source.iterdir():
            if path.is_file() and path.name not in (_WEIGHTS, _CONFIG):
                shutil.copyfile(path, folder / path.name)
    return folder


def _body(module: AnyModel) -> str:
    """The name of what lies between the ids and the head."""
    return "decoder" if module.config.family == "causal_lm" else "encoder"


def _layer_module(module: AnyModel, key: str) -> nn.Module:
    """The layer of a key of config.factorisation."""
    if module.config.family == "dlrm":
        path = f"dlrm.{key}"
    elif key == "embedding":
        path = f"{_body(module)}.embedding.word"
    elif key == "head":
        classifier = module.config.family == "encoder_classifier"
        path = "head.fc1" if classifier else "head.transform"
    elif key == "output":
        path = "head.output"
    else:
        _, index, part = key.split(".")
        block = part.replace("_", ".") if part.startswith("ffn") else f"attention.{part}"
        path = f"{_body(module)}.layers.{index}.{block}"
    return module.get_submodule(path)


@torch.no_grad()
def to_dense(module: AnyModel) -> AnyModel:
    """A new module of the same family that computes the same with dense weights;
    layers with a function between their factors stay as they are."""
    config = module.config
    forms = {key: dense_form(config.factorisation[key]) for key in expected_layers(config)}
    dense = build(config.with_layers(forms))
    example = next(module.parameters())
    dense = dense.to_empty(device=example.device).to(example.dtype)
    replaced = set()
    for key in forms:
        source, target = _layer_module(module, key), _layer_module(dense, key)
        if isinstance(target, (ColaLinear, TTLinear)):
            continue
        target.weight.copy_(source.dense_weight())
        replaced.add(target)
        if getattr(target, "bias", None) is not None:
            target.bias.copy_(source.bias)
    kept = dict(module.named_parameters())
    for owner_name, owner in dense.named_modules():
        if owner in replaced:
            continue
        for key, parameter in owner.named_parameters(recurse=False):
            parameter.copy_(kept[f"{owner_name}.{key}"])
    dense.tokenizer, dense.labels = module.tokenizer, module.labels
    dense.folder = module.folder
    if isinstance(dense, Dlrm) and isinstance(module, Dlrm):
        dense.categories = module.categories
    return dense.train(module.training)
