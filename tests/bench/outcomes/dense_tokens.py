"""Trains language models of one size with more and more dense rows.

Called by dense_tokens.sh, which says what the arguments mean.
"""
import argparse
import concurrent.futures
import os
import sys
import tempfile

import bench_methods
import bench_tasks
import trainer_runs
from time_to_target import largest_number


def spec_of(task, rank, tokens, rate, seed, scale):
    spec = bench_methods.make_spec(task, "comera, tied", rank, 1, seed, scale)
    if tokens:
        spec["compression"]["embedding"]["denseTokens"] = tokens
        spec["optimizer"]["learningRateTables"] = rate
    return spec


def numbers(kind):
    return lambda text: [kind(part) for part in text.split(",") if part]


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--data", default="../shared")
    parser.add_argument("--task", default="c_source_lm",
                        choices=("c_source", "c_source_lm", "ruby"))
    parser.add_argument("--share", type=int, default=20)
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--decay", default="LINEAR", type=str.upper,
                        choices=("NONE", "LINEAR", "COSINE", "WSD"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tokens", type=numbers(int),
                        default=(0, 64, 256, 512, 1024))
    parser.add_argument("--rates", type=numbers(float), default=(0.01,))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    data = os.path.abspath(os.path.join(options.data, "data"))
    with tempfile.TemporaryDirectory(prefix="dense_tokens_") as work, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        task = bench_tasks.TASKS[options.task](data, work)
        task["decay"] = options.decay
        cache = os.path.join(work, "cache")
        os.makedirs(cache)
        limit = trainer_runs.parameters(options, bench_methods.make_spec(
            task, "dense", None, 1, 1, options.scale), cache) / options.share

        def job(tokens, rank, rate, seed):
            result = trainer_runs.run(options, spec_of(
                task, rank, tokens, rate, seed, options.scale), cache)
            print(f"{tokens} tokens, rank {rank}, rate {rate}, seed {seed}: "
                  f"{trainer_runs.final(result):.3f} "
                  f"{result.get('failure', '')}", file=sys.stderr, flush=True)
            return result

        rows = []
        for tokens in options.tokens:
            rank = largest_number(
                lambda r, n=tokens: trainer_runs.parameters(
                    options, spec_of(task, r, n, 1e-2, 1, options.scale),
                    cache), limit)
            if rank is None:
                sys.exit(f"{tokens} tokens: no model is as small")
            rates = options.rates if tokens else options.rates[:1]
            rows += [(tokens, rank, rate,
                      [pool.submit(job, tokens, rank, rate, seed)
                       for seed in range(1, options.seeds + 1)])
                     for rate in rates]
        print("| dense tokens | rank | parameters | their rate | loss by seed "
              "|\n|---|---|---|---|---|")
        for tokens, rank, rate, runs in rows:
            results = [run.result() for run in runs]
            print(f"| {tokens or 'none'} | {rank} | "
                  f"{results[0]['curve'][-1]['parameters']:,} | "
                  f"{rate if tokens else ''} | " + ", ".join(
                      f"{trainer_runs.final(r):.3f}" for r in results) + " |")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
