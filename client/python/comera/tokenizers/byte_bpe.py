"""RoBERTa's tokenizer: words as bytes, merged in the order that was learned."""

from __future__ import annotations

import heapq
import json
import re
import unicodedata
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text
from comera.tokenizers.wordpiece import _WHITE_SPACE

# Longer words are rarely seen twice.
_MAX_CACHED_WORD = 64
_MAX_CACHED = 1 << 20
# Longer words are cut.
_MAX_WORD = 64 << 10


def _byte_characters() -> List[str]:
    """The character that stands for each byte in vocabulary files."""
    characters = []
    other = 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174:
            characters.append(chr(byte))
        else:
            characters.append(chr(other))
            other += 1
    return characters


BYTE_CHARACTERS = _byte_characters()

# A text's classes, one character each: Letter, Number, ASCII space, other white
# space (w), Other. Words are then as the regular expression
#   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
# cuts them, of which contractions are looked for in the text itself.
_WORD = re.compile(r" ?L+| ?N+| ?O+|[ w]+(?![^ w])|[ w]+")
_CONTRACTION = re.compile(r"'(?:[stmd]|re|ve|ll)")


def _class_of(c: str) -> str:
    if c == " ":
        return " "
    if c in _WHITE_SPACE:
        return "w"
    category = unicodedata.category(c)
    return category[0] if category[0] in "LN" else "O"


class _Classes(Dict[str, str]):
    def __missing__(self, c: str) -> str:
        self[c] = found = _class_of(c)
        return found


_CLASSES = _Classes()


def split_words(text: str) -> Iterator[str]:
    """Every character belongs to exactly one word."""
    classes = "".join([_CLASSES[c] for c in text])
    position = 0
    while position < len(text):
        match = None
        if text[position] == "'":
            match = _CONTRACTION.match(text, position)
        if match is None:
            match = _WORD.match(classes, position)
        assert match is not None  # every class begins a word
        yield text[position : match.end()]
        position = match.end()


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
        self._byte_ids = [ids.get(c, unk) for c in BYTE_CHARACTERS]
        self._merges = {
            (left, right): (rank, result)
            for rank, (left, right, result) in enumerate(merges)
        }
        self._cache: Dict[bytes, List[int]] = {}

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
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        ids: List[int] = []
        # Bytes that are not UTF-8 count as other characters.
        for part in split_words(text.decode("utf-8", "surrogateescape")):
            word = part.encode("utf-8", "surrogateescape")
            if len(word) > _MAX_CACHED_WORD:
                for start in range(0, len(word), _MAX_WORD):
                    ids += self._merge(word[start : start + _MAX_WORD])
                continue
            known = self._cache.get(word)
            if known is None:
                known = self._merge(word)
                if len(self._cache) < _MAX_CACHED:
                    self._cache[word] = known
            ids += known
        return ids

    def _merge(self, word: bytes) -> List[int]:
        # A linked list of symbols and a heap of its merges, lowest rank first,
        # then leftmost: n log n however long the word is.
        size = len(word)
        symbols = [self._byte_ids[byte] for byte in word]
        previous = list(range(-1, size - 1))
        following = list(range(1, size + 1))
        heap: List[Tuple[int, int, int, int, int]] = []

        def propose(at: int) -> None:
            if at < 0 or following[at] >= size:
                return
            left, right = symbols[at], symbols[following[at]]
            merge = self._merges.get((left, right))
            if merge is not None:
                heapq.heappush(heap, (merge[0], at, left, right, merge[1]))

        for at in range(size):
            propose(at)
        while heap:
            _, at, left, right, result = heapq.heappop(heap)
            gone = following[at]
            # Either side may have changed since this was proposed.
            if symbols[at] != left or gone >= size or symbols[gone] != right:
                continue
            symbols[at] = result
            symbols[gone] = -1
            following[at] = following[gone]
            if following[at] < size:
                previous[following[at]] = at
            propose(previous[at])
            propose(at)
        ids = []
        at = 0
        while at < size:
            ids.append(symbols[at])
            at = following[at]
        return ids

    def decode(self, ids: List[int]) -> str:
        byte_of = {c: byte for byte, c in enumerate(BYTE_CHARACTERS)}
        text = bytearray()
        for token_id in ids:
            if token_id in self.special or not 0 <= token_id < len(self._tokens):
                continue
            text += bytes(byte_of[c] for c in self._tokens[token_id] if c in byte_of)
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
