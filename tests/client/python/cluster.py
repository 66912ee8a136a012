"""A coordinator and a worker, real processes, for one test."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from programs import program


def write_corpus(folder):
    """Code so regular that a small model learns it at once."""
    folder.mkdir(parents=True)
    verbs = ("read", "write", "open", "close", "merge")
    nouns = ("buffer", "tensor", "socket", "record", "index")
    state = 1

    def draw(n):
        nonlocal state
        state = (state * 1664525 + 1013904223) % 2**32
        return (state >> 16) % n

    for number in range(60):
        lines = []
        for _ in range(60):
            verb, noun = verbs[draw(5)], nouns[draw(5)]
            lines += [
                f"def {verb}_{noun}(self, {noun}):",
                f"    if {noun} is None:",
                "        return None",
                f"    return self.{verb}({noun})",
                "",
            ]
        (folder / f"module_{number}.py").write_text("\n".join(lines) + "\n")


class Cluster:
    """Ends its processes when it is closed, and tells their logs on request."""

    def __init__(self, *worker_flags):
        self._worker_flags = worker_flags
        self.folder = Path(tempfile.mkdtemp(prefix="cluster.", dir=os.environ.get("TEST_TMPDIR")))
        self.corpus = self.folder / "corpus"
        write_corpus(self.corpus)
        self._processes = {}
        self.address = "127.0.0.1:0"
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def _start_all(self):
        self.start_server()
        self.start_worker()

    def start_worker(self):
        self._start(
            "worker", program("worker/comera-worker"), f"--server={self.address}",
            "--name=w", "--slots=2", "--gpus=none", "--member_lease=0",
            f"--data_dir={self.folder}/worker",
            "--data_root=/",
            f"--trainer={program('worker/trainer/comera-trainer')}",
            *self._worker_flags,
        )

    def _start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_server(self, *flags):
        """At the address it had before, if there was one."""
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        self._start(
            "server", program("server/comera-server"), f"--listen={self.address}",
            f"--port_file={port_file}", f"--data_dir={self.folder}/server", *flags,
        )
        limit = time.monotonic() + 60
        while not port_file.exists() or not port_file.read_text().strip():
            if time.monotonic() > limit or self._processes["server"].poll() is not None:
                raise RuntimeError("the coordinator did not start:\n" + self.logs())
            time.sleep(0.02)
        self.address = port_file.read_text().strip()

    def kill_server(self):
        self._processes["server"].kill()
        self._processes["server"].wait()

    def logs(self):
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )

    def close(self):
        # The worker first, so that it ends its ranks.
        for name in ("worker", "server"):
            process = self._processes.get(name)
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
