"""Compares the spectra of layers before and after training.

Called by layer_spectra.sh. The task is c_source of time_to_target.py, each
method at its default rates. The effective rank of W is exp of the entropy of
its singular values, each divided by their sum (Roy and Vetterli, 2007); the
condition is the largest singular value over the smallest of those that the
layer's rank allows.
"""
import argparse
import concurrent.futures
import copy
import json
import os
import shutil
import sys
import tempfile

import torch

import comera.torch
import bench_methods
import bench_tasks
import trainer_runs

RANK = 32
METHODS = {
    "comera": lambda spec: bench_methods.comera(spec, RANK),
    "dense": bench_methods.dense,
    "dense, Muon": lambda spec: bench_methods.dense(spec, "MUON"),
}


def trained(options, task, method, steps, cache):
    """The model's dense weights by name, and its last validation loss."""
    work = tempfile.mkdtemp(prefix="layer_spectra_")
    spec = copy.deepcopy({k: task[k] for k in ("model", "data")})
    spec["objective"] = {"kind": "PARETO",
                         "early": {"steps": steps, "gamma": 1e-4}}
    spec = METHODS[method](spec)
    spec["optimizer"].update(
        {"decay": "LINEAR", "warmupSteps": options.steps // 10})
    if steps == 1:  # the start: a step that moves nothing
        spec["optimizer"].update({f"learningRate{part}": 1e-30 for part in (
            "Cores", "Ranks", "Other", "Tables")})
    spec["training"] = {"batchSize": 32, "seed": 1,
                        "validateEverySteps": steps,
                        "validationSamples": 1024}
    spec["resources"] = {"device": "CPU", "processes": 1}
    try:
        process = trainer_runs.start(options, spec, cache, work)
        log = process.communicate()[0]
        if process.returncode != 0:
            sys.exit(f"{method}: the trainer failed: {log[-500:]}")
        losses = [event["metrics"]["validation_loss"] for event in map(
            json.loads, log.splitlines())
            if "validation_loss" in event.get("metrics", {})]
        model = comera.torch.load(os.path.join(work, "model"))
        dense = comera.torch.to_dense(model).state_dict()
        return dense, losses[-1]
    finally:
        shutil.rmtree(work, ignore_errors=True)


def figures(weight, rank):
    """Norm, largest singular value, effective rank and condition of W."""
    values = torch.linalg.svdvals(weight.double())[:rank]
    share = values / values.sum()
    entropy = -(share * share.clamp_min(1e-300).log()).sum()
    return (f"{values.norm():.2f} | {values[0]:.2f} | {entropy.exp():.1f} | "
            f"{values[0] / values[-1]:.1f}")


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="layer_spectra_data_") as work, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        task = bench_tasks.c_source(None, work)
        cache = os.path.join(work, "cache")
        os.makedirs(cache)
        runs = {(method, steps): pool.submit(trained, options, task, method,
                                             steps, cache)
                for method in METHODS for steps in (1, options.steps)}
        print("| method | layer | steps | norm | largest | effective rank | "
              "condition |")
        print("|---|---|---|---|---|---|---|")
        for (method, steps), run in runs.items():
            weights, loss = run.result()
            print(f"{method}, {steps} steps: loss {loss:.3f}",
                  file=sys.stderr, flush=True)
            for name, weight in weights.items():
                if not name.endswith(".weight") or weight.dim() != 2:
                    continue
                rank = RANK if method == "comera" else min(weight.shape)
                layer = name[:-len(".weight")].replace("encoder.", "")
                print(f"| {method} | {layer} | {steps - (steps == 1)} | "
                      f"{figures(weight, rank)} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
