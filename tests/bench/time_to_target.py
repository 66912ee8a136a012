"""Trains tasks by several methods and compares loss, size and time.

Called by time_to_target.sh, which says what the arguments mean. Every method
has one learning rate, searched over the same three multiples of its default
with seed 1; the best one is used for the other seeds. The target of a task is
the tuned dense model's mean loss plus 0.05 nats.
"""
import argparse
import copy
import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

SEARCH = (0.3, 1, 3)
TARGET_MARGIN = 0.05  # nats above the dense model


def encoder(family, hidden, **more):
    return {"family": family, "layers": 2, "hidden": hidden,
            "ffn": 4 * hidden, **more}


def unpack(source, folder, change):
    """Writes the lines of a .tsv or .tsv.gz through `change`."""
    target = os.path.join(folder, os.path.basename(source).replace(".gz", ""))
    opener = gzip.open if source.endswith(".gz") else open
    with opener(source, "rt", encoding="utf-8") as lines, \
            open(target, "w", encoding="utf-8") as out:
        for number, line in enumerate(lines):
            out.write(change(number, line.rstrip("\n")))
    return target


def sst2(data, work):
    # A sentence pair whose second sentence is empty.
    def pair(number, line):
        text, label = line.split("\t")
        second = "second" if number == 0 else ""
        return f"{text.strip()}\t{second}\t{label}\n"
    return {
        "model": encoder("ENCODER_CLASSIFIER", 192, heads=6, classes=2),
        "data": {"glueTsv": {
            "train": unpack(f"{data}/sst2/train.tsv.gz", work, pair),
            "validation": unpack(f"{data}/sst2/dev.tsv", work, pair),
            "sentence1Column": 0, "sentence2Column": 1,
            "labels": ["0", "1"]},
            "tokenizer": wordpiece(data), "maxLength": 48},
        "compression": large_vocabulary(), "steps": 2000}


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
        "compression": large_vocabulary(), "steps": 3000}


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
        "data": {"jsonl": paths, "tokenizer": byte_bpe(2048),
                 "maxLength": 128},
        "compression": small_vocabulary(), "steps": 1000}


def c_source(data, work):
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
    return {
        "model": encoder("MASKED_LM", 128, heads=4, dropoutOff=True),
        "data": {"codeDirectory": {"roots": [root], "globs": ["*.c"],
                                   "maxBytes": 16 << 20},
                 "tokenizer": byte_bpe(1024), "maxLength": 64},
        "compression": small_vocabulary(), "steps": 1500}


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
        "model": {"family": "DLRM", "dlrm": {"compressedTables": 2}},
        "data": {"criteoTsv": {"files": [path], "parts": 2}},
        "compression": {"table": {"ranks": [16]}}, "steps": 800,
        "batch": 512}


TASKS = {f.__name__: f for f in (sst2, mnli, ruby, c_source, clicks)}


def wordpiece(data):
    return {"kind": "WORDPIECE",
            "vocabularyFile": f"{data}/vocab/bert-uncased/vocab.txt"}


def byte_bpe(size):
    return {"kind": "BYTE_BPE", "trainVocabularySize": size}


def large_vocabulary():
    rank = {"ranks": [24]}
    return {"embedding": {"ranks": [32]}, "attention": rank, "ffnUp": rank,
            "ffnDown": rank, "head": rank}


def small_vocabulary():
    rank = {"ranks": [24]}
    return {"embedding": rank, "attention": rank, "ffnUp": rank,
            "ffnDown": rank, "head": rank, "output": {"ranks": [48]}}


def dense(spec, share=1, tied=False, optimizer="ADAMW"):
    """The dense model, at a share of its width."""
    spec["compression"] = {"method": "DENSE"}
    spec["optimizer"] = {"kind": optimizer}
    model = spec["model"]
    if "hidden" in model:
        heads = model["heads"]
        width = max(heads, round(model["hidden"] * share / heads) * heads)
        model.update(hidden=width, ffn=4 * width)
        if tied:
            model["tieOutput"] = True
    elif share < 1:
        return None  # a narrow DLRM is another shape
    if tied and model.get("family") != "MASKED_LM":
        return None
    return spec


def comera(spec, optimizer=None):
    spec["compression"]["method"] = "COMERA"
    if optimizer is None:
        optimizer = ("ADAMW" if spec["model"]["family"] == "DLRM"
                     else "MUON")
    spec["optimizer"] = {"kind": optimizer}
    return spec


