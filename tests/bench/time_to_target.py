"""Trains tasks by several methods and compares loss, size and time.

Called by time_to_target.sh, which says what the arguments mean. Every method
has one learning rate, searched over the same multiples of its default with seed
1 (Muon's and AdamW's together, where a method has both): three, and up to two
more beyond the first or last while that is the best; the best one is used for
the other seeds. If a model learns nothing at that rate with one of them, the
next best rate is taken. A method that can be had at any size is searched at
each size. The target of a task is the tuned dense model's loss with the same
seed plus 0.05 nats. Seconds are the processor time of a run, all threads
together, from its first step on: other work on the machine hardly changes them.
"""
import argparse
import concurrent.futures
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
import threading

SEARCH = (0.3, 1, 3)
WIDER = 3  # how much further a search goes where its best is the first or last
MOST_WIDER = 2  # how often
SHARES = (5, 20, 80)  # the sizes: this fraction of the dense model's
TARGET_MARGIN = 0.05  # nats above the dense model


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


def dense(spec, optimizer="ADAMW"):
    spec["compression"] = {"method": "DENSE"}
    spec["optimizer"] = {"kind": optimizer}
    return spec


def narrow(spec, width, optimizer="ADAMW", tied=False):
    """The dense model with rows of this width."""
    dense(spec, optimizer)
    set_width(spec, width)
    if tied:
        spec["model"]["tieOutput"] = True
    return spec


