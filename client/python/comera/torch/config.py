"""config.json of an exported model: its shape, complete and explicit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from comera.errors import IntegrityError

FORMAT = "comera-model"
# The newest version that is read. A model is written as the first version that has
# what it needs, so that earlier releases read it where they can (_version_of).
VERSION = 3

_MAX_BYTES = 64 << 20
_MAX_EXTENT = 1 << 24
_MAX_DENSE_TOKENS = 1 << 20
_MAX_PARAMETERS = 1 << 38


@dataclass(frozen=True)
class LowRank:
    """How a layer without cores is trained by LoRA, LTE or CoLA."""

    kind: str  # "lora", "lte", "cola"
    rank: int
    heads: int
    scale: float
    # CoLA: nothing is between its factors.
    linear: bool = False


@dataclass(frozen=True)
class Factorisation:
    """How one layer is factorised. No modes: dense."""

    input_modes: Tuple[int, ...] = ()
    output_modes: Tuple[int, ...] = ()
    # Ranks of the inner bonds; where all are 0, only the layer's bias remains.
    ranks: Tuple[int, ...] = ()
    low_rank: Optional[LowRank] = None
    # With modes: a SiLU lies between the input half of the cores and the output
    # half.
    silu: bool = False
    # A word embedding with cores: the ids, ascending, of the tokens whose rows are
    # dense in place of the train's.
    dense_tokens: Tuple[int, ...] = ()

    @property
    def has_cores(self) -> bool:
        return bool(self.input_modes)

    def bonds(self) -> List[int]:
        """r_0 to r_order."""
        return [1, *self.ranks, 1]


@dataclass(frozen=True)
class ModelConfig:
    """Everything about a model but its weights."""

    family: str  # "encoder_classifier", "masked_lm", "causal_lm", "dlrm"
    factorisation: Dict[str, Factorisation]
    # Encoders and decoders.
    vocabulary: int = 0
    layers: int = 0
    hidden: int = 0
    ffn: int = 0
    heads: int = 1
    max_positions: int = 0
    segments: int = 0
    classes: int = 0
    length: int = 1
    tie_output: bool = False
    dropout: float = 0.0
    layer_norm_epsilon: float = 1e-9
    # Decoders.
    architecture: str = ""  # "llama", "gpt2"
    kv_heads: int = 1
    rope_theta: float = 1e4
    # The hidden layer is silu(gate) * up; otherwise gate * up.
    gate_silu: bool = True
    # DLRM.
    dense_features: int = 0
    table_rows: Tuple[int, ...] = ()
    bottom_mlp: Tuple[int, ...] = ()
    top_mlp: Tuple[int, ...] = ()
    rank_threshold: float = 1e-2
    # Noted at the export: validation_loss, step, ...
    figures: Dict[str, float] = field(default_factory=dict)

    def with_layers(self, factorisation: Dict[str, Factorisation]) -> "ModelConfig":
        return replace(self, factorisation=factorisation)


class _Fields:
    """Reads members of a JSON object, with bounds."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise IntegrityError(f"{where}: expected an object")
        self._data = data
        self._where = where

    def fail(self, key: str, what: str) -> IntegrityError:
        return IntegrityError(f"{self._where}: {key}: {what}")

    def integer(self, key: str, low: int = 1, high: int = _MAX_EXTENT) -> int:
        value = self._data.get(key)
        if type(value) is not int or not low <= value <= high:
            raise self.fail(key, f"expected an integer from {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        value = self._data.get(key)
        if type(value) not in (int, float) or not low <= float(value or 0) <= high:
            raise self.fail(key, f"expected a number from {low} to {high}")
        return float(value or 0)

    def integers(self, key: str, most: int, low: int = 1) -> Tuple[int, ...]:
        value = self._data.get(key)
        if (
            not isinstance(value, list)
            or len(value) > most
            or any(type(v) is not int or not low <= v <= _MAX_EXTENT for v in value)
        ):
            raise self.fail(key, "expected a short list of integers in range")
        return tuple(value)

    def boolean(self, key: str, otherwise: bool = False) -> bool:
        value = self._data.get(key, otherwise)
        if not isinstance(value, bool):
            raise self.fail(key, "expected true or false")
        return value

    def get(self, key: str) -> Any:
        return self._data.get(key)

    def has(self, key: str) -> bool:
        return key in self._data


def _dense_tokens(fields: _Fields) -> Tuple[int, ...]:
    if not fields.has("dense_tokens"):
        return ()
    tokens = fields.integers("dense_tokens", _MAX_DENSE_TOKENS, low=0)
    if any(a >= b for a, b in zip(tokens, tokens[1:])):
        raise fields.fail("dense_tokens", "expected ascending ids")
    return tokens


def _factorisation(data: Any, where: str) -> Factorisation:
    fields = _Fields(data, where)
    low_rank = None
    if fields.get("low_rank") is not None:
        low = _Fields(fields.get("low_rank"), f"{where}: low_rank")
        kind = low.get("kind")
        if kind not in ("lora", "lte", "cola"):
            raise low.fail("kind", "unknown")
        low_rank = LowRank(
            kind,
            low.integer("rank"),
            low.integer("heads", 1, 1024),
            low.number("scale", 0.0, 1e9),
            low.boolean("linear"),
        )
        if low_rank.linear and kind != "cola":
            raise low.fail("linear", "is for cola")
    result = Factorisation(
        fields.integers("input_modes", 16),
        fields.integers("output_modes", 16),
        fields.integers("ranks", 31, low=0),
        low_rank,
        fields.boolean("silu"),
        _dense_tokens(fields),
    )
    if bool(result.input_modes) != bool(result.output_modes) or (
        result.has_cores and low_rank is not None
    ):
        raise fields.fail("input_modes", "inconsistent with the other fields")
    if result.silu and not result.has_cores:
        raise fields.fail("silu", "is for layers with cores")
    if result.dense_tokens and not result.has_cores:
        raise fields.fail("dense_tokens", "are for a table with cores")
    if any(r == 0 for r in result.ranks) and any(result.ranks):
        raise fields.fail("ranks", "one is 0, so all must be")
    return result


def _decoder(model: _Fields, common: Dict[str, Any]) -> ModelConfig:
    config = ModelConfig(
        **common,
        architecture=str(model.get("architecture")),
        kv_heads=model.integer("kv_heads"),
        rope_theta=model.number("rope_theta", 0.0, 1e12),
        gate_silu=model.boolean("gate_silu", True),
    )
    if config.architecture not in ("llama", "gpt2"):
        raise model.fail("architecture", "unknown")
    if config.heads % config.kv_heads:
        raise model.fail("kv_heads", "does not divide heads")
    if config.architecture == "gpt2":
        if config.kv_heads != config.heads or not config.tie_output:
            raise model.fail("architecture", "a GPT-2 has a tied output and all its heads")
    elif config.hidden // config.heads % 2 or config.rope_theta <= 0:
        raise model.fail("rope_theta", "turns halves of heads by positive angles")
    return config


def config_from_json(document: Any, where: str = "config.json") -> ModelConfig:
    """IntegrityError: not an exported model's, or inconsistent."""
    top = _Fields(document, where)
    known = type(top.get("version")) is int and 1 <= top.get("version") <= VERSION
    if top.get("format") != FORMAT or not known:
        raise IntegrityError(f"{where}: not a {FORMAT} of version 1 to {VERSION}")
    model = _Fields(top.get("model"), f"{where}: model")
    layers = model.get("factorisation")
    if not isinstance(layers, dict) or len(layers) > 1 << 14:
        raise model.fail("factorisation", "expected an object")
    factorisation = {
        name: _factorisation(data, f"{where}: factorisation of {str(name)[:80]}")
        for name, data in layers.items()
    }
    figures = top.get("training")
    common: Dict[str, Any] = {
        "family": model.get("family"),
        "factorisation": factorisation,
        "rank_threshold": model.number("rank_threshold", 0.0, 1.0),
        "figures": {
            str(k): float(v)
            for k, v in (figures if isinstance(figures, dict) else {}).items()
            if type(v) in (int, float)
        },
    }
    if common["family"] == "dlrm":
        config = ModelConfig(
            **common,
            dense_features=model.integer("dense_features", 1, 1024),
            table_rows=model.integers("table_rows", 1024),
            bottom_mlp=model.integers("bottom_mlp", 64),
            top_mlp=model.integers("top_mlp", 64),
        )
        if not config.bottom_mlp or config.top_mlp[-1:] != (1,):
            raise model.fail("top_mlp", "must end in 1, and bottom_mlp be there")
        if any(f.dense_tokens for f in factorisation.values()):
            raise model.fail("factorisation", "tables of clicks have no dense tokens")
        return config
    common.update(
        vocabulary=model.integer("vocabulary"),
        layers=model.integer("layers", 1, 1024),
        hidden=model.integer("hidden"),
        ffn=model.integer("ffn"),
        heads=model.integer("heads"),
        max_positions=model.integer("max_positions"),
        length=model.integer("length"),
        tie_output=model.boolean("tie_output"),
        dropout=model.number("dropout", 0.0, 0.999999),
        layer_norm_epsilon=model.number("layer_norm_epsilon", 0.0, 1.0),
    )
    if common["hidden"] % common["heads"]:
        raise model.fail("hidden", "is not a multiple of heads")
    if common["family"] == "causal_lm":
        return _decoder(model, common)
    if common["family"] not in ("encoder_classifier", "masked_lm"):
        raise model.fail("family", "unknown")
    classifier = common["family"] == "encoder_classifier"
    return ModelConfig(
        **common,
        segments=model.integer("segments", 1, 1024),
        classes=model.integer("classes", 1 if classifier else 0),
    )


def read_config(directory: Path) -> ModelConfig:
    """FileNotFoundError, IntegrityError."""
    path = directory / "config.json"
    with open(path, encoding="utf-8") as file:
        try:
            text = file.read(_MAX_BYTES)
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise IntegrityError(f"{path}: {error}") from None
    return config_from_json(document, str(path))


def _field_names(config: ModelConfig) -> Tuple[str, ...]:
    if config.family == "dlrm":
        return ("dense_features", "table_rows", "bottom_mlp", "top_mlp")
    transformer = (
        "vocabulary", "layers", "hidden", "ffn", "heads", "max_positions", "length",
        "tie_output", "dropout", "layer_norm_epsilon",
    )
    if config.family == "causal_lm":
        return (*transformer, "architecture", "kv_heads", "rope_theta", "gate_silu")
    return (*transformer, "segments", "classes")


def _version_of(config: ModelConfig) -> int:
    """The first version whose readers know what the model has."""
    if any(f.dense_tokens for f in config.factorisation.values()):
        return 3
    return 2 if any(f.silu for f in config.factorisation.values()) else 1


def config_to_json(
    config: ModelConfig, size_parameters: int, size_bytes: int
) -> Dict[str, Any]:
    """The text as the trainer writes it, so that its programs read it too.
    `size_bytes` is the size of the file of weights, header included."""
    layers: Dict[str, Any] = {}
    for name, f in config.factorisation.items():
        layers[name] = {
            "input_modes": list(f.input_modes),
            "output_modes": list(f.output_modes),
            "ranks": list(f.ranks),
        }
        if f.silu:
            layers[name]["silu"] = True
        if f.dense_tokens:
            layers[name]["dense_tokens"] = list(f.dense_tokens)
        if f.low_rank is not None:
            low_rank = dict(vars(f.low_rank))
            if not f.low_rank.linear:
                del low_rank["linear"]
            layers[name]["low_rank"] = low_rank
    model: Dict[str, Any] = {"family": config.family}
    for name in _field_names(config):
        value = getattr(config, name)
        model[name] = list(value) if isinstance(value, tuple) else value
    model["rank_threshold"] = config.rank_threshold
    model["factorisation"] = layers
    return {
        "format": FORMAT,
        "version": _version_of(config),
        "model": model,
        "size_parameters": size_parameters,
        "size_bytes": size_bytes,
        "training": config.figures,
    }
