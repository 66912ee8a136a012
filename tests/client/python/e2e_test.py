"""The examples and the client against real processes and a small job."""

import os
import re
import subprocess
import unittest

import torch

import comera
import comera.torch
from e2e_case import EndToEndTestCase, small_job
from programs import TREE

EXAMPLES = TREE / "client/python/examples"


class EndToEndTest(EndToEndTestCase):
    def run_example(self, name, *arguments):
        done = subprocess.run(
            ["/usr/bin/python3", EXAMPLES / name, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
            cwd=self.cluster.folder,
            env={**os.environ, "COMERA_SERVER": self.cluster.address},
        )
        self.assertEqual(
            done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{self.cluster.logs()}"
        )
        return done.stdout

    def expect_equal_logits(self, folder):
        """Text in, logits out: the module and the engine."""
        model = comera.torch.load(folder)
        mask = model.tokenizer.token(model.tokenizer.special.mask)
        texts = [
            f"def read_{mask}(self, buffer):",
            f"    if {mask} is {mask}:\n        return None",
            f"Ünïcode {mask} — 日本 {mask}" + " long" * 60,
        ]
        (answer,) = self.served(
            folder, [{"rows": [{"text": t} for t in texts], "logits": True}]
        )
        for text, prediction in zip(texts, answer["predictions"]):
            expected = [m["logits"] for m in prediction["masks"]]
            parts = text.split(mask)
            ids = []
            for part in parts[:-1]:
                ids += model.tokenizer.encode(part.rstrip())
                ids.append(model.tokenizer.special.mask)
            ids += model.tokenizer.encode(parts[-1])
            special = model.tokenizer.special
            ids = [special.cls, *ids[: model.config.length - 2], special.sep]
            places = [i for i, token in enumerate(ids) if token == special.mask]
            with torch.no_grad():
                actual = model(torch.tensor([ids]), places=torch.tensor(places))
            self.assertEqual(len(expected), len(places))
            error = (actual - torch.tensor(expected)).abs().max()
            self.assertLess(float(error), 1e-5 * (1 + float(actual.abs().max())))
            filled = model.fill_mask(text, top=3)
            choices = [
                [c["token"] for c in m["choices"][:3]] for m in prediction["masks"]
            ]
            self.assertEqual([[t for t, _ in row] for row in filled], choices)

    def test_the_examples(self):
        folder = self.cluster.folder / "example-model"
        out = self.run_example(
            "submit_watch_load.py", "--roots", self.cluster.corpus, "--steps", 100,
            "--target-loss", 6, "--out", folder,
        )
        self.assertRegex(out, r"jobs/\w+\n")
        self.assertIn("SUCCEEDED TARGET_MET", out)
        self.assertRegex(out, r"step \d+/\d+  loss [\d.]+")
        self.assertRegex(out, r"[\d,]+ parameters, ranks \[")
        self.assertEqual(len(re.findall(r"^0\.\d{3} ", out, re.M)), 5, out)
        self.expect_equal_logits(folder)

        tuned = self.cluster.folder / "tuned"
        out = self.run_example(
            "fine_tune.py", folder, *sorted(EXAMPLES.glob("*.py")),
            "--steps", 40, "--learning-rate", 5e-3, "--out", tuned,
        )
        before, after = map(float, re.findall(r"loss ([\d.]+) -> ([\d.]+)", out)[0])
        self.assertLess(after, before - 0.2)
        # The engine reads what was tuned, and computes the same with it.
        self.expect_equal_logits(tuned)

    def test_a_job_through_everything(self):
        client = self.client
        job = client.submit(small_job(self.cluster.corpus), set={"priority": 3})
        events = list(job.watch(timeout=120))
        self.assertEqual(job.state, "SUCCEEDED", self.cluster.logs())
        self.assertEqual((job.outcome, job.spec.priority), ("COMPLETED", 3))
        self.assertEqual(
            [e.sequence for e in events], sorted({e.sequence for e in events})
        )
        kinds = {e.kind for e in events}
        self.assertLessEqual(
            {"state_change", "metrics", "run_info", "rank_snapshot", "result"}, kinds
        )
        losses = [e.metrics.loss for e in events if e.metrics]
        self.assertLess(losses[-1], losses[0] - 0.5)

        # Resuming in the middle tells the rest and nothing else.
        middle = events[len(events) // 2].sequence
        rest = [e.sequence for e in client.watch(job.name, after_sequence=middle)]
        self.assertEqual(rest, [e.sequence for e in events if e.sequence > middle])

        series = job.series("loss", "validation_loss")
        self.assertEqual(series.names, ["loss", "validation_loss"])
        self.assertEqual(series["loss"].steps[-1], 120)
        self.assertAlmostEqual(series["loss"].values[-1], losses[-1])
        self.assertEqual(series.run_info.world_size, 1)
        self.assertTrue(series.rank_columns()["rank"])

        front = job.pareto()
        self.assertGreaterEqual(len(front), 1)
        self.assertEqual(front.points[0].job, job.name)
        self.assertTrue(any("attempt" in line or line for line in job.logs()))

        (model,) = job.models
        self.assertEqual(model.job, job.name)
        folder = model.download(self.cluster.folder / "model")
        module = comera.torch.load(folder)
        self.assertEqual(module.num_parameters(), model.size_parameters)
        detailed = client.get_model(model.name)
        self.assertAlmostEqual(
            detailed.validation_loss, module.config.figures["validation_loss"], places=5
        )
        # Straight from the service, through a cache.
        os.environ["XDG_CACHE_HOME"] = str(self.cluster.folder / "cache")
        cached = comera.torch.load(model)
        self.assertEqual(cached.num_parameters(), module.num_parameters())

        names = [j.name for j in client.list("succeeded", labels={"suite": "python"})]
        self.assertIn(job.name, names)
        self.assertEqual(list(client.list(labels={"suite": "none"})), [])
        self.assertEqual([w.name for w in client.list_workers()], ["workers/w"])
        self.assertIn("queues/default", [q.name for q in client.list_queues()])
        self.assertTrue(client.whoami().open)
        self.assertEqual(client.server_version(), comera.__version__)
        self.assertIn(job.name, job._repr_html_())

    def test_a_watch_survives_a_kill_of_the_coordinator(self):
        job = self.client.submit(small_job(self.cluster.corpus, steps=400))
        sequences, killed = [], False
        for event in job.watch(timeout=180):
            sequences.append(event.sequence)
            if event.metrics and not killed:
                self.cluster.kill_server()
                self.cluster.start_server()
                killed = True
        self.assertTrue(killed)
        self.assertEqual(job.state, "SUCCEEDED", self.cluster.logs())
        self.assertEqual(sequences, sorted(set(sequences)))

    def test_cancel_pause_and_errors(self):
        client = self.client
        job = client.submit(small_job(self.cluster.corpus, steps=1_000_000))
        for event in job.watch(timeout=120):
            if event.state == "RUNNING":
                break
        self.assertEqual(job.state, "RUNNING")
        self.assertEqual(job.explain().workers, ["w"])
        job.pause("for a test")
        for event in job.watch(timeout=120):
            if event.state == "PAUSED":
                break
        job.resume()
        job.cancel("enough")
        with self.assertRaises(comera.JobFailedError):
            job.wait(timeout=120)
        self.assertEqual(job.state, "CANCELLED")
        self.assertIn("enough", job.reason)

        with self.assertRaises(comera.InvalidArgumentError) as caught:
            client.submit(small_job(self.cluster.corpus), set={"model.heads": 5})
        fields = [v.field for v in caught.exception.violations]
        self.assertTrue(any("model" in field for field in fields), fields)
        with self.assertRaises(comera.NotFoundError):
            client.get("none")
        with self.assertRaises(comera.FailedPreconditionError):
            job.pause()

    def test_a_job_trains_from_an_upload(self):
        dataset = self.client.upload_dataset("corpus", self.cluster.corpus)
        self.assertEqual(len(dataset.files()), 60)
        again = self.client.upload_dataset("corpus", self.cluster.corpus)
        self.assertEqual(len(again.versions), 1)
        spec = small_job("datasets/corpus", steps=20)
        forecast = self.client.validate(spec)
        self.assertEqual(forecast.name, "")
        job = self.client.submit(spec).wait(timeout=120)
        self.assertEqual(job.proto.datasets[0].version, "datasets/corpus@1")


if __name__ == "__main__":
    unittest.main()