def set_width(spec, width):
    model = spec["model"]
    if clicks_model(spec):
        model["dlrm"]["bottomMlp"][-1] = width
        return
    if model["family"] == "CAUSAL_LM":  # rotary positions pair columns
        width = max(2, width - width % 2)
    heads = max(h for h in range(1, model["heads"] + 1)
                if width % h == 0 and (width // h % 2 == 0 or "ffn" in model))
    model.update(hidden=width, heads=heads)
    if "ffn" in model:
        model["ffn"] = 4 * width


def comera(spec, rank, optimizer="MUON", bonds=1):
    """Tensor trains of the dense model's width, all ranks from one number.

    A list of ranks fixes the number of cores, which one rank leaves open.
    """
    linear = {"ranks": [rank] * bonds}
    wide = {"ranks": [rank * 4 // 3]}
    spec["compression"] = {"method": "COMERA"}
    if clicks_model(spec):
        spec["compression"]["table"] = {"ranks": [rank]}
        optimizer = "ADAMW"
    else:
        for layer in ("attention", "ffnUp", "ffnDown"):
            spec["compression"][layer] = linear
        if spec["model"]["family"] != "CAUSAL_LM":
            spec["compression"]["head"] = linear
        spec["compression"]["embedding"] = wide
        if language_model(spec):
            spec["compression"]["output"] = wide
    spec["optimizer"] = {"kind": optimizer}
    return spec


def comera_tied(spec, rank):
    comera(spec, rank)
    del spec["compression"]["output"]
    spec["model"]["tieOutput"] = True
    return spec


def comera_narrow(spec, rank):
    """Tensor trains of two thirds of the dense model's width."""
    set_width(spec, spec["model"]["hidden"] * 2 // 3)
    return comera(spec, rank)


def with_silu(spec):
    """A SiLU between the halves of each tensor-train layer."""
    spec["compression"]["innerActivation"] = "SILU"
    return spec


def published(spec, rank):
    """The published objective and optimiser, with layers of six cores."""
    spec["objective"]["kind"] = "REFERENCE"
    return comera(spec, rank, "ADAMW", bonds=5)


def cola(spec, width, optimizer="ADAMW"):
    set_width(spec, width)
    spec["compression"] = {"method": "COLA",
                           "cola": {"rank": max(1, width // 4)}}
    spec["optimizer"] = {"kind": optimizer}
    return spec


def galore(spec):
    spec["compression"] = {"method": "GALORE", "galore": {"rank": 32}}
    return spec


# What a method makes of a job, and the rates that are searched together, with
# their defaults.
WHOLE = {
    "dense": (dense, {"learningRateOther": 1e-3}),
    "dense, Muon": (lambda s: dense(s, "MUON"),
                    {"learningRateCores": 2e-2, "learningRateOther": 1e-3}),
    "GaLore": (galore, {"learningRateOther": 1e-2}),
}
# The same, of methods whose models are as large as a number makes them.
SIZED = {
    "comera": (comera, {"learningRateCores": 1e-2}),
    "comera, tied": (comera_tied, {"learningRateCores": 1e-2}),
    "comera, two thirds as wide": (comera_narrow, {"learningRateCores": 1e-2}),
    "comera, SiLU": (lambda s, n: with_silu(comera(s, n)),
                     {"learningRateCores": 1e-2}),
    "comera, SiLU, tied": (lambda s, n: with_silu(comera_tied(s, n)),
                           {"learningRateCores": 1e-2}),
    "comera, AdamW": (lambda s, n: comera(s, n, "ADAMW"),
                      {"learningRateCores": 1e-3}),
    "comera, published rule": (published, {"learningRateCores": 1e-3}),
    "narrow dense": (narrow, {"learningRateOther": 3e-3}),
    "narrow dense, Muon": (lambda s, n: narrow(s, n, "MUON"),
                           {"learningRateCores": 2e-2,
                            "learningRateOther": 3e-3}),
    "narrow dense, tied": (lambda s, n: narrow(s, n, tied=True),
                           {"learningRateOther": 3e-3}),
    "narrow dense, tied, Muon": (lambda s, n: narrow(s, n, "MUON", True),
                                 {"learningRateCores": 2e-2,
                                  "learningRateOther": 3e-3}),
    "CoLA": (cola, {"learningRateOther": 3e-3}),
    "CoLA, Muon": (lambda s, n: cola(s, n, "MUON"),
                   {"learningRateCores": 2e-2, "learningRateOther": 3e-3}),
}
METHODS = {**WHOLE, **SIZED}


def suits(method, task):
    """Whether the method means something of its own on the task."""
    family = task["model"]["family"]
    if "tied" in method:
        return language_model(task)
    if family == "DLRM":
        return method in ("dense", "narrow dense", "comera",
                          "comera, published rule")
    return True


def make_spec(task, method, number, factor, seed, scale):
    """`number`: the rank or width of a sized method."""
    steps = max(20, round(task["steps"] * scale))
    spec = copy.deepcopy({k: task[k] for k in ("model", "data")})
    spec["objective"] = {"kind": "PARETO",
                         "early": {"steps": steps, "gamma": 1e-4}}
    make, rates = METHODS[method]
    if rates == SIZED["comera"][1]:  # the defaults of job files
        rates = {"learningRateCores": {
            "DLRM": 1e-3, "ENCODER_CLASSIFIER": 2.5e-3}.get(
                spec["model"]["family"], 1e-2)}
    spec = make(spec) if number is None else make(spec, number)
    optimizer = spec.setdefault("optimizer", {})
    optimizer.update({"decay": "LINEAR", "warmupSteps": steps // 10})
    optimizer.update({field: rate * factor for field, rate in rates.items()})
    spec["training"] = {"batchSize": task.get("batch", 32), "seed": seed,
                        "validateEverySteps": max(1, steps // 10),
                        "reportEverySteps": max(1, steps // 10),
                        "validationSamples": task.get("validation", 1024)}
    spec["resources"] = {"device": "CPU", "processes": 1}
    spec["checkpoint"] = {"everySteps": 10 ** 9}
    return spec


def start(options, spec, cache, work, *flags):
    task = {"job": "bench", "attempt": 1, "spec": spec, "worldSize": 1,
            "threads": options.threads, "workDir": work, "cacheDir": cache,
            "device": "CPU"}
    path = os.path.join(work, "task.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(task, out)
    return subprocess.Popen([options.trainer, f"--task={path}", *flags],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True)


def parameters(options, spec, cache):
    """What the model begins with; None for a size that no model has."""
    work = tempfile.mkdtemp(prefix="time_to_target_")
    describe = () if clicks_model(spec) else (
        "--describe", f"--vocabulary={vocabulary(spec)}")
    process = start(options, spec, cache, work, *describe)
    try:
        if describe:
            out = process.communicate()[0]
            return (int(json.loads(out)["parameters"])
                    if process.returncode == 0 else None)
        for line in process.stdout:
            event = json.loads(line)
            if "run_info" in event:
                return int(event["run_info"]["initial_parameters"])
            if "failure" in event:
                return None
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(work, ignore_errors=True)


def largest_number(size_of, limit):
    """The largest number with size_of(number) <= limit, or None."""
    fits, bound = 0, 1
    while bound <= 1024 and (size_of(bound) or limit + 1) <= limit:
        fits, bound = bound, 2 * bound
    while bound - fits > 1:
        middle = (fits + bound) // 2
        if (size_of(middle) or limit + 1) <= limit:
            fits = middle
        else:
            bound = middle
    return fits or None


def processor_seconds(process):
    """What the process has used so far, its threads included."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(options, spec, cache):
    work = tempfile.mkdtemp(prefix="time_to_target_")
    curve, result = [], {}
    process = start(options, spec, cache, work)
    begun = None
    try:
        for line in process.stdout:
            event = json.loads(line)
            if "run_info" in event:
                begun = processor_seconds(process)
                result["dense"] = int(event["run_info"]["dense_parameters"])
                result["baseline"] = event["run_info"]["baseline_loss"]
            metrics = event.get("metrics", {})
            if "validation_loss" in metrics:
                size = int(metrics["size_parameters"])
                step = int(metrics["step"])
                curve.append({
                    "step": step,
                    "seconds": processor_seconds(process) - begun,
                    "gigabytes": (curve[-1]["gigabytes"] if curve else 0)
                    + 4e-9 * size
                    * (step - (curve[-1]["step"] if curve else 0)),
                    "loss": metrics["validation_loss"],
                    "accuracy": metrics.get("validation_accuracy"),
                    "auc": metrics.get("validation_auc"),
                    "parameters": size})
            if "failure" in event:
                result["failure"] = event["failure"]["message"]
                if event["failure"].get("failure_class") == "PREEMPTED":
                    raise KeyboardInterrupt  # stopped from outside
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
        self.lock = threading.Lock()
        self.runs = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    entry = json.loads(line)
                    self.runs[tuple(entry["key"])] = entry["result"]

    def get(self, key, make):
        if key not in self.runs:
            result = make()
            if result is None:
                return None
            with self.lock, open(self.path, "a", encoding="utf-8") as out:
                self.runs[key] = result
                out.write(json.dumps({"key": key, "result": result}) + "\n")
        return self.runs[key]


def final(result):
    return result["curve"][-1]["loss"] if result["curve"] else float("inf")


def seconds_to(result, target):
    for point in result["curve"]:
        if point["loss"] <= target:
            return point["seconds"]
    return None


def loss_after(result, seconds):
    """The last loss told within so many seconds; infinite: there is none."""
    told = [p["loss"] for p in result["curve"] if p["seconds"] <= seconds]
    return told[-1] if told else float("inf")


def spread(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5


def measure_task(options, name, task, results, cache):
    """(method, share or None) -> (factor, results of all seeds)."""
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        return measure_in(pool, options, name, task, results, cache)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def measure_in(pool, options, name, task, results, cache):
    methods = [m for m in options.methods.split(";") if suits(m, task)]

    def measure(method, share, number, factor, seed):
        def job():
            spec = make_spec(task, method, number, factor, seed, options.scale)
            result = results.get(
                (name, method, share, factor, seed, options.scale,
                 options.dropout),
                lambda: run(options, spec, cache))
            print(f"{name}: {method}{f' 1/{share}' if share else ''}"
                  f"{f' ({number})' if number else ''}, rate x {factor}, seed "
                  f"{seed}: {final(result):.3f} {result.get('failure', '')}",
                  file=sys.stderr, flush=True)
            return result
        return pool.submit(job)

    def number_of(method, share, limit):
        def size_of(number):
            spec = make_spec(task, method, number, 1, 1, options.scale)
            return results.get((name, method, "size", number),
                               lambda: parameters(options, spec, cache))
        return largest_number(size_of, limit)

    whole = results.get(
        (name, "dense", "size", 0),
        lambda: parameters(options, make_spec(task, "dense", None, 1, 1,
                                              options.scale), cache))
    if whole is None:
        sys.exit(f"{name}: the dense model does not start")
    shares = [int(s) for s in options.shares.split(",")]
    kinds = {}  # (method, share): number
    for method in methods:
        if method in WHOLE:
            kinds[method, None] = None
            continue
        for share in shares:
            number = number_of(method, share, whole / share)
            if number:
                kinds[method, share] = number
            else:
                print(f"{name}: {method} cannot have 1/{share} of "
                      f"{whole:,} parameters", file=sys.stderr)
    searches = {kind: {f: measure(*kind, number, f, 1) for f in SEARCH}
                for kind, number in kinds.items()}

    def of_seeds(kind, tried):
        best = best_of(tried)
        return best, [tried[best]] + [
            measure(*kind, kinds[kind], best, seed)
            for seed in range(2, options.seeds + 1)]

    runs = {}
    for kind, number in kinds.items():
        tried = searches[kind]
        best = best_of(tried)
        for _ in range(MOST_WIDER):
            if best not in (min(tried), max(tried)):
                break
            further = best / WIDER if best == min(tried) else best * WIDER
            further = float(f"{further:.2g}")
            tried[further] = measure(*kind, number, further, 1)
            best = best_of(tried)
        runs[kind] = of_seeds(kind, tried)
    for kind, tried in searches.items():
        while (any(learnt_nothing(r.result()) for r in runs[kind][1])
               and not learnt_nothing(runs[kind][1][0].result())
               and len(tried) > 1):
            del tried[runs[kind][0]]
            runs[kind] = of_seeds(kind, tried)
    return {kind: (best, [r.result() for r in seeds])
            for kind, (best, seeds) in runs.items()}


def learnt_nothing(result):
    """Whether the best constant prediction is as good, but for 1%."""
    return final(result) >= 0.99 * result.get("baseline", float("inf"))


def best_of(tried):
    """The multiple whose run ended with the lowest loss."""
    return min(tried, key=lambda factor: final(tried[factor].result()))


def table(name, chosen):
    """One row per method and size, by size and loss."""
    chosen = {kind: (factor, runs) for kind, (factor, runs) in
              chosen.items() if all(run["curve"] for run in runs)}
    if not chosen:
        return f"### {name}\n\nno run ended\n"
    lines = [f"### {name}", ""]
    # Seeds draw data, too: what is compared has the same seed.
    dense = [final(r) for r in chosen.get(("dense", None), (1, []))[1]]
    # The time that the quickest run took.
    equal = min(r["curve"][-1]["seconds"] for _, runs in chosen.values()
                for r in runs)
    lines += ["| size | method | parameters | loss | minus dense's | accuracy "
              f"or AUC | loss after {equal:.0f} s | seconds to dense's + 0.05 "
              "| seconds in all | rate x |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for (method, share), (factor, runs) in sorted(
            chosen.items(), key=lambda c: (
                c[0][1] or 0, sum(map(final, c[1][1])) / len(c[1][1]))):
        last = [r["curve"][-1] for r in runs]
        quality = [p["accuracy"] if p["accuracy"] is not None else p["auc"]
                   for p in last]
        quality = [q for q in quality if q is not None]
        beside = list(zip(runs, dense))
        reached = [seconds_to(r, d + TARGET_MARGIN) for r, d in beside]
        lines.append(" | ".join([
            f"| {f'1/{share}' if share else 'whole'}", method,
            f"{last[0]['parameters']:,}",
            "{:.3f} ± {:.3f}".format(*spread([final(r) for r in runs])),
            "{:+.3f} ± {:.3f}".format(
                *spread([final(r) - d for r, d in beside])) if dense else "",
            "{:.3f} ± {:.3f}".format(*spread(quality)) if quality else "",
            "{:.3f}".format(spread([loss_after(r, equal) for r in runs])[0]),
            f"{spread(reached)[0]:.0f}" if reached and None not in reached
            else "not reached" if dense else "",
            f"{spread([p['seconds'] for p in last])[0]:.0f}", f"{factor} |"]))
    return "\n".join(lines) + "\n"


def plot(name, chosen, folder):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "comera"
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 3, figsize=(15, 5), sharey=True)
    for (method, share), (_, runs) in chosen.items():
        curve = runs[0]["curve"]
        for axis, key in zip(axes, ("seconds", "step", "gigabytes")):
            axis.plot([p[key] for p in curve], [p["loss"] for p in curve],
                      label=f"{method}{f', 1/{share}' if share else ''}")
            axis.set_xlabel("gigabytes of gradients" if key == "gigabytes"
                            else key)
    axes[2].set_xscale("log")
    axes[0].set_ylabel("validation loss")
    axes[1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(os.path.join(folder, f"{name}.svg"),
                   metadata={"Date": None})
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--data", default="../shared")
    parser.add_argument("--tasks", default="sst2,c_source")
    parser.add_argument("--methods", default=";".join(METHODS))
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--dropout", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="time_to_target")
    options = parser.parse_args()
    for kind, known, between in (("tasks", TASKS, ","),
                                 ("methods", METHODS, ";")):
        for name in getattr(options, kind).split(between):
            if name not in known:
                sys.exit(f"--{kind}: {name} is none of "
                         f"{between.join(known)}")
    data = os.path.abspath(os.path.join(options.data, "data"))
    os.makedirs(options.out, exist_ok=True)
    results = Results(os.path.join(options.out, "results.jsonl"))
    text = []
    with tempfile.TemporaryDirectory(prefix="time_to_target_data_") as work:
        cache = os.path.join(work, "cache")
        os.makedirs(cache)
        for name in options.tasks.split(","):
            task = TASKS[name](data, work)
            if options.dropout is not None:
                task["model"].pop("dropoutOff", None)
                task["model"]["dropout"] = options.dropout
            chosen = measure_task(options, name, task, results, cache)
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
