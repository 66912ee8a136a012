"""Jobs on real processes, and what the engine answers for their models."""

import json
import subprocess
import unittest

import comera
from cluster import Cluster
from programs import program


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
        "resources": {"device": "cpu", "processes": 1, "threads_per_process": 1},
    }


class EndToEndTestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = comera.Client(cls.cluster.address)
        cls.addClassCleanup(cls.client.close)

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
