#!/usr/bin/env python3
"""Runs the GPU benchmarks one after the other until done or out of time.

    bench.py --programs=DIR --out=DIR [--launcher=PROGRAM] [--seconds=520]
             [--python=python3]

Our programs are started by the launcher (deploy/with_cuda.sh), PyTorch is not:
it brings its own libraries.

Writes bench.json and bench.md (bench_report.py) after every program, so that an
interrupted run leaves what it measured. What failed, and what the time did not
suffice for, stands in both. Exits 1 if nothing of ours could be measured.
"""
import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time

import bench_report

HERE = os.path.dirname(os.path.abspath(__file__))
BATCHES = [32, 128, 1, 64]
METHODS = ["comera", "dense"]
MODES = "eager,graph"
LARGE = ["--model=codebert_large", "--set=data.max_length=128"]


class Program:
    """A program to run: its output lines are JSON objects, or all of its output
    is one (`whole`)."""

    def __init__(self, kind, name, command, seconds, whole=False):
        self.kind = kind  # the list of the results that it adds to
        self.name = name
        self.command = command
        self.seconds = seconds
        self.whole = whole


def plan(programs, launcher, python):
    """What is run, the most important first."""

    def start(name):
        return launcher + [os.path.join(programs, "tests/bench", name)]

    def ours(model, method, batch, precision, seconds, modes=MODES, flags=()):
        return Program(
            "steps", " ".join([f"{model[0].split('=')[1]} {method} batch "
                               f"{batch} {precision}", *flags]),
            [*start("step"), *model, f"--method={method}", f"--batch={batch}",
             f"--precision={precision}", "--device=cuda", f"--modes={modes}",
             "--steps=20", "--json", *flags], seconds)

    def overlapped(model, batch):
        return ours(model, "comera", batch, "bf16", 25, "graph",
                    ["--overlap_launches"])

    # Its first step takes minutes: singular vectors, on the host.
    def galore(model, batch, precision):
        return ours(model, "galore", batch, precision, 150, "graph")

    def pytorch(model, batches, precisions, mode, seconds):
        command = [python, os.path.join(HERE, "pytorch_dense.py"),
                   f"--model={model}", f"--batches={batches}",
                   f"--precisions={precisions}"]
        if mode:
            command.append(f"--compile={mode}")
        return Program("steps", f"PyTorch {model} batch {batches} {precisions} "
                       f"{mode or 'eager'}", command, seconds)

    def operations(model, batch, precision):
        return Program(
            "operations", f"operations of {model[0].split('=')[1]} batch "
            f"{batch} {precision}",
            [*start("step"), *model, "--method=comera", f"--batch={batch}",
             f"--precision={precision}", "--device=cuda", "--steps=3",
             "--operations", "--json"], 25)

    def kernels(precision, only):
        command = [*start("ops"), "--device=cuda", f"--precision={precision}",
                   "--benchmark_format=json", "--benchmark_min_time=0.02",
                   f"--benchmark_filter={only}"]
        return Program("kernels", f"kernels {precision}", command, 60, True)

    six = ["--model=six_encoder"]
    batches = ",".join(str(batch) for batch in BATCHES)
    todo = [Program("ceilings", "ceilings", start("device_ceilings"), 40)]
    todo += [ours(six, method, batch, "bf16", 25)
             for method in METHODS for batch in BATCHES]
    todo += [overlapped(six, batch) for batch in (1, 32, 128)]
    todo += [ours(LARGE, "comera", 64, "bf16", 40), overlapped(LARGE, 64),
             ours(LARGE, "dense", 64, "bf16", 40),
             pytorch("codebert_large", "64", "bf16", "", 40),
             pytorch("six_encoder", batches, "bf16,tf32,fp32", "", 60),
             pytorch("six_encoder", "32,64,128", "bf16", "default", 120),
             pytorch("codebert_large", "64", "bf16", "default", 90),
             operations(LARGE, 64, "bf16"), operations(six, 128, "bf16"),
             galore(six, 1, "bf16"),
             kernels("bf16", "-Peak|Stream|GemmBf16|HiddenFfn")]
    todo += [ours(six, method, batch, "tf32", 25)
             for method in METHODS for batch in BATCHES]
    todo += [pytorch("six_encoder", "1", "bf16", "reduce-overhead", 60),
             kernels("tf32", "Gemm/|RankSpace|Attention"),
             galore(six, 32, "bf16")]
    todo += [ours(six, method, batch, "fp32", 25)
             for method in METHODS for batch in BATCHES]
    todo += [kernels("fp32", "Gemm/|RankSpace|Attention"),
             ours(LARGE, "comera", 64, "tf32", 40),
             ours(LARGE, "dense", 64, "tf32", 40),
             pytorch("codebert_large", "64", "tf32", "", 40),
             pytorch("six_encoder", "32,128", "tf32", "default", 90)]
    return todo


