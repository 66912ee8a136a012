"""RoBERTa's tokenizer: words as bytes, merged in the order that was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, List, Tuple

from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text
from comera.tokenizers.byte_pairs import BYTE_CHARACTERS, BytePairMerger, token_bytes


class ByteBpeTokenizer(Tokenizer):
    """Every text has ids, and decode gives it back."""

    has_segments = False

    def __init__(
        self, tokens: List[str], merges: List[Tuple[int, int, int]], name: str = "vocab.json"
    ) -> None:
        """`merges`: (left, right, result), in order."""
        self._tokens = tokens
        ids = {token: index for index, token in enumerate(tokens)}
        try:
            self.special = SpecialTokens(
                *(ids[n] for n in ("<pad>", "<s>", "</s>", "<mask>", "<unk>"))
            )
        except KeyError as error:
            raise IntegrityError(f"{name}: lacks the special token {error}") from None
        unk = self.special.unk
        self._merger = BytePairMerger([ids.get(c, unk) for c in BYTE_CHARACTERS], merges)

    @classmethod
    def load(cls, vocabulary_file: Path, merges_file: Path) -> "ByteBpeTokenizer":
        tokens = _read_tokens(vocabulary_file)
        return cls(tokens, _read_merges(merges_file, tokens), str(vocabulary_file))

    @property
    def vocabulary_size(self) -> int:
        return len(self._tokens)

    def token(self, token_id: int) -> str:
        return self._tokens[token_id]

    def encode(self, text: Text) -> List[int]:
        return self._merger.encode_words(text)

    def decode(self, ids: List[int]) -> str:
        text = bytearray()
        for token_id in ids:
            if token_id in self.special or not 0 <= token_id < len(self._tokens):
                continue
            text += token_bytes(self._tokens[token_id])
        return text.decode("utf-8", "replace")


def _read_tokens(path: Path) -> List[str]:
    def fail(what: str) -> IntegrityError:
        return IntegrityError(f"{path}: {what}")

    def pairs(items: List[Tuple[str, Any]]) -> List[Tuple[str, Any]]:
        return items

    try:
        found = json.loads(read_text(path).decode("utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise fail(str(error)) from None
    if not isinstance(found, list) or not found:
        raise fail("expected an object of tokens and ids")
    tokens: List[Any] = [None] * len(found)
    for item in found:
        if not isinstance(item, tuple):
            raise fail("expected an object of tokens and ids")
        token, index = item
        if type(index) is not int or not 0 <= index < len(tokens):
            raise fail(f"token {token[:80]!r}: ids must be 0 to {len(tokens) - 1}")
        if tokens[index] is not None:
            raise fail(f"id {index} occurs twice")
        tokens[index] = token
    return tokens


def _read_merges(path: Path, tokens: List[str]) -> List[Tuple[int, int, int]]:
    ids = {token: index for index, token in enumerate(tokens)}
    merges: List[Tuple[int, int, int]] = []
    seen = set()
    try:
        text = read_text(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{path}: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        line = line[:-1] if line.endswith("\r") else line
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right or (left, right) in seen:
            raise IntegrityError(
                f"{path}:{number}: expected two tokens with a space between, once"
            )
        seen.add((left, right))
        for token in (left, right, left + right):
            if token not in ids:
                raise IntegrityError(
                    f"{path}:{number}: token {token[:80]!r} is not in the vocabulary"
                )
        merges.append((ids[left], ids[right], ids[left + right]))
    return merges