def reference(spec):
    spec["objective"]["kind"] = "REFERENCE"
    return comera(spec, "ADAMW")


def other(spec, method, settings):
    spec["compression"] = {"method": method, method.lower(): settings}
    return spec


# The method's name, what it makes of a job, and the rate that is searched.
METHODS = {
    "dense": (dense, "learningRateOther", 1e-3),
    "dense_muon": (lambda s: dense(s, optimizer="MUON"),
                   "learningRateCores", 2e-2),
    "narrow_1/2": (lambda s: dense(s, 1 / 2), "learningRateOther", 2e-3),
    "narrow_1/2_muon": (lambda s: dense(s, 1 / 2, optimizer="MUON"),
                        "learningRateCores", 2e-2),
    "narrow_3/8": (lambda s: dense(s, 3 / 8), "learningRateOther", 2e-3),
    "narrow_1/4_tied": (lambda s: dense(s, 1 / 4, tied=True),
                        "learningRateOther", 3e-3),
    "narrow_1/16": (lambda s: dense(s, 1 / 16), "learningRateOther", 3e-3),
    "comera": (comera, "learningRateCores", None),
    "comera_adamw": (lambda s: comera(s, "ADAMW"), "learningRateCores", 1e-3),
    "published": (reference, "learningRateCores", 1e-3),
    "cola": (lambda s: other(s, "COLA", {}), "learningRateOther", 1e-3),
    "galore": (lambda s: other(s, "GALORE", {"rank": 32}),
               "learningRateOther", 1e-3),
}


