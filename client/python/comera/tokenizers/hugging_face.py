"""Byte-level BPE as the tokenizer.json of the tokenizers library describes it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from comera.errors import IntegrityError
from comera.tokenizers.base import SpecialTokens, Text, Tokenizer, read_text
from comera.tokenizers.byte_pairs import BYTE_CHARACTERS, BytePairMerger, token_bytes
from comera.tokenizers.wordpiece import WHITE_SPACE

_MAX_TOKENS = 4 << 20
_MAX_ADDED_TOKENS = 64 << 10
_MAX_ADDED_TOKEN_BYTES = 1 << 10
_END_NAMES = ("<|endoftext|>", "</s>", "<|end_of_text|>")
_SPACES = "".join(sorted(WHITE_SPACE))


@dataclass(frozen=True)
class AddedToken:
    """A token that is found in a text as it is written, before the text is split
    into words."""

    id: int
    content: str
    # White space to the left or right belongs to the token.
    lstrip: bool
    rstrip: bool
    # The token is looked for only where no other was found.
    normalized: bool
    # The token marks something and is no text.
    special: bool


class _Members:
    """Members of a JSON object, by name. Messages begin with file and member."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise IntegrityError(f"{where}: expected an object")
        self._value = value
        self.where = where

    def fail(self, key: str, what: str) -> IntegrityError:
        return IntegrityError(f"{self.where}.{key}: {what}")

    def get(self, key: str) -> Any:
        return self._value.get(key)

    def boolean(self, key: str, otherwise: bool) -> bool:
        value = self._value.get(key)
        if value is None:
            return otherwise
        if not isinstance(value, bool):
            raise self.fail(key, "expected true or false")
        return value

    def token_id(self, key: str) -> int:
        value = self._value.get(key)
        if type(value) is not int or not 0 <= value < _MAX_TOKENS:
            raise self.fail(key, f"expected an id from 0 to {_MAX_TOKENS - 1}")
        return value

    def check_unset(self, *keys: str) -> None:
        for key in keys:
            if self._value.get(key):
                raise self.fail(key, "is not supported")

    def check_known(self, *keys: str) -> None:
        for key in self._value:
            if key not in keys:
                raise self.fail(str(key)[:80], "this member is not known")


