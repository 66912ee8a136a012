"""Trains variants of two-core tensor trains in PyTorch and compares losses.

Called by tt_variants.sh, which says what the arguments mean. Every variant is
one change to the baseline. One number of each is searched with seed 1, the
cores' rate unless the variant says otherwise; the best one is used for the
other seeds. Runs that fall behind are given up after a third of their steps.
Seconds are the processor time of the steps alone, on one thread.
"""
import argparse
import math
import os
import sys

import torch

import trainer_runs
import tt_corpus
import tt_prototype
from tt_training import RANKS, VALIDATION, VARIANTS, Run

# Nats above the lowest loss of the search so far, after a third of the steps;
# and above the baseline's at the end, where other seeds are not worth a run.
GIVE_UP = 0.3


def final(result):
    return result["curve"][-1]["loss"] if result["finished"] else math.inf


def measure(options, name, corpus, results, most):
    """(results by factor, best factor, results of its seeds), if there are any.

    `most`: a loss with seed 1 above which the other seeds are left out.
    """
    variant = VARIANTS[name]
    if options.factors:
        variant.factors = tuple(map(float, options.factors.split(",")))

    def one(factor, seed, give_up=math.inf):
        key = (options.task, options.vocabulary, name, round(factor, 3), seed,
               options.steps, options.batch)
        result = results.get(key, lambda: None if options.report else Run(
            variant, factor, seed, options, corpus).run(give_up))
        if result:
            print(f"{name}, factor {factor:.3g}, seed {seed}: "
                  f"{final(result):.4f}, {result['seconds_per_step']:.4f} s, "
                  f"{result['parameters']:,}, " + " ".join(
                      f"{p['loss']:.3f}" for p in result["curve"]),
                  file=sys.stderr, flush=True)
        return result

    tried, lowest = {}, math.inf
    for factor in variant.factors:
        result = one(factor, 1, lowest + GIVE_UP)
        if result:
            tried[factor] = result
            lowest = min([lowest] + [p["loss"] for p in result["curve"]
                                     if p["step"] == options.steps // 3])
    if not tried:
        return None
    best = min(tried, key=lambda f: final(tried[f]))
    if final(tried[best]) > most:
        return tried, best, [tried[best]]
    others = [one(best, seed) for seed in range(2, options.seeds + 1)]
    return tried, best, [tried[best]] + [run for run in others if run]


def differences(measured, name):
    """Losses minus the baseline's, seed by seed."""
    return [final(run) - final(base) for run, base in zip(
        measured[name][-1], measured["baseline"][-1])]


def brief(values, sign=""):
    """Mean and spread; of one value, that."""
    mean, deviation = trainer_runs.spread(values)
    return f"{mean:{sign}.3f}" + (
        f" ± {deviation:.3f}" if len(values) > 1 else "")


def table(measured):
    lines = ["| variant | parameters | rates tried | loss | minus baseline's, "
             "by seed | mean | seconds per step |",
             "|---|---|---|---|---|---|---|"]
    for name, (tried, best, runs) in measured.items():
        beside = (differences(measured, name) if "baseline" in measured
                  else [])
        factors = [f"**{f:.3g}**" if f == best else f"{f:.3g}"
                   for f in sorted(tried)]
        lines.append(" | ".join([
            f"| {VARIANTS[name].about}", f"{runs[0]['parameters']:,}",
            ", ".join(factors), brief([final(r) for r in runs]),
            ", ".join(f"{d:+.3f}" for d in beside),
            brief(beside, "+") if beside else "",
            "{:.3f} |".format(trainer_runs.spread(
                [r["seconds_per_step"] for r in runs])[0])]))
    return "\n".join(lines)


def plot(measured, path):
    """Each seed's loss minus the baseline's, a row for each variant."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "comera"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot
    names = [n for n in measured if n not in ("baseline", "dense")
             and math.isfinite(final(measured[n][-1][0]))]
    names.sort(key=lambda n: -trainer_runs.spread(
        differences(measured, n))[0])
    figure, axis = pyplot.subplots(figsize=(8, 1 + 0.35 * len(names)))
    for row, name in enumerate(names):
        for seed, difference in enumerate(differences(measured, name)):
            axis.plot(difference, row, "osD"[seed % 3], color=f"C{seed % 3}",
                      label=f"seed {seed + 1}" if row == 0 else None)
    axis.axvline(0, color="gray", linewidth=1)
    axis.set_yticks(range(len(names)))
    axis.set_yticklabels([VARIANTS[n].about for n in names], fontsize=8)
    axis.set_xlabel("validation loss minus the baseline's")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--comera", required=True)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--factors", help="instead of the variant's own")
    parser.add_argument("--task", choices=("causal", "masked"),
                        default="causal")
    parser.add_argument("--vocabulary", type=int, choices=tuple(RANKS),
                        default=2048)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--report", action="store_true",
                        help="only what is in the folder; measures nothing")
    parser.add_argument("--out", default="tt_variants")
    options = parser.parse_args()
    for name in options.variants.split(","):
        if name not in VARIANTS:
            sys.exit(f"--variants: {name} is none of {', '.join(VARIANTS)}")
    torch.set_num_threads(1)
    folder = os.path.join(options.out, f"data{options.vocabulary}")
    tt_corpus.prepare(folder, options.vocabulary, options.comera,
                      options.trainer)
    corpus = tt_corpus.Corpus(folder, tt_prototype.LENGTH, VALIDATION,
                              options.task == "causal")
    print(f"unigram loss {corpus.unigram_loss():.3f}", file=sys.stderr)
    results = trainer_runs.Results(
        os.path.join(options.out, "results.jsonl"))
    measured = {}
    for name in options.variants.split(","):
        most = (final(measured["baseline"][-1][0]) + GIVE_UP
                if "baseline" in measured else math.inf)
        result = measure(options, name, corpus, results, most)
        if result:
            measured[name] = result
        with open(os.path.join(options.out, "table.md"), "w",
                  encoding="utf-8") as out:
            out.write(table(measured) + "\n")
    if "baseline" in measured:
        plot(measured, os.path.join(options.out, "tt_variants.svg"))
    print(table(measured))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")
