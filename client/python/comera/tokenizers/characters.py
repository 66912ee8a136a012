"""Characters as tokens."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any, List, Tuple

from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text

_UNKNOWN, _END, _FIRST = 0, 1, 2
_BROKEN = "comera.broken"


def _one_unknown(error: UnicodeError) -> Tuple[str, int]:
    """A broken sequence of bytes becomes one character that no vocabulary has."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ud800", error.end


codecs.register_error(_BROKEN, _one_unknown)


class CharacterTokenizer(Tokenizer):
    """Every character is a token; <unk> for those that the vocabulary lacks and for
    bytes that are not UTF-8."""

    has_segments = False

    def __init__(self, tokens: Any, name: str = "characters.json") -> None:
        """`tokens`: <unk>, </s>, then characters in ascending order."""
        if not isinstance(tokens, list) or tokens[:_FIRST] != ["<unk>", "</s>"]:
            raise IntegrityError(f"{name}: must begin with <unk> and </s>")
        last = ""
        for i, token in enumerate(tokens[_FIRST:], _FIRST):
            if (
                not isinstance(token, str)
                or len(token) != 1
                or token <= last
                or "\ud800" <= token <= "\udfff"
            ):
                raise IntegrityError(
                    f"{name}: token {i} is not a character behind the one before it"
                )
            last = token
        self._tokens: List[str] = tokens
        self._ids = {token: i for i, token in enumerate(tokens) if i >= _FIRST}
        self.special = SpecialTokens(_END, -1, _END, -1, _UNKNOWN)

    @classmethod
    def load(cls, path: Path) -> "CharacterTokenizer":
        try:
            tokens = json.loads(read_text(path).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise IntegrityError(f"{path}: {error}") from None
        return cls(tokens, str(path))

    @property
    def vocabulary_size(self) -> int:
        return len(self._tokens)

    def token(self, token_id: int) -> str:
        return self._tokens[token_id]

    def encode(self, text: Text) -> List[int]:
        if isinstance(text, bytes):
            text = text.decode("utf-8", _BROKEN)
        return [self._ids.get(c, _UNKNOWN) for c in text]

    def decode(self, ids: List[int]) -> str:
        return "".join(
            "\ufffd" if i == _UNKNOWN else self._tokens[i]
            for i in ids
            if i != _END and 0 <= i < len(self._tokens)
        )
