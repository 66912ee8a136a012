"""Trains tasks by several methods and compares loss, size and time.

Called by time_to_target.sh, which says what the arguments mean. Every method
has one learning rate, searched over the same multiples of its default with seed
1 (Muon's and AdamW's together, where a method has both): three, and up to two
more beyond the first or last while that is the best; the best one is used for
the other seeds. If a model learns nothing at that rate with one of them, the
next best rate is taken, and if no rate serves all of them, the one with the
lowest mean loss. A method that can be had at any size is searched at
each size. The target of a task is the tuned dense model's loss with the same
seed plus 0.05 nats. Seconds are the processor time of a run, all threads
together, from its first step on: other work on the machine hardly changes them.
"""
import argparse
import concurrent.futures
import os
import sys
import tempfile

import bench_tasks
from bench_methods import METHODS, WHOLE, make_spec, suits
from trainer_runs import (Results, final, learnt_nothing, loss_after,
                          parameters, run, seconds_to, spread)

SEARCH = (0.3, 1, 3)
WIDER = 3  # how much further a search goes where its best is the first or last
MOST_WIDER = 2  # how often
SHARES = (5, 20, 80)  # the sizes: this fraction of the dense model's
TARGET_MARGIN = 0.05  # nats above the dense model


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
                 options.dropout, options.decay),
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

    def of_seeds(kind, factor):
        return factor, [searches[kind][factor]] + [
            measure(*kind, kinds[kind], factor, seed)
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
        runs[kind] = of_seeds(kind, best)
    for kind, tried in searches.items():
        # Rates at which the first seed learns something, the best first.
        others = sorted((f for f in tried if f != runs[kind][0]
                         and not learnt_nothing(tried[f].result())),
                        key=lambda factor: final(tried[factor].result()))
        attempts = [runs[kind]]
        while others and any(learnt_nothing(r.result())
                             for r in attempts[-1][1]):
            attempts.append(of_seeds(kind, others.pop(0)))
        if any(learnt_nothing(r.result()) for r in attempts[-1][1]):
            # No rate serves all seeds.
            attempts.sort(key=lambda attempt: -sum(
                final(r.result()) for r in attempt[1]))
        runs[kind] = attempts[-1]
    return {kind: (best, [r.result() for r in seeds])
            for kind, (best, seeds) in runs.items()}


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
    # Click models report both.
    metric = "AUC" if name == "clicks" else "accuracy"
    lines += ["| size | method | parameters | loss | minus dense's | "
              f"{metric} | loss after {equal:.0f} s | seconds to dense's + 0.05 "
              "| seconds in all | rate x |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    for (method, share), (factor, runs) in sorted(
            chosen.items(), key=lambda c: (
                c[0][1] or 0, sum(map(final, c[1][1])) / len(c[1][1]))):
        last = [r["curve"][-1] for r in runs]
        quality = [p[metric.lower()] for p in last
                   if p[metric.lower()] is not None]
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
    parser.add_argument("--decay", default="LINEAR", type=str.upper,
                        choices=("NONE", "LINEAR", "COSINE", "WSD"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="time_to_target")
    options = parser.parse_args()
    for kind, known, between in (("tasks", bench_tasks.TASKS, ","),
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
            task = bench_tasks.TASKS[name](data, work)
            task["decay"] = options.decay
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
