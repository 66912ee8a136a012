"""The tokenizers of exported models, in plain Python.

    tokenizer = comera.tokenizers.load("my-model")
    tokenizer.encode("some text")
    tokenizer.sample("a premise", "a hypothesis", max_length=64)

Their ids are those of the C++ tokenizers (tests compare them), which train.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Optional, Union

from comera.errors import IntegrityError
from comera.tokenizers.base import Sample, SpecialTokens, Tokenizer
from comera.tokenizers.byte_bpe import ByteBpeTokenizer
from comera.tokenizers.wordpiece import WordpieceTokenizer

__all__ = [
    "ByteBpeTokenizer",
    "Sample",
    "SpecialTokens",
    "Tokenizer",
    "WordpieceTokenizer",
    "load",
]


def load(
    directory: Union[str, "os.PathLike[str]"], lowercase: Optional[bool] = None
) -> Tokenizer:
    """The tokenizer in a model's folder: vocab.json and merges.txt, or vocab.txt,
    which is of lower-case words unless tokenizer_config.json, or `lowercase`,
    denies it. FileNotFoundError; IntegrityError: malformed files."""
    folder = Path(directory)
    if (folder / "vocab.json").exists():
        return ByteBpeTokenizer.load(folder / "vocab.json", folder / "merges.txt")
    if not (folder / "vocab.txt").exists():
        raise FileNotFoundError(
            f"{folder}: no tokenizer: neither vocab.txt nor vocab.json is there"
        )
    if lowercase is None:
        lowercase = True
        config = folder / "tokenizer_config.json"
        if config.exists():
            try:
                found = json.loads(config.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise IntegrityError(f"{config}: {error}") from None
            if isinstance(found, dict):
                lowercase = found.get("do_lower_case", True) is not False
    return WordpieceTokenizer.load(folder / "vocab.txt", lowercase)
