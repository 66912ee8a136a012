"""The examples and the client against real processes and a small job."""

import json
import os
import random
import re
import subprocess
import unittest

import torch

import comera
import comera.torch
from cluster import Cluster
from programs import TREE, program

EXAMPLES = TREE / "client/python/examples"


def small_job(corpus, **early):
    return {
        "display_name": "e2e",
        "labels": {"suite": "python"},
        "model": {"family": "masked_lm", "layers": 1, "hidden": 32, "ffn": 64, "heads": 2},
        "data": {
            "code_directory": {"roots": [str(corpus)], "globs": ["*.py"]},
            "tokenizer": {"kind": "byte_bpe", "train_vocabulary_size": 400},
            "max_length": 48,
        },
        "compression": {
            key: {"ranks": 8}
            for key in ("embedding", "attention", "ffn_up", "ffn_down", "head", "output")
        },
        "objective": {"early": {"steps": 120, **early}},
        "optimizer": {
            key: 0.005
            for key in (
                "learning_rate_cores", "learning_rate_ranks", "learning_rate_other",
            )
        },
        "training": {
            "batch_size": 16, "seed": 1, "report_every_steps": 5,
            "validate_every_steps": 20, "validation_samples": 32,
        },
        "resources": {"device": "cpu", "ranks": 1, "threads_per_rank": 1},
    }


class EndToEndTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = comera.Client(cls.cluster.address)
        cls.addClassCleanup(cls.client.close)

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

    def served(self, folder, requests):
        """What the engine answers for the model in a folder."""
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run(
            [program("worker/trainer/comera-trainer"), "--serve", f"--model={folder}",
             "--threads=1"],
            input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()[1:]]

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
        self.assertTrue(any("epoch" in line or line for line in job.logs()))

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


    def write_pairs(self):
        """Sentence pairs whose label shows in their words, and a vocabulary."""
        folder = self.cluster.folder / "pairs"
        folder.mkdir()
        words = ["man", "dog", "walks", "sleeps", "nobody", "crème", "日本"]
        (folder / "vocab.txt").write_text(
            "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##s", "walk",
                       "creme", "日", "本", *words[:5], ",", "."]) + "\n"
        )
        for name, count in (("train", 300), ("dev", 60)):
            with open(folder / f"{name}.tsv", "w") as out:
                out.write("first\tsecond\tlabel\n")
                for row in range(count):
                    label = ("yes", "no")[row % 2]
                    verb = words[2 + row // 2 % 2]
                    second = f"nobody {verb}" if label == "no" else f"a {words[row % 3]} {verb}"
                    out.write(f"A {words[row % 7]} {verb}, {row}.\t{second}\t{label}\n")
        return folder

    def test_a_classifier_of_pairs(self):
        pairs = self.write_pairs()
        spec = small_job("unused", steps=60)
        spec["model"].update(family="encoder_classifier", classes=2)
        del spec["compression"]["output"]
        spec["data"] = {
            "glue_tsv": {
                "train": str(pairs / "train.tsv"), "validation": str(pairs / "dev.tsv"),
                "sentence1_column": 0, "sentence2_column": 1, "labels": ["yes", "no"],
            },
            "tokenizer": {"kind": "wordpiece", "vocabulary_file": str(pairs / "vocab.txt")},
            "max_length": 16,
        }
        job = self.client.submit(spec).wait(timeout=120)
        folder = job.models[-1].download(self.cluster.folder / "pairs-model")
        model = comera.torch.load(folder)
        self.assertEqual(model.labels, ["yes", "no"])
        texts = ["A dog walks, 1.", "A CRÈME sleeps", "日本 walks " * 9, ""]
        seconds = ["nobody walks", "a man sleeps", "a " * 30, "x"]
        rows = [{"text": a, "textPair": b} for a, b in zip(texts, seconds)]
        (answer,) = self.served(folder, [{"rows": rows, "logits": True}])
        expected = torch.tensor([p["probabilities"] for p in answer["predictions"]])
        actual = model.classify(texts, seconds)
        self.assertLess(float((actual - expected).abs().max()), 1e-5)
        self.assertEqual(
            [model.labels[int(i)] for i in actual.argmax(1)],
            [p["label"] for p in answer["predictions"]],
        )
        # It has learned what the words say.
        self.assertEqual(answer["predictions"][0]["label"], "no")

    def click_job(self, data):
        spec = small_job("unused", steps=30)
        spec["model"] = {
            "family": "dlrm",
            "dlrm": {"bottom_mlp": [16, 8], "top_mlp": [16, 1], "compressed_tables": 2,
                     "min_compressed_width": 4},
        }
        spec["data"] = data
        spec["compression"] = {"table": {"ranks": 3}, "mlp": {"ranks": 4}}
        job = self.client.submit(spec).wait(timeout=120)
        return job.models[-1].download(self.cluster.folder / job.id)

    def expect_equal_clicks(self, folder, numbers, categories):
        model = comera.torch.load(folder)
        rows = [
            {"numbers": [float(x or 0) for x in n], "categories": [str(c) for c in cs]}
            for n, cs in zip(numbers, categories)
        ]
        (answer,) = self.served(folder, [{"rows": rows, "logits": True}])
        self.assertEqual([p.get("error") for p in answer["predictions"]], [None] * len(rows))
        expected = torch.tensor([p["logits"][0] for p in answer["predictions"]])
        with torch.no_grad():
            actual = model(**model.batch(numbers, categories))
        self.assertLess(float((actual - expected).abs().max()), 1e-5)
        self.assertGreater(float(actual.std()), 0)

    def test_clicks(self):
        tables = (1000, 400, 20, 5)
        folder = self.click_job(
            {"synthetic_clicks": {"train_rows": 2000, "validation_rows": 200, "seed": 7,
                                  "table_rows": tables, "dense_features": 6}}
        )
        draw = random.Random(3)
        self.expect_equal_clicks(
            folder,
            [[draw.random() for _ in range(6)] for _ in range(20)],
            [[draw.randrange(n) for n in tables] for _ in range(20)],
        )
        with self.assertRaises(IndexError):
            comera.torch.load(folder).batch([[0] * 6], [[0, 0, 20, 0]])

    def test_clicks_of_criteos_files(self):
        draw = random.Random(4)

        def row():
            numbers = [draw.choice(["", draw.randrange(-2, 500)]) for _ in range(13)]
            categories = [
                draw.choice(["", f"{draw.randrange(40):x}", f"{draw.randrange(400):08x}"])
                for _ in range(26)
            ]
            return numbers, categories

        log = self.cluster.folder / "clicks.tsv"
        with open(log, "w") as out:
            for _ in range(700):
                numbers, categories = row()
                cells = [draw.randrange(2), *numbers, *categories]
                out.write("\t".join(map(str, cells)) + "\n")
        folder = self.click_job(
            {"criteo_tsv": {"files": [str(log)], "max_table_rows": 60}}
        )
        # With values that the log does not have, which share rows.
        rows = [row() for _ in range(60)]
        self.expect_equal_clicks(folder, [n for n, _ in rows], [c for _, c in rows])
        model = comera.torch.load(folder)
        with self.assertRaises(ValueError):
            model.batch([[0] * 13], [["xyz"] * 26])
        # The dictionaries go where the model goes.
        saved = comera.torch.save(model, self.cluster.folder / "clicks-saved")
        self.expect_equal_clicks(saved, [n for n, _ in rows], [c for _, c in rows])


if __name__ == "__main__":
    unittest.main()
