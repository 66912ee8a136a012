"""SentencePiece models, read by the sentencepiece package."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Optional

from comera._optional import optional_import
from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text


class SentencePieceTokenizer(Tokenizer):
    """Nothing is put around a text, and names of <s> and </s> in it are text.
    MissingDependencyError: the sentencepiece package is not installed."""

    has_segments = False

    def __init__(self, contents: bytes, name: str = "tokenizer.model") -> None:
        """`contents`: the model file's. IntegrityError: malformed."""
        package = optional_import(
            "sentencepiece", "tokenizer.model", "python3-sentencepiece"
        )
        self._model: Any = package.SentencePieceProcessor()
        try:
            loaded = self._model.LoadFromSerializedProto(contents)
        except (RuntimeError, ValueError, TypeError) as error:
            raise IntegrityError(f"{name}: {error}") from None
        if not loaded or self._model.GetPieceSize() < 1:
            raise IntegrityError(f"{name}: no SentencePiece model")
        end = self._model.eos_id()
        pad = self._model.pad_id()
        self.special = SpecialTokens(
            pad if pad >= 0 else max(0, end),
            self._model.bos_id(),
            end,
            -1,
            self._model.unk_id(),
        )

    @classmethod
    def load(cls, path: Path) -> "SentencePieceTokenizer":
        return cls(read_text(path), str(path))

    @property
    def vocabulary_size(self) -> int:
        return int(self._model.GetPieceSize())

    def token(self, token_id: int) -> str:
        if not 0 <= token_id < self.vocabulary_size:
            raise IndexError(f"{token_id} is no id of this vocabulary")
        return str(self._model.IdToPiece(token_id))

    def encode(self, text: Text) -> List[int]:
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        return list(self._model.EncodeAsIds(text))

    def decode(self, ids: List[int]) -> str:
        known = [i for i in ids if 0 <= i < self.vocabulary_size]
        return str(self._model.DecodeIds(known))

    @property
    def end_of_text(self) -> Optional[int]:
        end = int(self._model.eos_id())
        return end if end >= 0 else None
