#!/usr/bin/python3
"""Checks the search and the table of time_to_target.py without training."""
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
# pylint: disable=wrong-import-position
import time_to_target
import trainer_runs

TASK = {"model": {"family": "MASKED_LM", "hidden": 128, "ffn": 512, "heads": 4},
        "data": {"tokenizer": {"trainVocabularySize": 100}}, "steps": 100}
BASELINE = 6.0


def curve(*losses):
    return [{"step": i + 1, "seconds": 2.0 * (i + 1), "loss": loss,
             "accuracy": 0.5, "auc": None, "parameters": 1000,
             "gigabytes": 0} for i, loss in enumerate(losses)]


class Measure(unittest.TestCase):
    """`losses`: (learning rate, seed) -> the loss at the end."""

    def measure(self, method, losses, seeds=1, folder=None):
        options = types.SimpleNamespace(
            jobs=1, methods=method, shares="20", seeds=seeds, scale=1.0,
            dropout=None, decay="LINEAR")
        self.trained = []

        def run(_, spec, __):
            rate = spec["optimizer"]["learningRateOther"]
            seed = spec["training"]["seed"]
            self.trained.append((rate, seed))
            return {"baseline": BASELINE, "curve": curve(losses(rate, seed))}

        def size(_, spec, __):
            return 100 * spec["model"]["hidden"]

        with tempfile.TemporaryDirectory() as own, \
                mock.patch.object(time_to_target, "run", run), \
                mock.patch.object(time_to_target, "parameters", size), \
                mock.patch.object(sys, "stderr"):
            results = trainer_runs.Results(
                os.path.join(folder or own, "results.jsonl"))
            return time_to_target.measure_task(
                options, "task", TASK, results, None)

    def test_the_best_of_three_rates_is_used_for_the_other_seeds(self):
        # 0.003 is the default of small dense models.
        chosen = self.measure(
            "narrow dense", lambda rate, seed: 3 + abs(rate - 0.003), seeds=3)
        factor, runs = chosen["narrow dense", 20]
        self.assertEqual(factor, 1)
        self.assertEqual(len(runs), 3)
        self.assertAlmostEqual(max(self.trained)[0], 0.009)
        self.assertEqual(
            [seed for rate, seed in self.trained if rate == 0.003], [1, 2, 3])

    def test_the_search_goes_beyond_its_edge_twice(self):
        chosen = self.measure("narrow dense", lambda rate, seed: 5 - rate)
        self.assertEqual(chosen["narrow dense", 20][0], 27)

    def test_a_rate_at_which_a_seed_learns_nothing_is_not_used(self):
        def losses(rate, seed):
            if rate < 0.002:
                return 5.0
            return BASELINE if rate < 0.005 and seed == 3 else 4 + rate

        factor, runs = self.measure("narrow dense", losses, seeds=3)[
            "narrow dense", 20]
        self.assertEqual(factor, 3)
        self.assertTrue(all(trainer_runs.final(r) < 5 for r in runs))

    def test_where_no_rate_serves_all_seeds_the_lowest_mean_counts(self):
        def losses(rate, seed):
            if seed == 2:
                return BASELINE + 100 * rate
            return 5.0 if rate < 0.002 else 4.9 if rate < 0.005 else 7

        factor, runs = self.measure("narrow dense", losses, seeds=2)[
            "narrow dense", 20]
        self.assertEqual(factor, 0.3)
        self.assertAlmostEqual(trainer_runs.final(runs[1]), 6.09)

    def test_what_was_measured_is_not_measured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            first = self.measure("dense", lambda rate, seed: 4, folder=folder)
            self.assertTrue(self.trained)
            again = self.measure("dense", lambda rate, seed: 3, folder=folder)
            self.assertEqual(self.trained, [])
            self.assertEqual(first, again)

    def test_the_largest_model_within_the_size_is_taken(self):
        self.assertEqual(time_to_target.largest_number(lambda n: 7 * n, 50), 7)
        self.assertIsNone(time_to_target.largest_number(lambda n: 100, 50))
        # There is no model with an odd number.
        self.assertEqual(time_to_target.largest_number(
            lambda n: None if n > 4 else n, 50), 4)


class Table(unittest.TestCase):
    def test_rows_are_compared_with_the_dense_model_of_their_seed(self):
        text = time_to_target.table("task", {
            ("dense", None): (1, [{"curve": curve(5, 4)},
                                  {"curve": curve(4, 3)}]),
            ("comera", 20): (3, [{"curve": curve(4.04, 3.9)},
                                 {"curve": curve(4, 2.7)}]),
        })
        row = [line for line in text.splitlines() if "comera" in line][0]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(cells[0], "1/20")
        self.assertEqual(cells[3], "3.300 ± 0.600")
        self.assertEqual(cells[4], "-0.200 ± 0.100")
        # The first seed is within 0.05 nats after 2 s, the second after 4 s.
        self.assertEqual(cells[7], "3")
        self.assertEqual(cells[9], "3")

    def test_click_models_are_compared_by_auc(self):
        runs = [{"curve": [{**curve(5)[0], "accuracy": 0.5, "auc": 0.75}]}]
        for task, metric, value in (("clicks", "AUC", "0.750 ± 0.000"),
                                    ("sst2", "accuracy", "0.500 ± 0.000")):
            lines = time_to_target.table(
                task, {("dense", None): (1, runs)}).splitlines()
            heads, cells = ([c.strip() for c in line.strip("|").split("|")]
                            for line in (lines[2], lines[4]))
            self.assertEqual(cells[heads.index(metric)], value)

    def test_a_method_without_an_end_has_no_row(self):
        self.assertIn("no run ended", time_to_target.table(
            "task", {("dense", None): (1, [{"curve": []}])}))


if __name__ == "__main__":
    unittest.main()
