"""The tasks on which methods are compared: model, data and number of steps.

A task is made from the folder of shared data and a folder for what it unpacks.
"""
import gzip
import os
import random
import shutil
import sys
import tarfile


def encoder(family, hidden, **more):
    return {"family": family, "layers": 2, "hidden": hidden,
            "ffn": 4 * hidden, **more}


def unpack(source, folder):
    target = os.path.join(folder, os.path.basename(source)[:-len(".gz")])
    with gzip.open(source, "rb") as packed, open(target, "wb") as out:
        shutil.copyfileobj(packed, out)
    return target


def sst2(data, work):
    return {
        "model": encoder("ENCODER_CLASSIFIER", 192, heads=6, classes=2),
        "data": {"glueTsv": {
            "train": unpack(f"{data}/sst2/train.tsv.gz", work),
            "validation": f"{data}/sst2/dev.tsv",
            "sentence1Column": 0, "sentence2Column": -1,
            "labels": ["0", "1"]},
            "tokenizer": wordpiece(data), "maxLength": 48},
        "steps": 2000}


def mnli(data, work):
    with open(os.path.join(work, "mnli.tsv"), "w", encoding="utf-8") as out:
        for part in ("train", "train_more"):
            with gzip.open(f"{data}/mnli/{part}.tsv.gz", "rt",
                           encoding="utf-8") as lines:
                for number, line in enumerate(lines):
                    if number > 0 or part == "train":
                        out.write(line)
    return {
        "model": encoder("ENCODER_CLASSIFIER", 192, heads=6, classes=3),
        "data": {"glueTsv": {
            "train": os.path.join(work, "mnli.tsv"),
            "validation": f"{data}/mnli/dev_matched.tsv",
            "labels": ["entailment", "neutral", "contradiction"]},
            "tokenizer": wordpiece(data), "maxLength": 64},
        "steps": 3000}


def ruby(data, work):
    rows = gzip.open(f"{data}/code/csn_ruby_valid.jsonl.gz", "rt",
                     encoding="utf-8").readlines()
    random.Random(1).shuffle(rows)
    paths = {}
    for name, part in (("train", rows[140:]), ("validation", rows[:140])):
        paths[name] = os.path.join(work, f"ruby_{name}.jsonl")
        with open(paths[name], "w", encoding="utf-8") as out:
            out.writelines(part)
    return {
        "model": encoder("MASKED_LM", 128, heads=4, dropoutOff=True),
        "data": {"jsonl": paths, "tokenizer": byte_bpe(8192),
                 "maxLength": 128},
        "steps": 1000}


def kernel_sources(work):
    archive = "/usr/src/linux-source-6.1.tar.xz"
    if not os.path.exists(archive):
        sys.exit("c_source: please install Debian's package linux-source-6.1")
    root = os.path.join(work, "linux")
    if not os.path.isdir(root):
        print("unpacking the kernel's C source ...", file=sys.stderr)
        with tarfile.open(archive) as files:
            for entry in files:
                top = entry.name.split("/")[1:2]
                if entry.name.endswith(".c") and top in (
                        ["kernel"], ["mm"], ["fs"], ["lib"]):
                    files.extract(entry, root)
    return {"codeDirectory": {"roots": [root], "globs": ["*.c"],
                              "maxBytes": 16 << 20},
            "tokenizer": byte_bpe(8192)}


def c_source(data, work):
    return {
        "model": encoder("MASKED_LM", 128, heads=4, dropoutOff=True),
        "data": {**kernel_sources(work), "maxLength": 64},
        "steps": 1500}


def c_source_lm(data, work):
    """A LLaMA that is dense with 9.8M parameters."""
    return {
        "model": {"family": "CAUSAL_LM", "architecture": "LLAMA", "layers": 7,
                  "hidden": 256, "heads": 4},
        "data": {**kernel_sources(work), "maxLength": 128},
        "steps": 1500, "batch": 16, "validation": 128}


def clicks(data, work):
    """Gowalla check-ins with one random place for every real one."""
    random.seed(1)
    pairs = {}
    for part in ("train", "test"):
        with gzip.open(f"{data}/clicks/{part}.tsv.gz", "rt",
                       encoding="utf-8") as lines:
            next(lines)
            pairs[part] = [tuple(map(int, line.split())) for line in lines]
    known = set(pairs["train"]) | set(pairs["test"])
    path = os.path.join(work, "gowalla.tsv")
    with open(path, "w", encoding="utf-8") as out:
        # The first of two parts trains; the second half of the other
        # validates.
        train = random.sample(pairs["train"], len(pairs["test"]))
        for part in (train, pairs["test"]):
            rows = []
            for user, item in part:
                rows.append((1, user, item))
                while True:
                    other = (user, random.randrange(40981))
                    if other not in known:
                        break
                rows.append((0, *other))
            random.shuffle(rows)
            for label, user, item in rows:
                out.write("\t".join([str(label)] + [""] * 13 + [
                    f"{user:08x}", f"{item:08x}"] + [""] * 24) + "\n")
    return {
        "model": {"family": "DLRM", "dlrm": {
            "bottomMlp": [32, 16], "topMlp": [64, 32, 1],
            "compressedTables": 2}},
        "data": {"criteoTsv": {"files": [path], "parts": 2}},
        "steps": 800, "batch": 512, "validation": 20000}


TASKS = {f.__name__: f for f in (
    sst2, mnli, ruby, c_source, c_source_lm, clicks)}


def wordpiece(data):
    return {"kind": "WORDPIECE",
            "vocabularyFile": f"{data}/vocab/bert-uncased/vocab.txt"}


def vocabulary(spec):
    tokenizer = spec["data"]["tokenizer"]
    if "trainVocabularySize" in tokenizer:
        return tokenizer["trainVocabularySize"]
    with open(tokenizer["vocabularyFile"], encoding="utf-8") as lines:
        return sum(1 for _ in lines)


def byte_bpe(size):
    return {"kind": "BYTE_BPE", "trainVocabularySize": size}


def clicks_model(spec):
    return spec["model"]["family"] == "DLRM"


def language_model(spec):
    return spec["model"]["family"] in ("MASKED_LM", "CAUSAL_LM")
