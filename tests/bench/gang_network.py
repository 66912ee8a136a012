"""Seconds of a gang's steps behind a network of a given speed.

Every member is a real comera-trainer in a network namespace of its own, joined to
the others by a bridge that lets it send so many bits a second. The ways to sum
gradients take turns, so that a machine that slows down slows all of them.
"""
import argparse
import gzip
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

# A prefix of addresses and names that nothing else should have.
NET = "10.213.77"
NAME = "cmrgn"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Network:
    def __init__(self, members, mbit):
        self.members = members
        self.close()
        ip("link", "add", NAME, "type", "bridge")
        ip("link", "set", NAME, "up")
        for i in range(members):
            space, inside, outside = f"{NAME}{i}", "eth0", f"{NAME}v{i}"
            ip("netns", "add", space)
            ip("link", "add", outside, "type", "veth", "peer", "name", inside,
               "netns", space)
            ip("link", "set", outside, "master", NAME, "up")
            ip("-n", space, "addr", "add", f"{NET}.{i + 1}/24", "dev", inside)
            ip("-n", space, "link", "set", inside, "up")
            ip("-n", space, "link", "set", "lo", "up")
            # A burst of about a millisecond, as a network card's queue.
            burst = max(65536, int(mbit * 1e6 / 8 / 1000))
            subprocess.run(
                ["tc", "-n", space, "qdisc", "add", "dev", inside, "root", "tbf",
                 "rate", f"{mbit}mbit", "burst", str(burst), "latency", "50ms"],
                check=True)

    def close(self):
        commands = [["link", "del", NAME]]
        for i in range(self.members):
            commands += [["link", "del", f"{NAME}v{i}"],
                         ["netns", "del", f"{NAME}{i}"]]
        for command in commands:
            subprocess.run(["ip", *command], check=False,
                           stderr=subprocess.DEVNULL)


def job(options, folder):
    """The job file as JSON, with what the measurement needs."""
    data = os.path.join(options.data, "code", "csn_ruby_valid.jsonl.gz")
    # The end of a run validates on the whole set.
    few = os.path.join(folder, "validation.jsonl")
    with gzip.open(data, "rt", encoding="utf-8") as lines, \
            open(few, "w", encoding="utf-8") as out:
        out.writelines(itertools.islice(lines, 8))
    settings = {
        "data.max_length": options.length, "data.jsonl.train": data,
        "data.jsonl.validation": few,
        "data.tokenizer.train_vocabulary_size": 8192,
        "objective.early.steps": options.steps, "training.phases": "[]",
        "training.batch_size": options.members * options.batch,
        "training.report_every_steps": 1,
        "training.validate_every_steps": options.steps,
        "training.validation_samples": options.members,
        "training.compress_gradients":
            "true" if options.compress else "false",
    }
    sets = [each for name, value in settings.items()
            for each in ("--set", f"{name}={value}")]
    printed = subprocess.run(
        [options.cli, "validate", options.job, "--print", "-o", "json", *sets],
        check=True, capture_output=True, text=True).stdout
    return json.loads(printed)


def run(options, spec, bucket_mib, cache):
    """The seconds of every step but the first few, on member 0."""
    work = tempfile.mkdtemp(prefix="gang_network_")
    os.mkdir(os.path.join(work, "meet"))
    processes = []
    for rank in range(options.members):
        own = os.path.join(work, str(rank))
        os.mkdir(own)
        task = {"job": "bench", "attempt": 1, "spec": spec, "rank": rank,
                "worldSize": options.members, "localWorldSize": 1,
                "threads": options.threads, "device": "CPU",
                "rendezvousDir": os.path.join(work, "meet"), "workDir": own,
                "cacheDir": cache, "host": f"{NET}.{rank + 1}"}
        path = os.path.join(own, "task.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(task, out)
        processes.append(subprocess.Popen(
            ["ip", "netns", "exec", f"{NAME}{rank}", options.trainer,
             f"--task={path}", f"--bucket_mib={bucket_mib}"],
            stdout=subprocess.DEVNULL if rank else subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True))
    seconds, loss, sent = [], 0.0, 0
    try:
        for line in processes[0].stdout:
            event = json.loads(line)
            if "failure" in event:
                raise SystemExit(f"gang_network: {event['failure']}")
            metrics = event.get("metrics", {})
            if "samples_per_second" in metrics:
                seconds.append(spec["training"]["batch_size"] /
                               float(metrics["samples_per_second"]))
                loss = float(metrics["loss"])
                sent = int(metrics["synchronized_bytes"])
        for process in processes:
            if process.wait() != 0:
                raise SystemExit("gang_network: a member ended with "
                                 f"{process.returncode}")
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(work, ignore_errors=True)
    # The first steps make their memory, and the last one validates.
    return seconds[2:-1], loss, sent


def main():
    parser = argparse.ArgumentParser(
        prog="tests/bench/gang_network.sh", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cli", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--job", default="docs/examples/codebert_large.yaml")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="per member")
    parser.add_argument("--batch", type=int, default=4,
                        help="samples per member and step")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--mbit", default="1000,10000",
                        help="what a member may send, in Mbit/s")
    parser.add_argument("--bucket_mib", default="0,32",
                        help="least sizes of a bucket; 0: one sum at the end")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--compress", action="store_true",
                        help="training.compress_gradients")
    options = parser.parse_args()
    # The end of the program takes down the network and the members.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    buckets = [int(each) for each in options.bucket_mib.split(",")]
    cache = tempfile.mkdtemp(prefix="gang_network_cache_")
    spec = job(options, cache)
    print("Mbit/s  bucket MiB  median s  fastest s  sent MiB  last loss")
    try:
        for mbit in (int(each) for each in options.mbit.split(",")):
            found = {bucket: [] for bucket in buckets}
            last = {}
            network = Network(options.members, mbit)
            try:
                for _ in range(options.rounds):
                    for bucket in buckets:
                        seconds, loss, sent = run(options, spec, bucket, cache)
                        found[bucket] += seconds
                        last[bucket] = loss, sent
            finally:
                network.close()
            for bucket, seconds in found.items():
                loss, sent = last[bucket]
                print(f"{mbit:>6}{bucket:>12}{statistics.median(seconds):>10.3f}"
                      f"{min(seconds):>11.3f}{sent / 2**20:>10.0f}{loss:>11.5f}",
                      flush=True)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    main()
