"""Trains one task at several widths and ranks with the same learning rates.

Called by rate_transfer.sh. The task is c_source of time_to_target.py with a
small vocabulary, so that the layers and not the tables make the model; the
rate is that of Muon, all others have their defaults.
"""
import argparse
import concurrent.futures
import copy
import os
import sys
import tempfile

import bench_methods
import bench_tasks
import trainer_runs

WIDTHS = (128, 256, 512, 1024)
RANKS = (8, 32, 128)
# Every width at this rank, every rank at this width.
RANK, WIDTH = 32, 256
RATES = (0.0025, 0.005, 0.01, 0.02)


def spec_of(task, width, rank, rate, steps):
    task = copy.deepcopy(task)
    task["steps"] = steps
    task["batch"] = 16
    task["model"].update(hidden=width, ffn=4 * width, heads=width // 32)
    task["data"]["tokenizer"] = bench_tasks.byte_bpe(1024)
    spec = bench_methods.make_spec(task, "comera", rank, 1, 1, 1)
    spec["optimizer"]["learningRateCores"] = rate
    return spec


def numbers(text):
    return [int(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--widths", type=numbers, default=WIDTHS)
    parser.add_argument("--ranks", type=numbers, default=RANKS)
    options = parser.parse_args()
    kinds = sorted({(w, RANK) for w in options.widths} |
                   {(WIDTH, r) for r in options.ranks})
    with tempfile.TemporaryDirectory(prefix="rate_transfer_") as work, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        task = bench_tasks.c_source(None, work)
        cache = os.path.join(work, "cache")
        os.makedirs(cache)

        def job(width, rank, rate):
            result = trainer_runs.run(
                options, spec_of(task, width, rank, rate, options.steps),
                cache)
            loss = trainer_runs.final(result)
            print(f"width {width}, rank {rank}, rate {rate}: {loss:.3f} "
                  f"{result.get('failure', '')}", file=sys.stderr, flush=True)
            return result

        runs = {(kind, rate): pool.submit(job, *kind, rate)
                for kind in kinds for rate in RATES}
        print("| width | rank | parameters | " + " | ".join(
            f"loss at {rate}" for rate in RATES) + " |")
        print("|---|---|---|" + "---|" * len(RATES))
        for kind in kinds:
            results = [runs[kind, rate].result() for rate in RATES]
            sizes = {r["curve"][0]["parameters"] for r in results}
            print(f"| {kind[0]} | {kind[1]} | {max(sizes):,} | " + " | ".join(
                f"{trainer_runs.final(r):.3f}" for r in results) + " |")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
