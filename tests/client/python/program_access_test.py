"""Attacks by programs and for them: users who may run none, workers that run none, and
a program that looks for what is not its own."""

import subprocess
import unittest

import comera
from cluster import Cluster
from programs import program

# Prints what it can read of the files that it is given, and what it finds in its
# environment.
SPY = """
import os, sys
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            print("READ", path, file.read(100))
    except OSError as error:
        print("CLOSED", path, error.strerror)
for name, value in os.environ.items():
    if "comera_" in value:
        print("TOKEN", name)
"""


class GuardedCluster(Cluster):
    """A coordinator that asks for tokens, and a worker whose flags a test chooses."""

    def _start_all(self):
        self.admin = self.folder / "admin.token"
        self.start_server(f"--init_admin_token_file={self.admin}")
        self.worker_token = self.folder / "worker.token"
        self.worker_token.write_text(self.token("w", "--worker"))
        self.user_token = self.token("ann", "--role", "user")
        self._worker_flags += (f"--token_file={self.worker_token}",)

    def command(self, *arguments, token=None):
        done = subprocess.run(
            [program("client/comera"), *arguments, "--server", self.address,
             "--token-file", token or self.admin],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        )
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done.stdout.strip()

    def token(self, name, *arguments):
        return self.command("token", "create", "--name", name, *arguments)


def job(**more):
    return {
        "program": {"entry": "spy.py", "files": "datasets/spy", **more},
        "resources": {"device": "cpu", "processes": 1},
        "retries": {"infrastructure": 0},
    }


class ProgramAccessTest(unittest.TestCase):
    def start(self, *worker_flags):
        cluster = GuardedCluster(*worker_flags)
        self.addCleanup(cluster.close)
        cluster.start_worker()
        user = comera.Client(cluster.address, token=cluster.user_token)
        self.addCleanup(user.close)
        code = cluster.folder / "spy"
        code.mkdir()
        (code / "spy.py").write_text(SPY)
        user.upload_dataset("spy", code)
        return cluster, user

    def test_users_run_none_until_their_queue_lets_them(self):
        cluster, user = self.start("--allow_programs")
        sweep = {
            **job(),
            "sweep": {"grid": {"fields": {"program.environment.A": ["1", "2"]}}},
        }
        # The job names no program; a run of the list makes one of it.
        entry = {"program.entry": "spy.py", "program.files": "datasets/spy"}
        turned = {"queue": "default", "sweep": {"list": [{"fields": entry}]}}
        for attempt in (
            lambda: user.submit(job()),
            lambda: user.validate(job()),
            lambda: user.submit_sweep(sweep),
            lambda: user.submit_sweep(turned),
        ):
            with self.assertRaisesRegex(comera.PermissionDeniedError, "--programs user"):
                attempt()
        self.assertEqual(list(user.list()), [])
        # Nor can the user change that.
        with self.assertRaisesRegex(RuntimeError, "may not administer"):
            user_file = cluster.folder / "user.token"
            user_file.write_text(cluster.user_token)
            cluster.command(
                "queues", "update", "default", "--programs", "user", token=user_file
            )
        cluster.command("queues", "update", "default", "--programs", "user")
        self.assertEqual(user.submit(job()).wait(timeout=60).state, "SUCCEEDED")
        # A queue that lets them no more lets them resume nothing either.
        stopped = user.submit(job(arguments=["/dev/null"]))
        stopped.pause()
        cluster.command("queues", "update", "default", "--programs", "admin")
        with self.assertRaisesRegex(comera.PermissionDeniedError, "--programs user"):
            stopped.resume()

    def test_a_worker_runs_none_unless_its_operator_says_so(self):
        cluster, user = self.start()
        cluster.command("queues", "update", "default", "--programs", "user")
        waiting = user.submit(job())
        self.assertIn("--allow_programs", user.explain(waiting).reason)
        self.assertEqual(waiting.refresh().state, "QUEUED")

    def test_a_program_reaches_what_is_its_own(self):
        cluster, user = self.start(
            "--allow_programs", "--data_root=/", "--member_landlock=on"
        )
        cluster.command("queues", "update", "default", "--programs", "user")
        secrets = [
            cluster.worker_token, cluster.admin, cluster.folder / "worker.log",
            cluster.folder / "server/comera.db", "/etc/shadow",
        ]
        done = user.submit(job(arguments=[str(path) for path in secrets]))
        done.wait(timeout=60)
        told = "".join(line for line in cluster.command("logs", done.name).splitlines(True))
        if "this kernel has no Landlock" in (cluster.folder / "worker.log").read_text():
            self.skipTest("this kernel has no Landlock")
        for path in secrets:
            self.assertNotIn(f"READ {path}", told)
        self.assertIn(f"CLOSED {cluster.worker_token}", told)
        self.assertNotIn("TOKEN", told)

    def test_its_folders_are_checked_as_data_are(self):
        cluster, user = self.start("--allow_programs")
        cluster.command("queues", "update", "default", "--programs", "user")
        for field in ("files", "data"):
            spec = job()
            path = str(cluster.folder / "worker")
            spec["program"][field] = path if field == "files" else {"stolen": path}
            refused = user.submit(spec).wait(timeout=60, check=False)
            self.assertEqual(refused.state, "FAILED")
            self.assertIn("not below a folder", refused.failure.message)


if __name__ == "__main__":
    unittest.main()
