#!/usr/bin/python3
"""Submits a job, watches it to its end, loads its model into PyTorch.

    submit_watch_load.py [--server HOST:PORT] [--roots FOLDER ...] [--out FOLDER]

Trains a small masked language model on source code below folders of the
workers, by default Python's own library. Debian's python3-grpcio is enough;
the last step is left out without python3-torch. Ctrl-C leaves the job running.
"""

import argparse
import sys
import sysconfig

import comera


def job(roots, steps, target_loss):
    """A job file as a dict; a path of a .json or .yaml file does as well."""
    return {
        "display_name": "python example",
        "model": {"family": "masked_lm", "layers": 1, "hidden": 64, "heads": 4},
        "data": {
            "code_directory": {"roots": roots, "globs": ["*.py"], "max_bytes": "2MiB"},
            "tokenizer": {"kind": "byte_bpe", "train_vocabulary_size": 600},
            "max_length": 48,
        },
        "objective": {
            "early": {"steps": steps, "gamma": 0.05},
            "late": {
                "target_loss": target_loss,
                "target_ratio": 0.9,
                "max_steps": 4 * steps,
            },
        },
        "optimizer": {
            "learning_rate_cores": 0.005,
            "learning_rate_ranks": 0.01,
            "learning_rate_other": 0.005,
        },
        "training": {"batch_size": 16, "report_every_steps": 20, "validation_samples": 128},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", help="default: COMERA_SERVER, `comera login`")
    parser.add_argument("--roots", nargs="+", default=[sysconfig.get_path("stdlib")])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target-loss", type=float, default=5.6)
    parser.add_argument("--out", default="python-example-model")
    args = parser.parse_args()

    with comera.Client(args.server) as client:
        try:
            submitted = client.submit(job(args.roots, args.steps, args.target_loss))
        except comera.InvalidArgumentError as error:
            for violation in error.violations:
                print(f"{violation.field}: {violation.description}", file=sys.stderr)
            return 1
        print(submitted.name)
        try:
            for event in submitted.watch():
                if event.metrics or event.state:
                    print(event)
        except KeyboardInterrupt:
            print(f"{submitted.name} goes on", file=sys.stderr)
            return 130
        print(submitted.state, submitted.outcome, submitted.reason)
        if submitted.state != "SUCCEEDED":
            return 1

        print(f"front: {[(p.size_parameters, p.validation_loss) for p in submitted.pareto()]}")
        folder = submitted.models[-1].download(args.out)
        print(f"model: {folder}")

    try:
        from comera.torch import load
    except comera.MissingDependencyError as error:
        print(error, file=sys.stderr)
        return 0
    model = load(folder)
    print(f"{model.num_parameters():,} parameters, ranks {model.ranks()['head']}")
    for token, probability in model.fill_mask("if x is <mask>:")[0]:
        print(f"{probability:.3f} {token}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
