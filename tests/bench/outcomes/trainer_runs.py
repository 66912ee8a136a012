"""Runs comera-trainer on a job, and keeps what its runs report."""
import json
import os
import shutil
import subprocess
import tempfile
import threading

import bench_tasks


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
    describe = () if bench_tasks.clicks_model(spec) else (
        "--describe", f"--vocabulary={bench_tasks.vocabulary(spec)}")
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


def learnt_nothing(result):
    """Whether the best constant prediction is as good, but for 1%."""
    return final(result) >= 0.99 * result.get("baseline", float("inf"))