def read_lines(pipe, lines):
    for line in pipe:
        lines.put(line)
    lines.put(None)


def last_line(lines):
    """The last that says something, once all have come."""
    last = ""
    try:
        # A child of the program may hold the pipe open.
        while (line := lines.get(timeout=2)) is not None:
            last = line.strip() or last
    except queue.Empty:
        pass
    return last


def run(program, seconds):
    """The JSON objects that it printed within `seconds`, and what went wrong
    ("" if nothing)."""
    try:
        process = subprocess.Popen(program.command, text=True,
                                   stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
    except OSError as error:
        return [], str(error)
    # On threads of their own, so that a hanging program costs its time only,
    # and the rows before the hang count.
    lines, errors = queue.Queue(), queue.Queue()
    for pipe, to in ((process.stdout, lines), (process.stderr, errors)):
        threading.Thread(target=read_lines, args=(pipe, to),
                         daemon=True).start()
    end = time.monotonic() + seconds
    text, problem = [], ""
    try:
        while (line := lines.get(
                timeout=max(0.01, end - time.monotonic()))) is not None:
            text.append(line)
        process.wait(timeout=max(0.01, end - time.monotonic()))
    except (queue.Empty, subprocess.TimeoutExpired):
        process.kill()
        process.wait()
        problem = f"stopped after {seconds:.0f} s"
    rows = []
    for piece in (["".join(text)] if program.whole else text):
        try:
            rows.append(json.loads(piece))
        except ValueError:
            continue  # not a row: a note of some library
    if not problem and process.returncode:
        problem = (last_line(errors) or
                   f"exit status {process.returncode}")
    if not problem and not rows:
        problem = "printed nothing"
    return rows, problem


def add(results, program, rows):
    for row in rows:
        if program.kind == "ceilings":
            results["ceilings"] = row
        elif program.kind == "operations":
            results["operations"].append(row)
        elif program.kind == "kernels":
            precision = row.get("context", {}).get("precision", "")
            for each in row.get("benchmarks", []):
                results["kernels"].append({"precision": precision, **each})
        elif "error" in row:
            results["missing"].append(
                {"name": f"{program.name}: batch {row.get('batch')} "
                 f"{row.get('precision')}", "why": row["error"]})
        else:
            results["steps"].append(row)


def write(results, out):
    for name, text in (("bench.json", json.dumps(results, indent=1) + "\n"),
                       ("bench.md", bench_report.markdown(results))):
        path = os.path.join(out, name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)


def has_pytorch(python):
    return subprocess.run(
        [python, "-c", "import torch, sys; "
         "sys.exit(0 if torch.cuda.is_available() else 1)"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--launcher", default="")
    parser.add_argument("--seconds", type=float, default=520)
    parser.add_argument("--python", default="python3")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds
    results = {"started": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
               "ceilings": {}, "steps": [], "operations": [], "kernels": [],
               "missing": []}
    launcher = [args.launcher] if args.launcher else []
    pytorch = has_pytorch(args.python)
    if not pytorch:
        results["missing"].append(
            {"name": "PyTorch", "why": f"{args.python} has no PyTorch with "
             "CUDA: nothing to compare with"})
    for program in plan(args.programs, launcher, args.python):
        if program.command[0] == args.python and not pytorch:
            continue
        left = end - time.monotonic()
        if left < min(5, program.seconds):
            results["missing"].append({"name": program.name,
                                       "why": "the time was up"})
            continue
        begin = time.monotonic()
        rows, problem = run(program, min(left, program.seconds))
        add(results, program, rows)
        if problem:
            results["missing"].append({"name": program.name, "why": problem})
        print(f"{program.name}: {time.monotonic() - begin:.1f} s"
              f"{', ' + problem if problem else ''}", file=sys.stderr,
              flush=True)
        write(results, args.out)
    write(results, args.out)
    if not any(not row["method"].startswith("PyTorch")
               for row in results["steps"]):
        print("bench.py: no step of ours was measured", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
