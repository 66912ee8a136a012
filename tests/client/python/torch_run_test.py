"""comera.torch.Run: plain models meet their targets, alone and in gangs of two, and
whatever ends a process, the next one goes on where it was."""

import hashlib
import json
import math
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn

import comera.torch
from comera.torch import Objective, Run, tensorize
from comera.torch.checkpoints import CheckpointFolder
from programs import TREE

PROGRAM = TREE / "tests/client/python/train_program.py"


def free_port():
    """Below those from which the system chooses for everybody's connections, so
    that it is not gone before it is bound."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class ProgramTest(unittest.TestCase):
    """Real processes of a training script."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def start(self, task, name, *arguments, members=1, only_last=()):
        """Ended processes of one gang; `only_last`: arguments of its last member."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        command = [PROGRAM, task, folder, *arguments]
        return self.run_gang(command, members, only_last)

    def run_gang(self, command, members, only_last=()):
        port = free_port()
        started = []
        for member in range(members):
            environment = dict(os.environ)
            if members > 1:
                environment.update(
                    RANK=str(member), WORLD_SIZE=str(members), LOCAL_RANK=str(member),
                    MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                )
            own = only_last if member == members - 1 else ()
            started.append(
                subprocess.Popen(
                    [sys.executable, *command, *own],
                    env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return [(p.communicate(), p.returncode) for p in started]

    def train(self, *arguments, **keywords):
        """The last lines of all members, which must have ended well."""
        figures = []
        for (out, err), code in self.start(*arguments, **keywords):
            self.assertEqual(code, 0, err)
            figures.append(json.loads(out.splitlines()[-1]))
        return figures

    def losses(self, name, member=0):
        """By step: what was computed last, as text."""
        lines = (self.root / name / f"losses-{member}").read_text().splitlines()
        return {int(line.split()[0]): line for line in lines}

    def check_met(self, figures, smaller):
        for one in figures:
            self.assertEqual(one["outcome"], "target_met")
            self.assertLessEqual(one["size"], one["target_size"])
            self.assertLess(one["size"], one["dense"] / smaller)
        self.assertEqual(len({one["sum"] for one in figures}), 1)

    def test_a_bert_meets_its_targets_as_a_gang(self):
        figures = self.train("bert", "gang", members=2)
        self.check_met(figures, 5)
        # Gradients that travel are those of cores, entries and what is not compressed.
        for one in figures:
            sent, parameters = one["bytes"]
            self.assertEqual(sent, parameters)
            self.assertLess(sent, one["dense"] * 4 / 5)

    def test_a_gpt_meets_its_targets_as_a_gang(self):
        self.check_met(self.train("gpt", "gang", members=2), 4)

    def test_a_cnn_meets_its_targets_and_what_interrupts_it_changes_nothing(self):
        figures = self.train("convnet", "alone")
        self.check_met(figures, 10)
        whole = self.losses("alone")
        # In the late stage, in a wave, after compactions; the newest checkpoint is
        # that of step 50.
        ((_, _), code), = self.start("convnet", "killed", "--kill", "62")
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(max(self.losses("killed")), 62)
        again = self.train("convnet", "killed")
        self.assertEqual(again, figures)
        self.assertEqual(self.losses("killed"), whole)
        # SIGTERM ends the step, and the process well.
        (stopped,) = self.train("convnet", "stopped", "--term", "46")
        self.assertEqual((stopped["outcome"], stopped["step"]), ("stopped", 47))
        self.assertEqual(self.train("convnet", "stopped"), figures)
        self.assertEqual(self.losses("stopped"), whole)

    def test_a_gang_equals_one_process_and_goes_on_when_it_loses_a_member(self):
        arguments = ("--steps", "30", "--double")
        (alone,) = self.train("convnet", "alone", *arguments)
        gang = self.train("convnet", "gang", *arguments, members=2)
        one, two = self.losses("alone"), self.losses("gang")
        self.assertEqual(len(one), 30)
        for step in range(30):
            expected, actual = (float(x[step].split()[1]) for x in (one, two))
            self.assertAlmostEqual(actual, expected, delta=1e-6 * (1 + expected))
        self.assertEqual(self.losses("gang", 1), two)
        self.assertEqual(gang[0]["size"], alone["size"])
        ended = self.start(
            "convnet", "lost", *arguments, members=2, only_last=("--kill", "27")
        )
        self.assertEqual(ended[1][1], -signal.SIGKILL)
        # The other cannot go on alone, and says so.
        self.assertNotIn(ended[0][1], (0, -signal.SIGKILL))
        self.assertIn("failed", ended[0][0][1])
        self.assertEqual(self.train("convnet", "lost", *arguments, members=2), gang)
        self.assertEqual(self.losses("lost"), two)

    def test_a_gang_that_forgets_to_wrap_its_module_again_is_told(self):
        for (_, err), code in self.start("convnet", "forgets", "--forget", members=2):
            self.assertEqual(code, 1)
            self.assertIn("gradients of the processes differ: wrap the module", err)
        # All was well until the first compaction.
        self.assertGreater(max(self.losses("forgets")), 40)

    def test_a_gang_of_which_one_member_validates_is_told(self):
        told = ""
        for (_, err), code in self.run_gang(["-c", ALONE], 2):
            self.assertEqual(code, 1)
            told += err
        self.assertIn("all of them call report() and validate()", told)


# One member validates, the other does not.
ALONE = """
import torch
import torch.distributed as dist
import comera.torch

