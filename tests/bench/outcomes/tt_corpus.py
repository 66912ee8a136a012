"""Windows of C source and their masks, for tt_variants.py.

The files are those of the task c_source of bench_tasks.py; `comera data
prepare` makes byte-level BPE of them. Which files are held out does not depend
on a run's seed, so that all losses are comparable.
"""
import glob
import json
import os
import random
import subprocess

import numpy

import bench_tasks

MASK_PROBABILITY = 0.15
MOST_BYTES = 16 << 20
HELD_OUT = 20  # every so many files, one

_HEADER_BYTES, _TRAILER_BYTES = 64, 32


def write_texts(folder):
    """Writes train.jsonl and validation.jsonl, which the engine reads too."""
    bench_tasks.kernel_sources(folder)
    files = sorted(glob.glob(os.path.join(folder, "linux", "**", "*.c"),
                             recursive=True))
    random.Random(1).shuffle(files)
    total = 0
    outs = {part: open(os.path.join(folder, f"{part}.jsonl"), "w",
                       encoding="utf-8") for part in ("train", "validation")}
    try:
        for number, path in enumerate(files):
            with open(path, "rb") as file:
                data = file.read()
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            total += len(data)
            if total > MOST_BYTES:
                break
            part = "train" if number % HELD_OUT else "validation"
            outs[part].write(json.dumps({"text": text}) + "\n")
    finally:
        for out in outs.values():
            out.close()


def prepare(folder, vocabulary, comera, trainer):
    """Makes the token shards in folder/train and folder/validation."""
    os.makedirs(folder, exist_ok=True)
    done = os.path.join(folder, "validation", "index.json")
    if os.path.exists(done):
        return
    write_texts(folder)
    tokenizer = os.path.join(folder, "train", "tokenizer")
    for part, how in (("train", ["--vocabulary", str(vocabulary)]),
                      ("validation", ["--tokenizer", tokenizer])):
        subprocess.run(
            [comera, "data", "prepare", os.path.join(folder, f"{part}.jsonl"),
             "--to", os.path.join(folder, part), "--threads", "1",
             "--trainer-binary", trainer, *how],
            check=True, stdout=subprocess.DEVNULL)


def read_documents(folder):
    """Token ids of each document of a folder of shards (docs/datasets.md)."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as text:
        index = json.load(text)
    documents = []
    for shard in index["shards"]:
        with open(os.path.join(folder, shard["file"]), "rb") as file:
            data = file.read()
        if data[:8] != b"comeraTS" or data[-8:] != b"comeraTE":
            raise ValueError(f"{shard['file']}: not a shard of tokens")
        width = int.from_bytes(data[12:16], "little")
        tokens = numpy.frombuffer(data, f"<u{width}", shard["tokens"],
                                  _HEADER_BYTES).astype(numpy.int64)
        at = _HEADER_BYTES + (width * shard["tokens"] + 7) // 8 * 8
        ends = numpy.frombuffer(data, "<u8", shard["documents"], at)
        documents += numpy.split(tokens, ends[:-1].astype(numpy.int64))
    return documents


class Special:
    """Ids of the tokens that stand for no text."""

    def __init__(self, folder):
        path = os.path.join(folder, "train", "tokenizer", "vocab.json")
        with open(path, encoding="utf-8") as text:
            ids = json.load(text)
        self.begin, self.end = ids["<s>"], ids["</s>"]
        self.mask = ids["<mask>"]
        self.all = sorted(ids[name] for name in (
            "<s>", "<pad>", "</s>", "<unk>", "<mask>"))
        self.vocabulary = len(ids)
        self.ordinary = numpy.setdiff1d(numpy.arange(len(ids)), self.all)


def windows(documents, length, special):
    """(n, length) ids: <s>, a piece of a document, </s>.

    The last piece of a document is dropped where it is short, so that nothing
    is padded.
    """
    width = length - 2
    pieces = []
    for document in documents:
        inner = document[~numpy.isin(document, special.all)]
        count = len(inner) // width
        pieces.append(inner[:count * width].reshape(count, width))
    inner = numpy.concatenate(pieces)
    rows = numpy.empty((len(inner), length), numpy.int64)
    rows[:, 0], rows[:, -1] = special.begin, special.end
    rows[:, 1:-1] = inner
    return rows


def mask(rng, rows, special):
    """The rows with hidden tokens, the hidden places (flat) and their ids.

    0.15 of a row's tokens (rounded at random) are labels; 0.8 of them become
    <mask>, 0.1 a random token.
    """
    count, length = rows.shape
    width = length - 2
    wanted = (MASK_PROBABILITY * width + rng.random(count)).astype(int)
    order = rng.random((count, width)).argsort(1).argsort(1)
    chosen = numpy.zeros(rows.shape, bool)
    chosen[:, 1:-1] = order < wanted[:, None]
    places = numpy.flatnonzero(chosen)
    labels = rows.reshape(-1)[places]
    action = rng.random(len(places))
    tokens = rng.choice(special.ordinary, len(places))
    inputs = rows.reshape(-1).copy()
    inputs[places] = numpy.where(action < 0.8, special.mask, numpy.where(
        action < 0.9, tokens, labels))
    return inputs.reshape(rows.shape), places, labels


def shifted(rows):
    """The same for next-token prediction: every place has a label but the last.
    """
    places = numpy.arange(rows.size).reshape(rows.shape)[:, :-1].reshape(-1)
    return rows, places, rows[:, 1:].reshape(-1)


class Corpus:
    """`causal`: for next-token prediction instead of masked tokens."""

    def __init__(self, folder, length, validation, causal):
        self.causal = causal
        self.special = Special(folder)
        self.train = windows(read_documents(os.path.join(folder, "train")),
                             length, self.special)
        rows = windows(read_documents(os.path.join(folder, "validation")),
                       length, self.special)
        rng = numpy.random.default_rng(0)
        rows = rows[rng.permutation(len(rows))[:validation]]
        self.validation = self.task(rng, rows)
        # How often each token occurs in the training text.
        self.counts = numpy.bincount(self.train[:, 1:-1].reshape(-1),
                                     minlength=self.special.vocabulary)

    def task(self, rng, rows):
        return shifted(rows) if self.causal else mask(rng, rows, self.special)

    def unigram_loss(self):
        """What guessing by frequency alone gives on the validation labels."""
        share = (self.counts + 1) / (self.counts + 1).sum()
        return float(-numpy.log(share[self.validation[2]]).mean())

    def batches(self, seed, size, steps):
        rng = numpy.random.default_rng(seed)
        order = rng.permutation(len(self.train))
        for step in range(steps):
            rows = self.train[order[step * size:(step + 1) * size]]
            yield self.task(rng, rows)