class HuggingFaceTokenizer(Tokenizer):
    """Added tokens are found in a text; what lies between is cut into words, whose
    bytes are merged. No tokens are put around a text."""

    has_segments = False

    def __init__(self, document: Any, name: str = "tokenizer.json") -> None:
        """`document`: the parsed file. IntegrityError: malformed, or a tokenizer
        that is no byte-level BPE."""
        root = _Members(document, name)
        root.check_known("version", "truncation", "padding", "added_tokens", "normalizer",
                         "pre_tokenizer", "post_processor", "decoder", "model")
        root.check_unset("normalizer")
        self._read_pre_tokenizer(root)
        model = _Members(root.get("model"), f"{name}: model")
        if model.get("type") not in (None, "BPE"):
            raise model.fail("type", "only BPE is supported")
        model.check_known("type", "dropout", "unk_token", "continuing_subword_prefix",
                          "end_of_word_suffix", "fuse_unk", "byte_fallback",
                          "ignore_merges", "vocab", "merges")
        model.check_unset("dropout", "continuing_subword_prefix", "end_of_word_suffix",
                          "byte_fallback", "ignore_merges")
        ids = _vocabulary(model)
        self._added = _added_tokens(root, ids)
        self._tokens = _place(ids, self._added, name)
        unknown = _unknown(model, ids)
        self._merger = BytePairMerger(
            _byte_ids(model, ids, unknown), _merges(model, ids)
        )
        self._first = _pattern([t for t in self._added if not t.normalized])
        self._later = _pattern([t for t in self._added if t.normalized])
        self._by_content = {t.content: t for t in self._added}
        self._text_ids = {t.id: t for t in self._added}
        self._set_special(unknown)

    @classmethod
    def load(cls, path: Path) -> "HuggingFaceTokenizer":
        try:
            document = json.loads(read_text(path).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise IntegrityError(f"{path}: {error}") from None
        return cls(document, str(path))

    def _read_pre_tokenizer(self, root: _Members) -> None:
        where = f"{root.where}: pre_tokenizer"
        part = _Members(root.get("pre_tokenizer"), where)
        if part.get("type") == "Sequence":
            parts = part.get("pretokenizers")
            if not isinstance(parts, list) or len(parts) != 1:
                raise part.fail("pretokenizers", "expected one")
            part = _Members(parts[0], f"{where}.pretokenizers[0]")
        if part.get("type") != "ByteLevel":
            raise part.fail("type", "only ByteLevel is supported")
        if part.get("add_prefix_space") is None:
            raise part.fail("add_prefix_space", "expected true or false")
        self._add_prefix_space = part.boolean("add_prefix_space", False)
        self._use_regex = part.boolean("use_regex", True)
        decoder = root.get("decoder")
        if decoder is not None:
            found = _Members(decoder, f"{root.where}: decoder")
            if found.get("type") != "ByteLevel":
                raise found.fail("type", "only ByteLevel is supported")

    def _set_special(self, unknown: int) -> None:
        def find(name: str) -> int:
            token = self._by_content.get(name)
            return token.id if token is not None and token.special else -1

        ends = [find(name) for name in _END_NAMES if find(name) >= 0]
        self._end = ends[0] if ends else None
        pad = find("<pad>")
        if pad < 0:
            pad = 0 if self._end is None else self._end
        unk = unknown if unknown >= 0 else find("<unk>")
        self.special = SpecialTokens(
            pad, find("<s>"), find("</s>"), find("<mask>"), unk
        )

    @property
    def vocabulary_size(self) -> int:
        return len(self._tokens)

    @property
    def end_of_text(self) -> Optional[int]:
        return self._end

    def token(self, token_id: int) -> str:
        return self._tokens[token_id]

    def encode(self, text: Text) -> List[int]:
        if isinstance(text, str):
            text = text.encode("utf-8", "surrogatepass")
        ids: List[int] = []
        # Bytes that are not UTF-8 are in no token.
        self._split(text.decode("utf-8", "surrogateescape"), self._first, ids, True)
        return ids

    def _split(
        self, text: str, pattern: Optional["re.Pattern[str]"], ids: List[int], first: bool
    ) -> None:
        """Appends the ids of a text; after the first tokens come the normalized."""

        def between(part: str) -> None:
            if not part:
                return
            if first and self._later is not None:
                self._split(part, self._later, ids, False)
            else:
                self._encode_part(part, ids)

        done = at = 0
        while pattern is not None:
            match = pattern.search(text, at)
            if match is None:
                break
            token = self._by_content[match.group()]
            part = text[done : match.start()]
            between(part.rstrip(_SPACES) if token.lstrip else part)
            ids.append(token.id)
            at = match.end()
            while token.rstrip and at < len(text) and text[at] in WHITE_SPACE:
                at += 1
            done = at
        between(text[done:])

    def _encode_part(self, part: str, ids: List[int]) -> None:
        if self._add_prefix_space and part[0] != " ":
            part = " " + part
        data = part.encode("utf-8", "surrogateescape")
        if self._use_regex:
            ids += self._merger.encode_words(data)
        else:
            ids += self._merger.encode_word(data)

    def decode(self, ids: List[int]) -> str:
        text = bytearray()
        for token_id in ids:
            if not 0 <= token_id < len(self._tokens):
                continue
            added = self._text_ids.get(token_id)
            if added is None:
                text += token_bytes(self._tokens[token_id])
            elif not added.special:
                text += added.content.encode("utf-8", "surrogatepass")
        return text.decode("utf-8", "replace")


def _pattern(tokens: List[AddedToken]) -> Optional["re.Pattern[str]"]:
    """Finds the longest token at the first place that has one."""
    if not tokens:
        return None
    contents = sorted((t.content for t in tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, contents)))