dist.init_process_group("gloo")
model = comera.torch.tensorize(torch.nn.Sequential(torch.nn.Linear(16, 16)), 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with comera.torch.Run(model, optimizer, steps=3) as run:
    for step in run:
        if dist.get_rank() == 0:
            run.validate(1.0)
"""


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.events = self.root / "events"
        for name, value in (
            ("COMERA_RUN_EVENTS", str(self.events)), ("COMERA_RUN_CHECKPOINTS", "")
        ):
            before = os.environ.get(name)
            os.environ[name] = value
            if before is None:
                self.addCleanup(os.environ.pop, name)
            else:
                self.addCleanup(os.environ.__setitem__, name, before)

    def parts(self):
        torch.manual_seed(1)
        model = tensorize(nn.Sequential(nn.Linear(16, 16)), 3, start="scratch")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        return model, optimizer, Objective(model, optimizer)

    def train(self, steps, stop_at=None, schedule=None, **keywords):
        model, optimizer, objective = self.parts()
        if schedule is None:
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        else:
            scheduler = schedule(optimizer)
        run = Run(
            model, optimizer, objective, steps=steps, checkpoints=self.root / "c",
            checkpoint_every=4, report_every=2, extras={"scheduler": scheduler}, **keywords,
        )
        losses = []
        with run:
            for step in run:
                if step == stop_at:
                    break
                optimizer.zero_grad()
                # Random numbers of both generators.
                x = torch.randn(8, 16) * (1 + random.random())
                loss = model(x).square().mean()
                objective.backward(loss)
                objective.step()
                scheduler.step()
                run.report(loss, rate=scheduler.get_last_lr()[0])
                losses.append(float(loss))
        return run, losses

    def read_events(self):
        return [json.loads(line) for line in self.events.read_text().splitlines()]

    def test_resumes_with_its_random_numbers_and_schedulers(self):
        random.seed(5)
        _, whole = self.train(10)
        for path in (self.root / "c").iterdir():
            path.unlink()
        random.seed(5)
        _, first = self.train(10, stop_at=9)
        random.seed(99)
        _, rest = self.train(10)
        self.assertEqual(first[:8] + rest, whole)
        self.assertEqual(len(rest), 2)
        run, none = self.train(10)
        self.assertEqual((run.outcome, none), ("completed", []))

    def test_schedulers_that_keep_functions_and_counters(self):
        known = torch.optim.lr_scheduler

        def one_cycle(optimizer):
            return known.OneCycleLR(optimizer, 1e-2, total_steps=12)

        def in_turn(optimizer):
            milestones = known.MultiStepLR(optimizer, [2, 3], 0.5)
            return known.SequentialLR(
                optimizer, [known.ConstantLR(optimizer), milestones], [5]
            )

        for schedule in (one_cycle, in_turn):
            with self.subTest(schedule.__name__):
                random.seed(5)
                _, whole = self.train(10, schedule=schedule)
                for path in (self.root / "c").iterdir():
                    path.unlink()
                random.seed(5)
                _, first = self.train(10, stop_at=5, schedule=schedule)
                _, rest = self.train(10, schedule=schedule)
                self.assertEqual(first[:4] + rest, whole)
                for path in (self.root / "c").iterdir():
                    path.unlink()

    def test_a_disk_that_is_full_or_not_writable(self):
        folder = CheckpointFolder(self.root / "c")
        folder.save(1, {"x": torch.ones(3)}, {})
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with self.assertRaisesRegex(OSError, "c/step-0000000002.pt"):
                folder.save(2, {"x": torch.ones(3000)}, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertEqual(
            sorted(p.name for p in (self.root / "c").iterdir()),
            ["step-0000000001.json", "step-0000000001.pt"],
        )
        self.assertEqual(folder.newest()[0], 1)
        # Known before the first step. Nobody, root included, creates files there.
        model, optimizer, _ = self.parts()
        with self.assertRaises(OSError):
            with Run(model, optimizer, steps=3, checkpoints="/proc/self") as run:
                self.assertEqual(list(run), [])

    def test_figures_may_be_tensors_and_replace_nothing(self):
        model, optimizer, _ = self.parts()
        with Run(model, optimizer, steps=1) as run:
            for _ in run:
                run.report(torch.tensor(2.0), norm=torch.tensor(0.5), size=7)
        (step,) = [e for e in self.read_events() if e["event"] == "step"]
        self.assertEqual((step["loss"], step["norm"], step["size"]), (2.0, 0.5, 112))

    def test_steps_are_counted_within_and_after_the_loop(self):
        model, optimizer, _ = self.parts()
        run = Run(model, optimizer, steps=2, target_loss=0.5, target_size=1)
        with self.assertRaisesRegex(RuntimeError, "with run"):
            next(iter(run))
        with run:
            for _ in run:
                run.validate(1.0)
                with self.assertRaisesRegex(RuntimeError, "between steps"):
                    run.save()
            run.validate(1.0)
        seen = [e["step"] for e in self.read_events() if e["event"] == "validation"]
        self.assertEqual(seen, [1, 2, 2])

    def test_another_optimiser_is_named(self):
        self.train(2)
        model, _, _ = self.parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        with self.assertRaisesRegex(ValueError, "another optimiser, .*momentum"):
            with Run(
                model, optimizer, Objective(model, optimizer), steps=3,
                checkpoints=self.root / "c", extras={"scheduler": scheduler},
            ):
                pass

    def test_a_stop_after_the_last_step_is_none(self):
        model, optimizer, _ = self.parts()
        with Run(model, optimizer, steps=2) as run:
            for step in run:
                if step == 1:
                    os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(run.outcome, "completed")

    def test_events(self):
        self.train(5)
        events = self.read_events()
        self.assertEqual(
            [e["event"] for e in events],
            ["started", "step", "ranks", "step", "checkpoint", "step", "checkpoint", "ended"],
        )
        self.assertEqual(events[0]["steps"], 5)
        self.assertEqual(events[0]["size"], 3 * 32 + 16)
        self.assertEqual(events[0]["dense_size"], 16 * 16 + 16)
        self.assertEqual({e["stage"] for e in events if e["event"] == "step"}, {"early"})
        self.assertEqual([e["step"] for e in events if e["event"] == "step"], [2, 4, 5])
        self.assertIn("rate", events[1])
        self.assertEqual(events[2]["ranks"], {"0": [3]})
        self.assertEqual(events[-1]["outcome"], "completed")

    def test_the_jobs_folder_comes_first(self):
        os.environ["COMERA_RUN_CHECKPOINTS"] = str(self.root / "of_the_job")
        self.train(2)
        self.assertFalse((self.root / "c").exists())
        self.assertTrue((self.root / "of_the_job" / "step-0000000002.pt").exists())

    def of_a_job(self, **variables):
        for name, value in variables.items():
            self.assertNotIn(name, os.environ)
            os.environ[name] = str(value)
            self.addCleanup(os.environ.pop, name)

    def test_the_jobs_interval_and_model(self):
        self.of_a_job(COMERA_RUN_CHECKPOINT_EVERY=2, COMERA_RUN_MODEL=self.root / "model")
        run, _ = self.train(5)
        saved = [e["step"] for e in self.read_events() if e["event"] == "checkpoint"]
        self.assertEqual(saved, [2, 4, 5])
        state = torch.load(self.root / "model" / "model.pt", weights_only=True)
        fresh, _, _ = self.parts()
        comera.torch.load_state_dict(fresh, state)
        x = torch.randn(3, 16)
        self.assertTrue(torch.equal(fresh(x), run.module(x)))

    def test_the_jobs_targets_alone_count(self):
        self.of_a_job(COMERA_TARGET_LOSS=0.5, COMERA_TARGET_PARAMETERS=100)
        model, optimizer, objective = self.parts()
        objective.begin_late(target_loss=9.0, target_size=112, max_steps=50)
        run = Run(model, optimizer, objective, steps=9, target_loss=8, target_size=1000)
        self.assertEqual((run.target_loss, run.target_size), (0.5, 100))
        with run:
            for step in run:
                # It meets the script's targets, and those of the objective.
                self.assertFalse(run.validate(0.4))
                if step == 2:
                    break
        self.assertEqual(run.outcome, "")

    def test_signs_of_life_between_reports(self):
        model, optimizer, _ = self.parts()
        with Run(model, optimizer, steps=3, report_every=50) as run:
            for _ in run:
                # The last line seems to have been written long ago.
                run._events.last_time -= 60
        at = [e["step"] for e in self.read_events() if e["event"] == "at"]
        self.assertEqual(at, [1, 2, 3])

    def test_without_a_folder_and_a_service(self):
        del os.environ["COMERA_RUN_EVENTS"]
        self.addCleanup(os.environ.__setitem__, "COMERA_RUN_EVENTS", "")
        model, optimizer, objective = self.parts()
        before = signal.getsignal(signal.SIGTERM)
        with Run(model, optimizer, steps=3) as run:
            self.assertEqual(list(run), [0, 1, 2])
        self.assertEqual(run.outcome, "completed")
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)
        self.assertEqual(list(self.root.iterdir()), [])

    def test_errors_end_it_without_a_checkpoint(self):
        model, optimizer, _ = self.parts()
        with self.assertRaisesRegex(KeyError, "batch"):
            with Run(model, optimizer, steps=3, checkpoints=self.root / "c") as run:
                for _ in run:
                    raise KeyError("batch")
        ended = self.read_events()[-1]
        self.assertEqual((ended["outcome"], ended["error"]), ("failed", "KeyError: 'batch'"))
        self.assertEqual(list((self.root / "c").iterdir()), [])

    def test_the_front_and_targets(self):
        model, optimizer, _ = self.parts()
        run = Run(model, optimizer, steps=9, target_loss=0.5, target_size=100)
        answers = []
        with run:
            for step in run:
                if step == 2:
                    with torch.no_grad():
                        model[0].rank[0][0] = 0
                answers.append(run.validate([2.0, 3.0, 1.0, 1.0, 0.4][step]))
        self.assertEqual(answers, [False, False, False, False, True])
        self.assertEqual(run.outcome, "target_met")
        self.assertEqual(
            [(p.step, p.validation_loss, p.size_parameters) for p in run.front],
            [(5, 0.4, 80)],
        )
        flags = [e["on_front"] for e in self.read_events() if e["event"] == "validation"]
        self.assertEqual(flags, [True, False, True, False, True])

    def test_numbers_that_are_not_finite(self):
        model, optimizer, _ = self.parts()
        with Run(model, optimizer, steps=1, report_every=1) as run:
            for _ in run:
                run.report(math.inf)
                self.assertFalse(run.validate(math.nan))
        self.assertEqual(run.front, [])
        events = {e["event"]: e for e in self.read_events()}
        self.assertIsNone(events["step"]["loss"])
        self.assertIsNone(events["validation"]["validation_loss"])

    def test_a_met_target_stays_met(self):
        def attempt():
            model, optimizer, _ = self.parts()
            run = Run(
                model, optimizer, steps=9, target_loss=0.5, target_size=1000,
                checkpoints=self.root / "c",
            )
            with run:
                for _ in run:
                    run.validate(0.1)
            return run.outcome, run.step

        self.assertEqual(attempt(), ("target_met", 1))
        self.assertEqual(attempt(), ("target_met", 1))

    def test_damaged_checkpoints_are_left_out(self):
        folder = CheckpointFolder(self.root / "c", keep=3)
        for step in (1, 2, 3, 4):
            folder.save(step, {"step": step, "x": torch.ones(step)}, {})
        self.assertEqual(
            sorted(p.name for p in (self.root / "c").glob("*.pt")),
            [f"step-{step:010d}.pt" for step in (2, 3, 4)],
        )
        path = self.root / "c" / "step-0000000004.pt"
        contents = bytearray(path.read_bytes())
        contents[len(contents) // 2] ^= 1
        path.write_bytes(contents)
        (self.root / "c" / "step-0000000003.json").write_text("{")
        # One without its marker never counted.
        (self.root / "c" / "step-0000000009.pt").write_bytes(b"x")
        with self.assertLogs("comera.torch", "WARNING") as log:
            step, state = folder.newest()
        self.assertEqual((step, state["x"].tolist()), (2, [1.0, 1.0]))
        self.assertEqual(len(log.output), 2)

    def test_damaged_checkpoints_do_not_push_out_the_next(self):
        folder = CheckpointFolder(self.root / "c", keep=2)
        for step in (8, 9):
            folder.save(step, {}, {})
            (self.root / "c" / f"step-{step:010d}.pt").write_bytes(b"x")
        with self.assertLogs("comera.torch", "WARNING"):
            self.assertIsNone(folder.newest())
        path = folder.save(1, {"step": 1}, {})
        self.assertTrue(path.exists())
        with self.assertLogs("comera.torch", "WARNING"):
            self.assertEqual(folder.newest(), (1, {"step": 1}))

    def test_a_checkpoint_executes_nothing(self):
        class Harm:
            def __reduce__(self):
                return (os.mkdir, (str(root / "harmed"),))

        root = self.root
        folder = CheckpointFolder(root / "c")
        with self.assertRaisesRegex(TypeError, r"state.x\[0\]: a Harm cannot be kept"):
            folder.save(1, {"x": [Harm()]}, {})
        # One that somebody else wrote, with its marker.
        path = folder.save(1, {}, {})
        torch.save({"document": Harm(), "tensors": []}, path)
        marker = path.with_suffix(".json")
        marker.write_text(
            json.dumps({"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
        )
        with self.assertLogs("comera.torch", "WARNING"):
            self.assertIsNone(folder.newest())
        self.assertFalse((root / "harmed").exists())

    def test_mistakes_are_refused(self):
        model, optimizer, _ = self.parts()
        for arguments, what in (
            ({"steps": 0}, "at least 1"),
            ({"steps": 1, "target_loss": 1.0}, "belong together"),
            ({"steps": 1, "checkpoints": self.root / "k", "keep": 0}, "keep=0"),
        ):
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                Run(model, optimizer, **arguments)
        self.train(4)
        before = signal.getsignal(signal.SIGTERM)
        for extras, what in (
            ({}, "extras"),
            ({"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)},
             "the checkpoint alone has an objective"),
        ):
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                folder = self.root / "c"
                with Run(model, optimizer, steps=5, checkpoints=folder, extras=extras):
                    pass
            self.assertEqual(signal.getsignal(signal.SIGTERM), before)
            ended = self.read_events()[-1]
            self.assertEqual((ended["event"], ended["outcome"]), ("ended", "failed"))
            self.assertIn(what, ended["error"])


if __name__ == "__main__":
    unittest.main()
