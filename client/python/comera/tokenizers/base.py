"""The common part of all tokenizers."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Union

from comera.errors import IntegrityError

_MAX_FILE_BYTES = 64 << 20

Text = Union[str, bytes]


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokens that samples are built with; -1 where a vocabulary of a
    language model has none. `pad` is always an id, if need be another token's."""

    pad: int
    # First of every sample: [CLS], <s>.
    cls: int
    # Closes a sentence: [SEP], </s>.
    sep: int
    mask: int
    unk: int

    def __contains__(self, token: object) -> bool:
        return token in (self.pad, self.cls, self.sep, self.mask, self.unk)


@dataclass(frozen=True)
class Sample:
    """One sample without padding; the lists are equally long."""

    ids: List[int]
    segments: List[int]


def read_text(path: Path) -> bytes:
    with open(path, "rb") as file:
        contents = file.read(_MAX_FILE_BYTES + 1)
    if len(contents) > _MAX_FILE_BYTES:
        raise IntegrityError(f"{path}: larger than {_MAX_FILE_BYTES} bytes")
    return contents


class Tokenizer(abc.ABC):
    """Text to token ids. Keeps the ids of words it has seen; threads that share
    one may compute a word twice, and nothing worse."""

    special: SpecialTokens
    # BERT: [CLS] a [SEP] b [SEP] with segments 0 and 1. Otherwise RoBERTa:
    # <s> a </s></s> b </s>, one segment.
    has_segments: bool

    @property
    @abc.abstractmethod
    def vocabulary_size(self) -> int: ...

    @abc.abstractmethod
    def encode(self, text: Text) -> List[int]:
        """Ids without special tokens; names of special tokens are text."""

    @abc.abstractmethod
    def decode(self, ids: List[int]) -> str:
        """About the text of these ids; special tokens are left out."""

    @property
    def end_of_text(self) -> Optional[int]:
        """The token that ends a document; None where there is none."""
        return self.special.sep if self.special.sep >= 0 else None

    @abc.abstractmethod
    def token(self, token_id: int) -> str:
        """The token as the vocabulary writes it."""

    def sample(
        self, first: Text, second: Optional[Text] = None, max_length: int = 512
    ) -> Sample:
        """A text, or a pair of them, as a model takes it; what does not fit is cut
        from the end, of a pair from the longer side."""
        special = self.special
        if special.cls < 0 or special.sep < 0:
            raise ValueError("the vocabulary has no tokens that go around a text")
        a = self.encode(first)
        if second is None:
            ids = [special.cls, *a[: max(0, max_length - 2)], special.sep]
            return Sample(ids, [0] * len(ids))
        b = self.encode(second)
        seps = [special.sep] if self.has_segments else [special.sep, special.sep]
        room = max(0, max_length - 2 - len(seps))
        # One token at a time from the longer side, of equal sides from the
        # second, as in BERT's own code.
        while len(a) + len(b) > room:
            (a if len(a) > len(b) else b).pop()
        ids = [special.cls, *a, *seps, *b, special.sep]
        start = 2 + len(a)
        segment = 1 if self.has_segments else 0
        return Sample(ids, [0] * start + [segment] * (len(ids) - start))
