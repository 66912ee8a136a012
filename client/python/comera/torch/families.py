"""The module of a configuration."""

from __future__ import annotations

from typing import List, Union

from comera.errors import IntegrityError
from comera.torch.config import Factorisation, ModelConfig
from comera.torch.dlrm import Dlrm
from comera.torch.text_models import EncoderClassifier, MaskedLm

AnyModel = Union[EncoderClassifier, MaskedLm, Dlrm]


def expected_layers(config: ModelConfig) -> List[str]:
    """Keys of config.factorisation."""
    if config.family == "dlrm":
        return [
            *(f"bottom.{i}" for i in range(len(config.bottom_mlp))),
            *(f"tables.{t}" for t in range(len(config.table_rows))),
            *(f"top.{i}" for i in range(len(config.top_mlp))),
        ]
    parts = ("query", "key", "value", "output", "ffn_up", "ffn_down")
    names = ["embedding", "head"]
    names += [f"layers.{i}.{part}" for i in range(config.layers) for part in parts]
    if config.family == "masked_lm" and not config.tie_output:
        names.append("output")
    return names


def build(config: ModelConfig) -> AnyModel:
    """The module on the meta device, without memory for weights: to_empty gives
    it some, load fills it. IntegrityError: inconsistent."""
    expected = set(expected_layers(config))
    if set(config.factorisation) != expected:
        odd = sorted(expected.symmetric_difference(config.factorisation))
        raise IntegrityError(f"factorisation: {odd[0]}: missing, or not of this model")
    if config.family == "dlrm":
        return Dlrm(config)
    if config.family == "masked_lm":
        return MaskedLm(config)
    return EncoderClassifier(config)


def dense_form(form: Factorisation) -> Factorisation:
    """The same without cores and adapters; CoLA's layers, which have no matrix,
    stay."""
    if form.low_rank is not None and form.low_rank.kind == "cola":
        return form
    return Factorisation()
