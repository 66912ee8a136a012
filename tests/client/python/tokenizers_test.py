"""The tokenizers against those that train, on texts of all kinds."""

import json
import random
import subprocess
import tempfile
import unicodedata
import unittest
from pathlib import Path

import comera
from comera import tokenizers
from comera.tokenizers.byte_pairs import BYTE_CHARACTERS
from programs import program, shared

_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def known_to_both():
    """Characters that both sides' Unicode tables have assigned."""
    last = 0x2FA1F
    return [
        c
        for c in map(chr, range(0x80, last + 1))
        if unicodedata.category(c) != "Cn" and not 0xD800 <= ord(c) <= 0xDFFF
    ]


def texts():
    """Bytes: prose, code, every script, and noise."""
    result = [
        b"",
        b" ",
        b"It's the dog's, they'll say: we've  been 'round.\n\n  x = 3.14 \t",
        "Crème brûlée — naïve façade; ÀÉÎ İstanbul ΑΣ ﬁ Ⅷ ½ ²".encode(),
        "日本語のテキスト、中文字符。한국어 텍스트".encode(),
        "עברית العربية हिन्दी ภาษาไทย".encode(),
        "e\u0301 a\u0300\u0301 \u00a0\u2003\u3000x\u0085y\u200bz\ufeff\ufffd".encode(),
        b"\xff\xfe broken \xe2\x82 utf8 \xf0\x9f\x98 \xc0\x80 \xed\xa0\x80",
        b"a\x00b\x01\x1c\x1d\x7fc",
        b"x" * 150 + b" " + b"ab" * 40,
        b"[CLS] <s> [MASK] </s>",
        "😀👩‍👩‍👧 #hash @at 100% 1,000.5 snake_case camelCase".encode(),
    ]
    draw = random.Random(5)
    pool = known_to_both()
    for _ in range(200):
        size = draw.randrange(1, 60)
        result.append("".join(draw.choices(pool, k=size)).encode())
        mixed = draw.choices(" \t\nabcXYZ019'.,-é日 ", k=size)
        result.append("".join(mixed).encode())
        result.append(bytes(draw.randrange(256) for _ in range(size)))
    return result


def engine_ids(arguments, cases):
    encode = program("tests/worker/trainer/data/tokenizer/encode_texts")
    lines = "".join(case.hex() + "\n" for case in cases)
    run = subprocess.run(
        [encode, *map(str, arguments)], input=lines, stdout=subprocess.PIPE,
        text=True, check=True,
    )
    return [list(map(int, line.split())) for line in run.stdout.split("\n")[:-1]]


class TokenizersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def expect_equal(self, tokenizer, arguments, cases):
        expected = engine_ids(arguments, cases)
        self.assertEqual(len(expected), len(cases))
        for case, ids in zip(cases, expected):
            self.assertEqual(tokenizer.encode(case), ids, case)
        return sum(map(len, expected))

    def write_byte_pairs(self):
        """A vocabulary that was learned from a few words, as BPE does."""
        words = [b" the", b" there", b"ing", b" call", "日本".encode(), b"  ", b"'re"]
        tokens = _SPECIAL + BYTE_CHARACTERS
        merges = []
        for word in words:
            left = BYTE_CHARACTERS[word[0]]
            for byte in word[1:]:
                pair = (left, BYTE_CHARACTERS[byte])
                left += pair[1]
                if left not in tokens:
                    tokens.append(left)
                    merges.append(pair)
        (self.folder / "vocab.json").write_text(
            json.dumps({t: i for i, t in enumerate(tokens)}), encoding="utf-8"
        )
        (self.folder / "merges.txt").write_text(
            "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges),
            encoding="utf-8",
        )

    def write_words(self):
        letters = "abcdefghijklmnopqrstuvwxyz0123456789éßσאا日本のกक.,'-#½²"
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##", "###"]
        tokens += [c for c in letters if c not in tokens]
        tokens += [f"##{c}" for c in letters if c != "#"]
        tokens += ["the", "##ing", "dog", "istanbul", "X", "ab", "##ab"]
        (self.folder / "vocab.txt").write_text(
            "\n".join(tokens) + "\n", encoding="utf-8"
        )

    def test_byte_pairs_equal_the_engines(self):
        self.write_byte_pairs()
        tokenizer = tokenizers.load(self.folder)
        cases = texts() + [b"long" * 20_000]
        count = self.expect_equal(
            tokenizer, [self.folder / "vocab.json", self.folder / "merges.txt"], cases
        )
        self.assertGreater(count, 1000)
        for case in cases:
            text = case.decode("utf-8", "replace")
            if "\ufffd" not in text:
                self.assertEqual(tokenizer.decode(tokenizer.encode(case)), text)

    def test_words_equal_the_engines(self):
        self.write_words()
        for lowercase in (True, False):
            tokenizer = tokenizers.load(self.folder, lowercase)
            arguments = [self.folder / "vocab.txt"] + ([] if lowercase else ["cased"])
            self.expect_equal(tokenizer, arguments, texts())

    def test_real_vocabularies(self):
        bert = shared("data/vocab/bert-uncased/vocab.txt")
        mnli = shared("data/mnli/dev_matched.tsv")
        lines = mnli.read_bytes().split(b"\n")[:300] + texts()
        tokenizer = tokenizers.WordpieceTokenizer.load(bert)
        self.assertGreater(self.expect_equal(tokenizer, [bert], lines), 10_000)
        for merges in sorted(shared("data/vocab").glob("*/merges.txt")):
            vocabulary = merges.with_name("vocab.json")
            pairs = tokenizers.ByteBpeTokenizer.load(vocabulary, merges)
            self.expect_equal(pairs, [vocabulary, merges], lines)

    def write_document(self, **changes):
        """The byte pairs as a tokenizer.json with a few added tokens."""
        self.write_byte_pairs()
        vocabulary = json.loads((self.folder / "vocab.json").read_text("utf-8"))
        lines = (self.folder / "merges.txt").read_text("utf-8").split("\n")
        size = len(vocabulary)

        def added(index, content, **options):
            return {"id": index, "content": content, "single_word": False,
                    "lstrip": False, "rstrip": False, "normalized": False,
                    "special": True, **options}

        document = {
            "added_tokens": [
                added(2, "</s>"),
                added(4, "<mask>", lstrip=True),
                added(size, "<|x|>", rstrip=True),
                added(size + 1, "<|x|>y"),
                added(size + 2, "camel", special=False, normalized=True),
            ],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocabulary,
                      "merges": [line for line in lines[1:] if line]},
        }
        document["model"].update(changes.pop("model", {}))
        document.update(changes)
        for name in ("vocab.json", "merges.txt"):
            (self.folder / name).unlink()
        path = self.folder / "tokenizer.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def test_documents_equal_the_engines(self):
        cases = texts() + [
            b"a <mask>b</s>camelCase", b" \xc2\xa0<mask> <|x|> \t\xe2\x80\x83z<|x|>y<|x|",
            b"<|x|>", b"\xff<mask>\xff", b"camel<|x|>camel",
        ]
        for prefix in (True, False):
            path = self.write_document(
                pre_tokenizer={"type": "ByteLevel", "add_prefix_space": prefix}
            )
            tokenizer = tokenizers.load(self.folder)
            self.expect_equal(tokenizer, [path], cases)
        self.assertEqual(tokenizer.end_of_text, 2)
        self.assertEqual(tokenizer.special.mask, 4)
        ids = tokenizer.encode("the <mask>camel</s>日本")
        self.assertEqual(tokenizer.decode(ids), "thecamel日本")
        path = self.write_document(
            pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False,
                           "use_regex": False}
        )
        self.expect_equal(tokenizers.load(self.folder), [path], cases)

    def test_documents_of_other_kinds_are_refused(self):
        for changes, word in (
            ({"normalizer": {"type": "NFC"}}, "normalizer"),
            ({"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer"),
            ({"decoder": {"type": "WordPiece"}}, "decoder"),
            ({"added_tokens": [{"id": 7, "content": "</s>"}]}, "added_tokens"),
            ({"added_tokens": [{"id": 99999, "content": "zz"}]}, "gaps"),
            ({"added_tokens": [{"id": 1, "content": ""}]}, "content"),
            ({"model": {"type": "Unigram"}}, "model.type"),
            ({"model": {"byte_fallback": True}}, "byte_fallback"),
            ({"model": {"merges": ["a"]}}, "merges"),
            ({"model": {"merges": ["a b", "a b"]}}, "merges"),
            ({"model": {"vocab": {}}}, "vocab"),
            ({"model": {"vocab": {"a": -1}}}, "vocab"),
            ({"model": {"unk_token": "?!"}}, "unk_token"),
            ({"other": 1}, "other"),
        ):
            self.write_document(**changes)
            with self.subTest(changes), self.assertRaises(comera.IntegrityError) as caught:
                tokenizers.load(self.folder)
            self.assertIn(word, str(caught.exception))
        (self.folder / "tokenizer.json").write_bytes(b"[" * 100_000)
        with self.assertRaises(comera.IntegrityError):
            tokenizers.load(self.folder)

    def golden(self, name):
        path = shared("golden/causal_lm/tokenizers", name)
        cases = json.loads(path.read_text("utf-8"))["cases"]
        self.assertGreater(len(cases), 50)
        return cases

    def test_published_byte_pairs(self):
        tokenizer = tokenizers.HuggingFaceTokenizer.load(
            shared("golden/causal_lm/tokenizers/bytelevel_small.tokenizer.json"))
        for case in self.golden("bytelevel_small_ids.json"):
            self.assertEqual(tokenizer.encode(case["text"]), case["ids"], case["text"])

    def test_sentence_pieces(self):
        folder = shared("golden/causal_lm/tokenizers")
        for name in ("llama_spm_small", "mistral_v1"):
            path = folder / f"{name}.model"
            try:
                tokenizer = tokenizers.SentencePieceTokenizer.load(path)
            except comera.MissingDependencyError as error:
                self.skipTest(str(error))
            for case in self.golden(f"{name}_ids.json"):
                self.assertEqual(tokenizer.encode(case["text"]), case["ids"])
            self.expect_equal(tokenizer, [path], texts())
            self.assertEqual(tokenizer.token(tokenizer.end_of_text), "</s>")
            with self.assertRaises(IndexError):
                tokenizer.token(tokenizer.special.mask)
        (self.folder / "tokenizer.model").write_bytes(b"\x0a\xff")
        with self.assertRaises(comera.IntegrityError):
            tokenizers.load(self.folder)

    def test_characters(self):
        path = self.folder / "characters.json"
        path.write_text('["<unk>", "</s>", "\\n", "a", "\u65e5"]', encoding="utf-8")
        tokenizer = tokenizers.load(self.folder)
        self.assertEqual(tokenizer.encode("a\u65e5b\n"), [3, 4, 0, 2])
        self.assertEqual(tokenizer.encode(b"\xe2\x82a\xff"), [0, 3, 0])
        self.assertEqual(tokenizer.decode([3, 1, 0, 4]), "a\ufffd\u65e5")
        with self.assertRaises(ValueError):
            tokenizer.sample("a")
        for bad in ('["<unk>"]', "{}", '["<unk>", "</s>", "b", "a"]',
                    '["<unk>", "</s>", "ab"]', "["):
            path.write_text(bad)
            with self.assertRaises(comera.IntegrityError):
                tokenizers.load(self.folder)

    def test_the_case_is_the_folders(self):
        self.write_words()
        self.assertTrue(tokenizers.load(self.folder).lowercase)
        (self.folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
        self.assertFalse(tokenizers.load(self.folder).lowercase)
        (self.folder / "tokenizer_config.json").write_text("{")
        with self.assertRaises(comera.IntegrityError):
            tokenizers.load(self.folder)

    def test_samples(self):
        self.write_words()
        words = tokenizers.load(self.folder)
        special = words.special
        sample = words.sample("a b", "c d e", max_length=20)
        a, b, c, d, e = (words.encode(x)[0] for x in "abcde")
        self.assertEqual(
            sample.ids, [special.cls, a, b, special.sep, c, d, e, special.sep]
        )
        self.assertEqual(sample.segments, [0] * 4 + [1] * 4)
        # The longer side loses its end, of equal sides the second.
        cut = words.sample("a b", "c d e", max_length=6)
        self.assertEqual(cut.ids, [special.cls, a, b, special.sep, c, special.sep])
        self.assertEqual(words.sample("a b c", max_length=4).ids[1:-1], [a, b])

        self.write_byte_pairs()
        pairs = tokenizers.load(self.folder)
        sample = pairs.sample("a", "b", max_length=20)
        self.assertEqual(sample.segments, [0] * 6)
        self.assertEqual(sample.ids.count(pairs.special.sep), 3)

    def test_decoded_words(self):
        self.write_words()
        words = tokenizers.load(self.folder)
        self.assertEqual(words.decode(words.encode("The dog, abab")), "the dog , abab")

    def test_malformed_files_are_refused(self):
        def refused(name, contents):
            (self.folder / name).write_bytes(contents)
            with self.subTest(contents[:40]), self.assertRaises(comera.IntegrityError):
                tokenizers.load(self.folder)

        with self.assertRaises(FileNotFoundError):
            tokenizers.load(self.folder)
        good = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
        for bad in ("a\na\n", "[PAD]\n", "\n\n"):
            refused("vocab.txt", bad.encode())
        refused("vocab.txt", (good + "a\n\nb\n").encode())
        refused("vocab.txt", b"\xff\n")
        self.write_byte_pairs()
        for bad in (b"{", b"[]", b"{}", b'{"a": 1.5}', b'{"a": 1, "b": 1}', b'["a"]',
                    b'{"a": 0}', b'{"a": true}', b"\xff"):
            refused("vocab.json", bad)
        self.write_byte_pairs()
        for bad in (b"a\n", b"a b c\n", b"zz yy\n", b"\xff \xff\n"):
            refused("merges.txt", bad)


if __name__ == "__main__":
    unittest.main()
