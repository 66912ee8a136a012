#!/usr/bin/python3
"""Runs a sweep over targets and draws its Pareto front.

    pareto_sweep.py [--server HOST:PORT] [--roots FOLDER ...] [--plot FILE]

Every run approaches another size; all share one early stage. Needs matplotlib
(Debian: python3-matplotlib) for the plot.
"""

import argparse
import sys
import sysconfig

import comera
from submit_watch_load import job


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", help="default: COMERA_SERVER, `comera login`")
    parser.add_argument("--roots", nargs="+", default=[sysconfig.get_path("stdlib")])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.9, 0.7, 0.5])
    parser.add_argument("--plot", default="front.svg")
    args = parser.parse_args()

    spec = job(args.roots, args.steps, target_loss=5.6)
    spec["sweep"] = {
        "display_name": "python example",
        "grid": {"targets": [{"target_ratio": ratio} for ratio in args.ratios]},
    }
    with comera.Client(args.server) as client:
        sweep = client.submit_sweep(spec)
        print(sweep.name)
        for event in sweep.watch():
            if event.HasField("front"):
                print(f"front: {len(event.front.points)} points")
        for run in sweep.runs:
            print(f"{run.label}: {run.job} {run.reason}")
        front = sweep.front()
    for point in front:
        print(f"{point.size_parameters:>10,} parameters, loss {point.validation_loss:.4f}")
    print(f"hyper-volume: {front.hypervolume_ratio:.4f} of the reference")
    try:
        axes = front.plot(label=sweep.name)
    except comera.MissingDependencyError as error:
        print(error, file=sys.stderr)
    else:
        axes.figure.savefig(args.plot)
        print(f"plot: {args.plot}")
    return 0 if sweep.state == "SUCCEEDED" else 1


if __name__ == "__main__":
    sys.exit(main())
