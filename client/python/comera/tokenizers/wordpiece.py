"""BERT's tokenizer."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Dict, List

from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text

_MAX_WORD = 100
_MAX_CACHED = 1 << 20
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
WHITE_SPACE = frozenset(
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B)))
)
# The blocks of ideographs that BERT sets apart.
_CJK = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _is_cjk(c: str) -> bool:
    code = ord(c)
    return code >= 0x3400 and any(low <= code <= high for low, high in _CJK)


def _clean(c: str, lowercase: bool) -> str:
    if c in " \t\n\r":
        return " "
    if c in "\0\ufffd":
        return ""
    category = unicodedata.category(c)
    if c in WHITE_SPACE:
        # U+0085 and the like are controls, which are dropped.
        return "" if category == "Cc" else " "
    if category[0] == "C":
        return ""
    if _is_cjk(c):
        return f" {c} "
    return c.lower() if lowercase else c


def basic_words(text: str, lowercase: bool) -> List[str]:
    """Words without control characters, every ideograph and punctuation mark one
    of its own; with `lowercase` in lower case and without accents."""
    cleaned = "".join([_clean(c, lowercase) for c in text])
    if lowercase and not cleaned.isascii():
        cleaned = unicodedata.normalize("NFD", cleaned)
    parts = []
    for c in cleaned:
        if c < "\x80":
            parts.append(f" {c} " if c in _ASCII_PUNCTUATION else c)
            continue
        category = unicodedata.category(c)
        if lowercase and category == "Mn":
            continue
        parts.append(f" {c} " if category[0] == "P" else c)
    return [word for word in "".join(parts).split(" ") if word]


class WordpieceTokenizer(Tokenizer):
    """Words become the longest pieces that the vocabulary has, from the left, or
    [UNK]."""

    has_segments = True

    def __init__(self, tokens: List[str], lowercase: bool, name: str = "vocab.txt") -> None:
        self.lowercase = lowercase
        self._tokens = tokens
        self._starts: Dict[str, int] = {}
        self._continuations: Dict[str, int] = {}
        self._longest = max(map(len, tokens), default=1)
        self._cache: Dict[str, List[int]] = {}
        for index, token in enumerate(tokens):
            continues = len(token) > 2 and token.startswith("##")
            ids = self._continuations if continues else self._starts
            key = token[2:] if continues else token
            if not key or key in ids:
                raise IntegrityError(f"{name}:{index + 1}: empty, or given twice")
            ids[key] = index
        try:
            self.special = SpecialTokens(
                *(self._starts[f"[{n}]"] for n in ("PAD", "CLS", "SEP", "MASK", "UNK"))
            )
        except KeyError as error:
            raise IntegrityError(f"{name}: lacks the special token {error}") from None

    @classmethod
    def load(cls, vocabulary_file: Path, lowercase: bool = True) -> "WordpieceTokenizer":
        try:
            text = read_text(vocabulary_file).decode("utf-8")
        except UnicodeDecodeError as error:
            raise IntegrityError(f"{vocabulary_file}: {error}") from None
        lines = text.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        tokens = [line[:-1] if line.endswith("\r") else line for line in lines]
        return cls(tokens, lowercase, str(vocabulary_file))

    @property
    def vocabulary_size(self) -> int:
        return len(self._tokens)

    def token(self, token_id: int) -> str:
        return self._tokens[token_id]

    def encode(self, text: Text) -> List[int]:
        if isinstance(text, str):
            text = text.encode("utf-8", "ignore")
        ids: List[int] = []
        for word in basic_words(text.decode("utf-8", "ignore"), self.lowercase):
            pieces = self._cache.get(word)
            if pieces is None:
                pieces = self._pieces(word)
                if len(self._cache) < _MAX_CACHED:
                    self._cache[word] = pieces
            ids += pieces
        return ids

    def _pieces(self, word: str) -> List[int]:
        if len(word) > _MAX_WORD:
            return [self.special.unk]
        ids: List[int] = []
        start = 0
        while start < len(word):
            known = self._continuations if start else self._starts
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = known.get(word[start:end])
                if piece is not None:
                    ids.append(piece)
                    start = end
                    break
            else:
                return [self.special.unk]
        return ids

    def decode(self, ids: List[int]) -> str:
        words: List[str] = []
        for token_id in ids:
            if token_id in self.special or not 0 <= token_id < len(self._tokens):
                continue
            token = self._tokens[token_id]
            if len(token) > 2 and token.startswith("##") and words:
                words[-1] += token[2:]
            else:
                words.append(token)
        return " ".join(words)