def make_spec(task, method, factor, seed, scale):
    steps = max(20, round(task["steps"] * scale))
    spec = copy.deepcopy(
        {k: task[k] for k in ("model", "data", "compression")})
    spec["objective"] = {"kind": "PARETO",
                         "early": {"steps": steps, "gamma": 1e-4}}
    make, field, rate = METHODS[method]
    spec = make(spec)
    if spec is None:
        return None
    if rate is None:  # the defaults of job files
        click = spec["model"]["family"] == "DLRM"
        rate = 1e-3 if click else 5e-3
    optimizer = spec.setdefault("optimizer", {})
    optimizer.update({"decay": "LINEAR", "warmupSteps": steps // 10})
    optimizer[field] = rate * factor
    spec["training"] = {"batchSize": task.get("batch", 32), "seed": seed,
                        "validateEverySteps": max(1, steps // 10),
                        "reportEverySteps": max(1, steps // 10),
                        "validationSamples": -1 if task.get("batch") else 2048}
    spec["resources"] = {"device": "CPU", "processes": 1}
    spec["checkpoint"] = {"everySteps": 1 << 30}
    return spec


def run(options, spec, cache):
    work = tempfile.mkdtemp(prefix="time_to_target_")
    task = {"job": "bench", "attempt": 1, "spec": spec, "worldSize": 1,
            "threads": options.threads, "workDir": work, "cacheDir": cache,
            "device": "CPU"}
    path = os.path.join(work, "task.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(task, out)
    curve, result = [], {}
    process = subprocess.Popen([options.trainer, f"--task={path}"],
                               stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    start = None
    try:
        for line in process.stdout:
            event = json.loads(line)
            if "run_info" in event:
                start = time.monotonic()
                result["dense"] = int(event["run_info"]["dense_parameters"])
                result["baseline"] = event["run_info"]["baseline_loss"]
            metrics = event.get("metrics", {})
            if "validation_loss" in metrics:
                curve.append({
                    "step": int(metrics["step"]),
                    "seconds": time.monotonic() - start,
                    "loss": metrics["validation_loss"],
                    "accuracy": metrics.get("validation_accuracy"),
                    "auc": metrics.get("validation_auc"),
                    "parameters": int(metrics["size_parameters"])})
            if "failure" in event:
                result["failure"] = event["failure"]["message"]
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(work, ignore_errors=True)
    result["curve"] = curve
    return result


class Results:
    """All runs so far, kept as JSON lines."""

    def __init__(self, path):
        self.path = path
        self.runs = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    entry = json.loads(line)
                    self.runs[tuple(entry["key"])] = entry["result"]

    def get(self, key, make):
        if key not in self.runs:
            self.runs[key] = make()
            with open(self.path, "a", encoding="utf-8") as out:
                out.write(json.dumps({"key": key, "result": self.runs[key]})
                          + "\n")
        return self.runs[key]


def final(result):
    return result["curve"][-1]["loss"] if result["curve"] else float("inf")


def seconds_to(result, target):
    for point in result["curve"]:
        if point["loss"] <= target:
            return point["seconds"]
    return None


def spread(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5


def table(name, chosen):
    """One row per method, by loss; `chosen`: method -> (factor, results)."""
    chosen = {method: (factor, runs) for method, (factor, runs) in
              chosen.items() if all(run["curve"] for run in runs)}
    if not chosen:
        return f"### {name}\n\nno run ended\n"
    lines = [f"### {name}", ""]
    target = None
    if "dense" in chosen:
        target = (spread([final(r) for r in chosen["dense"][1]])[0]
                  + TARGET_MARGIN)
        lines += [f"Target: the dense model's loss + {TARGET_MARGIN}, "
                  f"{target:.3f}.", ""]
    lines += ["| method | parameters | of dense | loss | accuracy or AUC | "
              "seconds to the target | seconds in all | rate x |",
              "|---|---|---|---|---|---|---|---|"]
    for method, (factor, runs) in sorted(
            chosen.items(), key=lambda c: sum(map(final, c[1][1]))
            / len(c[1][1])):
        mean, deviation = spread([final(r) for r in runs])
        last = [r["curve"][-1] for r in runs]
        quality = [p["auc"] if p["auc"] is not None else p["accuracy"]
                   for p in last]
        quality = [q for q in quality if q is not None]
        reached = [seconds_to(r, target) for r in runs] if target else [None]
        size = last[0]["parameters"]
        lines.append(
            f"| {method} | {size:,} | {size / runs[0]['dense']:.3f} | "
            f"{mean:.3f} ± {deviation:.3f} | "
            f"{spread(quality)[0]:.3f} | " if quality else "| ")
        lines[-1] += (
            (f"{spread(reached)[0]:.0f}" if None not in reached
             else "not reached") +
            f" | {spread([p['seconds'] for p in last])[0]:.0f} | {factor} |")
    return "\n".join(lines) + "\n"


def plot(name, chosen, folder):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "comera"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for method, (_, runs) in chosen.items():
        curve = runs[0]["curve"]
        for axis, key in zip(axes, ("seconds", "step")):
            axis.plot([p[key] for p in curve], [p["loss"] for p in curve],
                      label=f"{method} ({curve[-1]['parameters']:,})"
                      if curve else method)
            axis.set_xlabel(key)
    axes[0].set_ylabel("validation loss")
    axes[1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(os.path.join(folder, f"{name}.svg"),
                   metadata={"Date": None})
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--data", default="../shared")
    parser.add_argument("--tasks", default="sst2,c_source")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="time_to_target")
    options = parser.parse_args()
    for kind, known in (("tasks", TASKS), ("methods", METHODS)):
        for name in getattr(options, kind).split(","):
            if name not in known:
                sys.exit(f"--{kind}: {name} is none of {', '.join(known)}")
    data = os.path.abspath(os.path.join(options.data, "data"))
    os.makedirs(options.out, exist_ok=True)
    results = Results(os.path.join(options.out, "results.jsonl"))
    text = []
    with tempfile.TemporaryDirectory(prefix="time_to_target_data_") as work:
        cache = os.path.join(work, "cache")
        os.makedirs(cache)
        for name in options.tasks.split(","):
            task = TASKS[name](data, work)
            chosen = {}

            def measure(method, factor, seed):
                spec = make_spec(task, method, factor, seed, options.scale)
                if spec is None:
                    return None
                print(f"{name} {method} rate x {factor} seed {seed} ...",
                      end=" ", flush=True, file=sys.stderr)
                result = results.get(
                    (name, method, factor, seed, options.scale),
                    lambda: run(options, spec, cache))
                print(f"{final(result):.3f} {result.get('failure', '')}",
                      file=sys.stderr)
                return result

            for method in options.methods.split(","):
                tried = {f: measure(method, f, 1) for f in SEARCH}
                if None in tried.values():
                    continue
                best = min(SEARCH, key=lambda f: final(tried[f]))
                chosen[method] = (best, [tried[best]] + [
                    measure(method, best, seed)
                    for seed in range(2, options.seeds + 1)])
            text.append(table(name, chosen))
            plot(name, chosen, options.out)
            with open(os.path.join(options.out, "table.md"), "w",
                      encoding="utf-8") as out:
                out.write("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
