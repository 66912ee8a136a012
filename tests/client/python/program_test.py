"""Programs of users' own as jobs on real processes: plain models meet their targets in
gangs of two, and what interrupts them loses nothing."""

import os
import pwd
import shutil
import signal
import time
import unittest
from pathlib import Path

import torch

import comera
import comera.torch
import plain_models
from cluster import Cluster
from programs import TREE

TESTS = TREE / "tests/client/python"

# A program without comera.torch, of which nothing is known but its end.
SCRIPT = """
import os, sys, time
if sys.argv[1] == "fail":
    raise ValueError("no such word")
if sys.argv[1] == "wait":
    time.sleep(600)
with open(os.environ["COMERA_DATA_WORDS"]) as words, \\
        open(os.path.join(os.environ["COMERA_RUN_MODEL"], "words.txt"), "w") as copy:
    copy.write(words.read().upper())
print("colour", os.environ["COLOUR"])
"""


def programs_of(job):
    """The processes of a job's members, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        variables = dict(part.split(b"=", 1) for part in environment if b"=" in part)
        if name.startswith("python") and variables.get(b"COMERA_JOB") == job.encode():
            found[int(variables[b"RANK"])] = int(folder.name)
    return found


class ProgramTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--allow_programs")
        cls.addClassCleanup(cls.cluster.close)
        cls.client = comera.Client(cls.cluster.address)
        cls.addClassCleanup(cls.client.close)
        code = cls.cluster.folder / "code"
        # The package travels with the program, so that nothing needs installing.
        shutil.copytree(TREE / "client/python/comera", code / "comera")
        for name in ("train_program.py", "plain_models.py"):
            shutil.copy(TESTS / name, code)
        (code / "script.py").write_text(SCRIPT)
        cls.client.upload_dataset("code", code)
        words = cls.cluster.folder / "words.txt"
        words.write_text("some words")
        cls.client.upload_dataset("words", words)

    def submit(self, *arguments, entry="train_program.py", members=2, late=None, **more):
        spec = {
            "program": {
                "entry": entry, "files": "datasets/code",
                "arguments": [str(argument) for argument in arguments], **more,
            },
            "checkpoint": {"every_steps": 10},
            "resources": {"device": "cpu", "processes": members, "threads_per_process": 1},
        }
        if late:
            loss, size = late
            spec["objective"] = {
                "late": {"target_loss": loss, "target_parameters": size}
            }
        return self.client.submit(spec)

    def finished(self, job):
        job = job.wait(timeout=240, check=False)
        self.assertEqual(
            job.state, "SUCCEEDED", f"{job.reason}\n{job.failure}\n{self.log_of(job)}"
        )
        return job

    def log_of(self, job):
        return "\n".join(
            log.read_text()[-3000:]
            for log in self.cluster.folder.glob(f"worker/jobs/{job.id}/logs/*")
        )

    def events(self, job):
        return [event for event in job.watch()]

    def check_met(self, job, make, loss, size):
        self.assertEqual(job.outcome, "TARGET_MET")
        self.assertLessEqual(job.progress.validation_loss, loss)
        self.assertLessEqual(job.progress.size_parameters, size)
        # The model is the module's own state.
        folder = job.models[-1].download(self.cluster.folder / f"model-{job.id}")
        state = torch.load(folder / "model.pt", weights_only=True)
        torch.manual_seed(1)
        module = comera.torch.tensorize(make[0](), make[1], start="scratch")
        comera.torch.load_state_dict(module, state)
        self.assertEqual(comera.torch.num_parameters(module), job.progress.size_parameters)

    def test_a_cnn_meets_its_targets(self):
        job = self.finished(self.submit("convnet", "-", members=1, late=(0.2, 9600)))
        self.check_met(job, (plain_models.ConvNet, 16), 0.2, 9600)

    def test_a_gpt_meets_its_targets_as_a_gang(self):
        job = self.submit("gpt", "-", late=(2.5, 39400))
        kinds = {event.kind for event in job.watch()}
        self.assertLessEqual(
            {"run_info", "metrics", "rank_snapshot", "pareto_point", "checkpoint", "result"},
            kinds,
        )
        self.check_met(
            self.finished(job), (lambda: plain_models.Gpt(1000), 16), 2.5, 39400
        )
        info = self.info_of(job)
        self.assertEqual(info.world_size, 2)
        self.assertEqual(
            info.dense_parameters,
            sum(p.numel() for p in plain_models.Gpt(1000).parameters()),
        )

    def info_of(self, job):
        """Facts of the last attempt."""
        return [e.value for e in job.watch() if e.kind == "run_info"][-1]

    def checkpointed(self, job, step):
        """Waits until the job has saved its state after the step or a later one."""
        for event in job.watch():
            if event.kind == "checkpoint" and event.value.step >= step:
                return
        self.fail(f"ended before: {job.refresh().reason}\n{self.log_of(job)}")

    def test_a_bert_goes_on_when_a_member_is_killed(self):
        job = self.submit("bert", "-", late=(0.3, 22600))
        self.checkpointed(job, 20)
        os.kill(programs_of(job.id)[1], signal.SIGKILL)
        job = self.finished(job)
        self.check_met(job, (lambda: plain_models.Bert(1000), 12), 0.3, 22600)
        self.assertEqual(job.proto.attempt, 2)
        self.assertGreaterEqual(self.info_of(job).resumed_from_step, 20)

    def test_a_paused_job_goes_on_where_it_was(self):
        job = self.submit("convnet", "-", late=(0.2, 9600))
        self.checkpointed(job, 10)
        job.pause()
        limit = time.monotonic() + 60
        while job.refresh().state != "PAUSED":
            self.assertLess(time.monotonic(), limit, job.reason)
            time.sleep(0.05)
        self.assertEqual(programs_of(job.id), {})
        job.resume()
        job = self.finished(job)
        self.assertEqual(job.outcome, "TARGET_MET")
        # Pausing takes a checkpoint of its own: nothing is computed again.
        self.assertGreaterEqual(self.info_of(job).resumed_from_step, 10)

    def test_a_script_that_knows_nothing_of_the_service(self):
        job = self.finished(
            self.submit(
                "go", entry="script.py", members=1, environment={"COLOUR": "red"},
                data={"words": "datasets/words/words.txt"},
            )
        )
        self.assertEqual(job.outcome, "COMPLETED")
        folder = job.models[-1].download(self.cluster.folder / "words-model")
        self.assertEqual((folder / "words.txt").read_text(), "SOME WORDS")
        self.assertIn("colour red", self.log_of(job))

    def test_a_failure_names_the_exception(self):
        job = self.submit("fail", entry="script.py", members=1).wait(timeout=60, check=False)
        self.assertEqual(job.state, "FAILED")
        self.assertIn("ValueError: no such word", job.failure.message)
        self.assertEqual(job.proto.attempt, 1)

    def test_a_cancelled_program_ends(self):
        job = self.submit("wait", entry="script.py", members=1)
        limit = time.monotonic() + 60
        while not programs_of(job.id):
            self.assertLess(time.monotonic(), limit, job.refresh().reason)
            time.sleep(0.05)
        job.cancel()
        job = job.wait(timeout=60, check=False)
        self.assertEqual(job.state, "CANCELLED")
        self.assertEqual(programs_of(job.id), {})


# Says who runs it, and what it can write to.
WHO = """
import os, tempfile
with tempfile.NamedTemporaryFile() as file, \\
        open(os.path.join(os.environ["COMERA_RUN_MODEL"], "who"), "w") as who:
    print(os.getuid(), os.access(os.getcwd(), os.W_OK), file=who)
"""


@unittest.skipUnless(os.geteuid() == 0, "only root runs programs as another user")
class OtherUserTest(unittest.TestCase):
    def test_a_program_runs_as_the_members_user(self):
        cluster = Cluster("--allow_programs", "--member_user=nobody")
        self.addCleanup(cluster.close)
        # The way to the worker's folder is open to that user.
        folder = cluster.folder
        while folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
            folder = folder.parent
        with comera.Client(cluster.address) as client:
            code = cluster.folder / "who"
            code.mkdir()
            (code / "who.py").write_text(WHO)
            client.upload_dataset("who", code)
            job = client.submit(
                {
                    "program": {"entry": "who.py", "files": "datasets/who"},
                    "resources": {"device": "cpu", "processes": 1},
                }
            ).wait(timeout=60, check=False)
            self.assertEqual(job.state, "SUCCEEDED", f"{job.failure}\n{cluster.logs()}")
            told = job.models[-1].download(cluster.folder / "told") / "who"
            self.assertEqual(told.read_text(), f"{pwd.getpwnam('nobody').pw_uid} False\n")


if __name__ == "__main__":
    unittest.main()
