"""The module of a configuration."""

from __future__ import annotations

from typing import List, Union

from comera.errors import IntegrityError
from comera.torch.causal_lm import CausalLm
from comera.torch.config import Factorisation, ModelConfig
from comera.torch.dlrm import Dlrm
from comera.torch.text_models import EncoderClassifier, MaskedLm

AnyModel = Union[EncoderClassifier, MaskedLm, CausalLm, Dlrm]


def expected_layers(config: ModelConfig) -> List[str]:
    """Keys of config.factorisation."""
    if config.family == "dlrm":
        return [
            *(f"bottom.{i}" for i in range(len(config.bottom_mlp))),
            *(f"tables.{t}" for t in range(len(config.table_rows))),
            *(f"top.{i}" for i in range(len(config.top_mlp))),
        ]
    parts = ["query", "key", "value", "output", "ffn_up", "ffn_down"]
    if config.architecture == "llama":
        parts.append("ffn_gate")
    names = ["embedding"] if config.family == "causal_lm" else ["embedding", "head"]
    names += [f"layers.{i}.{part}" for i in range(config.layers) for part in parts]
    if config.family != "encoder_classifier" and not config.tie_output:
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
    if config.family == "causal_lm":
        return CausalLm(config)
    return EncoderClassifier(config)


def dense_form(form: Factorisation) -> Factorisation:
    """The same without cores and adapters; a layer with a function between its
    factors, which is no matrix, stays as it is."""
    low_rank = form.low_rank
    cola = low_rank is not None and low_rank.kind == "cola" and not low_rank.linear
    return form if form.silu or cola else Factorisation()
