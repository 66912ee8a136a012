"""Trained classifiers and click models: rows in, the engine's answers out."""

import random
import unittest

import torch

import comera.torch
from e2e_case import EndToEndTestCase, small_job


class ModelUseTest(EndToEndTestCase):
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
