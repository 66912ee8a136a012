"""The tokenizers of exported models, in plain Python.

    tokenizer = comera.tokenizers.load("my-model")
    tokenizer.encode("some text")
    tokenizer.sample("a premise", "a hypothesis", max_length=64)

Their ids are those of the C++ tokenizers (tests compare them), which train.
SentencePiece models alone need a package, sentencepiece.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Optional, Union

from comera.errors import IntegrityError
from comera.tokenizers.base import Sample, SpecialTokens, Tokenizer
from comera.tokenizers.byte_bpe import ByteBpeTokenizer
from comera.tokenizers.characters import CharacterTokenizer
from comera.tokenizers.hugging_face import HuggingFaceTokenizer
from comera.tokenizers.sentence_piece import SentencePieceTokenizer
from comera.tokenizers.wordpiece import WordpieceTokenizer

__all__ = [
    "ByteBpeTokenizer",
    "CharacterTokenizer",
    "FILES",
    "HuggingFaceTokenizer",
    "Sample",
    "SentencePieceTokenizer",
    "SpecialTokens",
    "Tokenizer",
    "WordpieceTokenizer",
    "load",
]


_OTHERS: Dict[str, Any] = {
    "tokenizer.json": HuggingFaceTokenizer,
    "tokenizer.model": SentencePieceTokenizer,
    "characters.json": CharacterTokenizer,
}
# Files by which a folder's tokenizer is known, first come first read.
FILES = ("vocab.json", "vocab.txt", *_OTHERS)


def load(
    directory: Union[str, "os.PathLike[str]"], lowercase: Optional[bool] = None
) -> Tokenizer:
    """The tokenizer in a model's folder: vocab.json and merges.txt, or vocab.txt,
    which is of lower-case words unless tokenizer_config.json, or `lowercase`,
    denies it, or tokenizer.json (byte-level BPE), tokenizer.model (SentencePiece)
    or characters.json. FileNotFoundError; IntegrityError: malformed files;
    MissingDependencyError: tokenizer.model without the sentencepiece package."""
    folder = Path(directory)
    if (folder / "vocab.json").exists():
        return ByteBpeTokenizer.load(folder / "vocab.json", folder / "merges.txt")
    if (folder / "vocab.txt").exists():
        if lowercase is None:
            lowercase = _is_lowercase(folder / "tokenizer_config.json")
        return WordpieceTokenizer.load(folder / "vocab.txt", lowercase)
    for name, kind in _OTHERS.items():
        if (folder / name).exists():
            return kind.load(folder / name)
    raise FileNotFoundError(
        f"{folder}: no tokenizer: none of {', '.join(FILES)} is there"
    )


def _is_lowercase(config: Path) -> bool:
    if not config.exists():
        return True
    try:
        found = json.loads(config.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{config}: {error}") from None
    return not isinstance(found, dict) or found.get("do_lower_case", True) is not False
