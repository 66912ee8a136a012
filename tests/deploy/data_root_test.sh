#!/usr/bin/env bash
# Whatever in deploy/ starts a worker says below which folders jobs may read its
# machine's files (--data_root), and how it speaks to other workers, so that
# nothing depends on a default.
set -euo pipefail
/usr/bin/python3 - <<'PYTHON'
import pathlib
import re
import sys

import yaml

# Flags follow the image's name; without any, jobs read uploaded datasets only.
WITHOUT_FLAGS = {"container/Containerfile"}
root = pathlib.Path("deploy")
starts, problems = set(), []


def check(path, flags):
    starts.add(str(path))
    if "--data_root=" not in flags:
        problems.append(f"{path}: starts a worker without --data_root")
    if "--address=" in flags and "--cert=" not in flags and (
            "--insecure_peers" not in flags):
        problems.append(f"{path}: a worker with an --address has neither a "
                        "certificate nor --insecure_peers")


def containers(item):
    if isinstance(item, dict):
        yield from item.get("containers") or []
        item = item.values()
    elif not isinstance(item, list):
        return
    for one in item:
        yield from containers(one)


files = [path for path in root.rglob("*") if path.is_file()]
for file in files:
    path = file.relative_to(root)
    text = file.read_text(errors="replace")
    if path.suffix == ".yaml":
        for item in yaml.safe_load_all(text):
            for container in containers(item):
                if container.get("name") == "worker":
                    check(path, "\n".join(container.get("args", [])))
    elif path.suffix == ".service":
        if re.search(r"^ExecStart=\S*comera-worker ", text, re.M):
            variable = re.search(r"\$(COMERA_\w+)", text)[1]
            env = (file.parent / "worker.env").read_text()
            # What is set, and the example.
            lines = re.findall(rf"^(?:# )?{variable}=\"[^\"]*\"", env, re.M)
            if len(lines) != 2:
                problems.append(f"{path}: {len(lines)} settings in worker.env")
            for one in lines:
                check(path, one)
    elif path.suffix == ".sh":
        # A command, not a word of a text, a file's name or a package's.
        code = re.sub(r"^\s*#.*", "", text, flags=re.M)
        if re.search(r"^\s*(exec |srun )?(\S*/)?comera-worker ", code, re.M):
            check(path, code)
    elif "Containerfile" in path.name:
        if re.search(r'^ENTRYPOINT \["\S*comera-worker"', text, re.M):
            starts.add(str(path))
            if str(path) not in WITHOUT_FLAGS:
                problems.append(f"{path}: starts a worker")

expected = {"container/Containerfile", "kubernetes/worker/worker.yaml",
            "kubernetes/worker-gpu/gpu.yaml", "slurm/comera_workers.sh",
            "systemd/comera-worker.service"}
if not expected <= starts:
    problems.append(f"not recognised: {sorted(expected - starts)}")
for problem in problems:
    print(problem)
print(f"{len(starts)} of {len(files)} files start workers: {sorted(starts)}")
sys.exit(bool(problems))
PYTHON
