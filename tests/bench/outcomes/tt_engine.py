"""Trains the baseline of tt_variants.py with the engine, on the same texts.

  tt_engine.py --trainer=PATH --out=FOLDER --vocabulary=2048 --steps=300
    --batch=32 --rate=0.03 --seed=1

FOLDER is that of tt_variants.py, which has made the texts and the tokenizer.
The task is the masked one, whose model both have. Prints the engine's
validation losses.
"""
import argparse
import os
import tempfile

import bench_methods
import bench_tasks
import trainer_runs
from tt_prototype import FFN, HEADS, LENGTH, TABLE_COLUMNS, TABLE_ROWS, WIDTH
from tt_training import RANKS, VALIDATION


def spec_of(options, folder):
    ranks = RANKS[options.vocabulary]
    tokenizer = os.path.join(folder, "train", "tokenizer")
    task = {
        "model": bench_tasks.encoder("MASKED_LM", WIDTH, heads=HEADS,
                                        dropoutOff=True),
        "data": {
            "text": {part: [os.path.join(folder, f"{part}.jsonl")]
                     for part in ("train", "validation")},
            "tokenizer": {
                "kind": "BYTE_BPE",
                "vocabularyFile": os.path.join(tokenizer, "vocab.json"),
                "mergesFile": os.path.join(tokenizer, "merges.txt")},
            "maxLength": LENGTH},
        "steps": options.steps, "batch": options.batch,
        "validation": VALIDATION}
    spec = bench_methods.make_spec(task, "comera", 1, 1, options.seed, 1)
    spec["optimizer"]["learningRateCores"] = options.rate

    def layer(kind, inputs, outputs):
        return {"inputModes": inputs, "outputModes": outputs,
                "ranks": [ranks[kind]]}
    spec["compression"].update({
        "embedding": layer("embedding", TABLE_ROWS[options.vocabulary],
                           TABLE_COLUMNS),
        "attention": layer("attention", [WIDTH], [WIDTH]),
        "ffnUp": layer("ffn", [WIDTH], [FFN]),
        "ffnDown": layer("ffn", [FFN], [WIDTH]),
        "head": layer("head", [WIDTH], [WIDTH]),
        "output": layer("output", [WIDTH], [options.vocabulary])})
    return spec


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--out", default="tt_variants")
    parser.add_argument("--vocabulary", type=int, choices=tuple(RANKS),
                        default=2048)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.threads = 1
    folder = os.path.abspath(
        os.path.join(options.out, f"data{options.vocabulary}"))
    with tempfile.TemporaryDirectory(prefix="tt_engine_") as cache:
        result = trainer_runs.run(options, spec_of(options, folder), cache)
    if not result["curve"]:
        raise SystemExit(result.get("failure", "no loss"))
    print(f"{result['curve'][0]['parameters']:,} parameters: " + ", ".join(
        f"{p['loss']:.3f} after {p['step']}" for p in result["curve"])
        + f", {result['curve'][-1]['seconds']:.0f} s",
        result.get("failure", ""))


if __name__ == "__main__":
    main()
