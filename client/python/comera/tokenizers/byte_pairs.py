"""The byte level of GPT-2's and RoBERTa's tokenizers: text is cut into words by
character class, and neighbouring bytes of a word are merged."""

from __future__ import annotations

import heapq
import re
import unicodedata
from typing import Dict, Iterable, Iterator, List, Tuple

from comera.tokenizers.base import Text
from comera.tokenizers.wordpiece import WHITE_SPACE

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
_BYTE_OF = {c: byte for byte, c in enumerate(BYTE_CHARACTERS)}


def token_bytes(token: str) -> bytes:
    """The bytes that a token's characters stand for."""
    return bytes(_BYTE_OF[c] for c in token if c in _BYTE_OF)

# A text's classes, one character each: Letter, Number, ASCII space, other white
# space (w), Other. Words are then as the regular expression
#   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
# cuts them, of which contractions are looked for in the text itself.
_WORD = re.compile(r" ?L+| ?N+| ?O+|[ w]+(?![^ w])|[ w]+")
_CONTRACTION = re.compile(r"'(?:[stmd]|re|ve|ll)")


def _class_of(c: str) -> str:
    if c == " ":
        return " "
    if c in WHITE_SPACE:
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


class BytePairMerger:
    """Bytes to ids. Keeps the ids of words it has seen."""

    def __init__(
        self, byte_ids: List[int], merges: Iterable[Tuple[int, int, int]]
    ) -> None:
        """`byte_ids`: the token of each byte. `merges`: (left, right, result), in
        order."""
        self._byte_ids = byte_ids
        self._merges = {
            (left, right): (rank, result)
            for rank, (left, right, result) in enumerate(merges)
        }
        self._cache: Dict[bytes, List[int]] = {}

    def encode_words(self, text: Text) -> List[int]:
        """Ids of a text that is cut into words."""
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        ids: List[int] = []
        # Bytes that are not UTF-8 count as other characters.
        for part in split_words(text.decode("utf-8", "surrogateescape")):
            ids += self.encode_word(part.encode("utf-8", "surrogateescape"))
        return ids

    def encode_word(self, word: bytes) -> List[int]:
        ids: List[int] = []
        if len(word) > _MAX_CACHED_WORD:
            for start in range(0, len(word), _MAX_WORD):
                ids += self._merge(word[start : start + _MAX_WORD])
            return ids
        known = self._cache.get(word)
        if known is None:
            known = self._merge(word)
            if len(self._cache) < _MAX_CACHED:
                self._cache[word] = known
        return known

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
