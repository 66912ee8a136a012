"""The common part of the modules of all families."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional

from torch import nn

from comera.tokenizers import Tokenizer
from comera.torch.config import ModelConfig


class ComeraModule(nn.Module):
    """Configuration, folder and names, which modules of all families have."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # The folder that it was loaded from.
        self.folder: Optional[Path] = None
        # The tokenizer of that folder, if it has one.
        self.tokenizer: Optional[Tokenizer] = None
        # Names of class 0, 1, ..., if they are known.
        self.labels: List[str] = []

    def num_parameters(self, trainable_only: bool = False) -> int:
        """Parameters as the service counts them: cores, and what is never compressed."""
        return sum(
            p.numel() for p in self.parameters() if p.requires_grad or not trainable_only
        )

    def ranks(self) -> Dict[str, List[int]]:
        """Inner bonds of every tensorised layer."""
        return {
            name: list(form.ranks)
            for name, form in self.config.factorisation.items()
            if form.has_cores
        }