def _vocabulary(model: _Members) -> Dict[str, int]:
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not 0 < len(vocabulary) <= _MAX_TOKENS:
        raise model.fail("vocab", "expected an object of tokens and ids")
    for token, index in vocabulary.items():
        if type(index) is not int or not 0 <= index < _MAX_TOKENS:
            raise model.fail(
                "vocab", f"token {token[:80]!r}: ids must be 0 to {_MAX_TOKENS - 1}"
            )
    return vocabulary


def _added_tokens(root: _Members, ids: Dict[str, int]) -> List[AddedToken]:
    values = root.get("added_tokens") or []
    if not isinstance(values, list) or len(values) > _MAX_ADDED_TOKENS:
        raise root.fail("added_tokens", "expected a list of tokens")
    tokens = []
    for i, value in enumerate(values):
        fields = _Members(value, f"{root.where}: added_tokens[{i}]")
        fields.check_known("id", "content", "single_word", "lstrip", "rstrip",
                           "normalized", "special")
        fields.check_unset("single_word")
        content = fields.get("content")
        if not isinstance(content, str) or not (
            0 < len(content.encode("utf-8", "surrogatepass")) <= _MAX_ADDED_TOKEN_BYTES
        ):
            raise fields.fail(
                "content", f"expected a text of 1 to {_MAX_ADDED_TOKEN_BYTES} bytes"
            )
        special = fields.boolean("special", False)
        token = AddedToken(
            fields.token_id("id"),
            content,
            fields.boolean("lstrip", False),
            fields.boolean("rstrip", False),
            fields.boolean("normalized", not special),
            special,
        )
        if ids.get(content, token.id) != token.id:
            raise fields.fail("id", f"model.vocab has id {ids[content]} for this token")
        tokens.append(token)
    return tokens


def _place(ids: Dict[str, int], added: List[AddedToken], name: str) -> List[str]:
    """Token of each id."""
    all_ids = {**ids, **{t.content: t.id for t in added}}
    tokens: List[Optional[str]] = [None] * len(all_ids)
    for token, index in all_ids.items():
        if index >= len(tokens):
            raise IntegrityError(f"{name}: model.vocab, added_tokens: ids have gaps")
        if tokens[index] is not None:
            raise IntegrityError(
                f"{name}: model.vocab, added_tokens: id {index} occurs twice"
            )
        tokens[index] = token
    return [token for token in tokens if token is not None]


def _unknown(model: _Members, ids: Dict[str, int]) -> int:
    unknown = model.get("unk_token")
    if unknown is None:
        return -1
    if not isinstance(unknown, str) or unknown not in ids:
        raise model.fail("unk_token", "expected a token of model.vocab")
    return ids[unknown]


def _byte_ids(model: _Members, ids: Dict[str, int], unknown: int) -> List[int]:
    found = [ids.get(c, unknown) for c in BYTE_CHARACTERS]
    for byte, c in enumerate(BYTE_CHARACTERS):
        if c in ids:
            continue
        if unknown < 0:
            raise model.fail("vocab", f"lacks the token of byte {byte}")
        if model.boolean("fuse_unk", False):
            raise model.fail("fuse_unk", "is not supported where model.vocab lacks bytes")
    return found


def _merges(model: _Members, ids: Dict[str, int]) -> List[Tuple[int, int, int]]:
    values = model.get("merges")
    if not isinstance(values, list) or len(values) > _MAX_TOKENS:
        raise model.fail("merges", "expected a list")
    merges: List[Tuple[int, int, int]] = []
    seen = set()
    for i, value in enumerate(values):
        pair = value
        if isinstance(value, str):
            pair = value.split(" ", 1)
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(side, str) and side for side in pair)
        ):
            raise model.fail(f"merges[{i}]", 'expected "left right" or a list of two')
        left, right = pair
        for token in (left, right, left + right):
            if token not in ids:
                raise model.fail(
                    f"merges[{i}]", f"token {token[:80]!r} is not in model.vocab"
                )
        if (left, right) in seen:
            raise model.fail(f"merges[{i}]", "this merge occurs twice")
        seen.add((left, right))
        merges.append((ids[left], ids[right], ids[left + right]))
    return merges
