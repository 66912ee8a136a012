"""What models return."""

from dataclasses import dataclass
from typing import Any


@dataclass
class CausalLMOutputWithPast:
    loss: Any = None
    logits: Any = None
    past_key_values: Any = None


@dataclass
class MaskedLMOutput:
    loss: Any = None
    logits: Any = None


@dataclass
class SequenceClassifierOutput:
    loss: Any = None
    logits: Any = None
