"""Layers against the published implementation's recorded outputs and gradients."""

import json
import math
import unittest

import torch

from comera import safetensors
from comera.torch import Factorisation, TTLinear, TTMEmbedding
from programs import shared

_DTYPES = {"F32": torch.float32, "I64": torch.int64, "I32": torch.int32}


def read(path):
    file = safetensors.read(path)
    values = {
        name: torch.frombuffer(t.data, dtype=_DTYPES[t.dtype]).reshape(t.shape)
        for name, t in file.items()
    }
    return file.metadata, values


class GoldenTest(unittest.TestCase):
    def check(self, layer, metadata, golden, x):
        """Cores with their ranks folded in, as exported."""
        layer = layer.to_empty(device="cpu")
        folds = []
        with torch.no_grad():
            for i, core in enumerate(layer.core):
                fold = torch.ones(core.shape[-1])
                if f"rank.{i}" in golden:
                    rank = golden[f"rank.{i}"]
                    fold = torch.where(
                        rank > float(metadata["threshold"]), rank, torch.zeros(())
                    )
                folds.append(fold)
                core.copy_(golden[f"core.{i}"] * fold)
            if "bias" in golden:
                layer.bias.copy_(golden["bias"])
        y = layer(x)
        self.assert_close(y, golden["y"])
        (y * golden["grad_y"]).sum().backward()
        for i, core in enumerate(layer.core):
            self.assert_close(core.grad * folds[i], golden[f"grad_core.{i}"])
        if "grad_x" in golden:
            self.assert_close(x.grad, golden["grad_x"])

    def assert_close(self, actual, expected):
        error = float((actual - expected).abs().max())
        self.assertLess(error, 1e-5 * max(1.0, float(expected.abs().max())))

    def test_linear(self):
        for path in sorted(shared("golden").glob("tt_linear_*.safetensors")):
            with self.subTest(path.name):
                metadata, golden = read(path)
                modes = json.loads(metadata["shape"])
                ranks = json.loads(metadata["ranks"])[1:-1]
                half = len(modes) // 2
                form = Factorisation(
                    tuple(modes[:half]), tuple(modes[half:]), tuple(ranks)
                )
                x = golden["x"].clone().requires_grad_()
                layer = TTLinear(x.shape[-1], golden["y"].shape[-1], form)
                self.check(layer, metadata, golden, x)

    def test_embedding(self):
        for path in sorted(shared("golden").glob("ttm_embedding_*.safetensors")):
            with self.subTest(path.name):
                metadata, golden = read(path)
                rows = tuple(json.loads(metadata["row_shape"]))
                columns = tuple(json.loads(metadata["col_shape"]))
                ranks = tuple(json.loads(metadata["ranks"])[1:-1])
                form = Factorisation(rows, columns, ranks)
                layer = TTMEmbedding(math.prod(rows), math.prod(columns), form)
                self.check(layer, metadata, golden, golden["ids"])


if __name__ == "__main__":
    unittest.main()
