"""Every family and method against what the C++ engine computes."""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch

import comera
import comera.torch
from comera import safetensors
from comera._proto import model_service_pb2
from comera.models import Model
from programs import program

TOLERANCE = 1e-5

_DTYPES = {"F32": torch.float32, "I64": torch.int64}


def tensors_of(path):
    return {
        name: torch.frombuffer(t.data, dtype=_DTYPES[t.dtype]).reshape(t.shape)
        for name, t in safetensors.read(path).items()
    }


def inputs_of(model, reference):
    """What the model takes, and which of its outputs are the reference's."""
    if model.config.family == "dlrm":
        return {
            "dense": reference["dense"],
            "categories": reference["categories"].t(),
        }
    inputs = {key: reference[key] for key in ("ids", "segments", "mask")}
    if model.config.family != "encoder_classifier":
        inputs["places"] = reference["label_rows"]
    return inputs


class ModelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        writer = program("tests/worker/trainer/model/write_reference_models")
        subprocess.run([writer, folder.name], check=True)
        cls.names = sorted(p.name for p in cls.folder.iterdir())
        torch.manual_seed(1)

    def each(self, *parts):
        for name in self.names:
            if any(part in name for part in parts or ("",)):
                folder = self.folder / name
                reference = tensors_of(folder / "reference.safetensors")
                yield comera.torch.load(folder), reference, folder

    def test_all_are_there(self):
        self.assertEqual(len(self.names), 37)

    def test_logits_equal_the_engines(self):
        for model, reference, folder in self.each():
            with self.subTest(folder.name):
                with torch.no_grad():
                    actual = model(**inputs_of(model, reference))
                expected = reference["logits"].reshape(actual.shape)
                self.assertGreater(float(expected.abs().max()), 0.01)
                error = (actual - expected).abs() / (1 + expected.abs())
                self.assertLess(float(error.max()), TOLERANCE)

    def test_loss_equals_the_engines(self):
        for model, reference, folder in self.each():
            with self.subTest(folder.name):
                inputs = inputs_of(model, reference)
                labels = reference["labels"]
                places = inputs.pop("places", None)
                if places is not None:
                    flat = torch.full(inputs["ids"].shape, comera.torch.IGNORED).reshape(-1)
                    flat[places] = labels
                    labels = flat.reshape(inputs["ids"].shape)
                with torch.no_grad():
                    loss = float(model.loss(labels, **inputs))
                count = len(reference["labels"])
                expected = model.config.figures["loss"] / count
                self.assertAlmostEqual(loss, expected, delta=TOLERANCE * (1 + expected))

    def test_layers_that_are_gone_are_their_bias(self):
        for model, reference, folder in self.each("gone"):
            with self.subTest(folder.name):
                self.assertIn(0, [sum(ranks) for ranks in model.ranks().values()])

    def test_parameters_are_counted_as_the_service_does(self):
        for model, _, folder in self.each():
            with self.subTest(folder.name):
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual(model.num_parameters(), config["size_parameters"])

    def test_dense_models_compute_the_same(self):
        for model, reference, folder in self.each():
            with self.subTest(folder.name):
                dense = comera.torch.to_dense(model)
                if not folder.name.endswith("_silu"):
                    self.assertEqual(dense.ranks(), {})
                with torch.no_grad():
                    inputs = inputs_of(model, reference)
                    error = (dense(**inputs) - model(**inputs)).abs().max()
                self.assertLess(float(error), TOLERANCE)

    def test_saved_models_are_the_same_and_the_engines_format(self):
        for model, reference, folder in self.each():
            with self.subTest(folder.name):
                saved = self.folder.parent / (self.folder.name + "_saved")
                self.addCleanup(shutil.rmtree, saved, ignore_errors=True)
                comera.torch.save(model, saved)
                again = comera.torch.load(saved)
                before = safetensors.read(folder / "model.safetensors")
                after = safetensors.read(saved / "model.safetensors")
                self.assertEqual(
                    {n: (t.dtype, t.shape, bytes(t.data)) for n, t in before.items()},
                    {n: (t.dtype, t.shape, bytes(t.data)) for n, t in after.items()},
                )
                self.assertEqual(again.config, model.config)
                self.assertEqual(
                    json.loads((saved / "config.json").read_text()),
                    json.loads((folder / "config.json").read_text()),
                )

    def test_a_few_steps_lower_the_loss(self):
        for model, reference, folder in self.each():
            with self.subTest(folder.name):
                inputs = inputs_of(model, reference)
                labels = reference["labels"]
                places = inputs.pop("places", None)
                if places is not None:
                    flat = torch.full((inputs["ids"].numel(),), comera.torch.IGNORED)
                    flat[places] = labels
                    labels = flat.reshape(inputs["ids"].shape)
                trained = [p for p in model.parameters() if p.requires_grad]
                self.assertEqual(
                    sum(p.numel() for p in trained), model.num_parameters(trainable_only=True)
                )
                model.train()
                optimizer = torch.optim.Adam(trained, lr=3e-3)
                losses = []
                for _ in range(15):
                    optimizer.zero_grad()
                    loss = model.loss(labels, **inputs)
                    loss.backward()
                    optimizer.step()
                    losses.append(float(loss))
                self.assertLess(losses[-1], losses[0] - 0.01)

    def test_frozen_weights_stay(self):
        for model, _, folder in self.each("lora"):
            with self.subTest(folder.name):
                body = "decoder" if model.config.family == "causal_lm" else "encoder"
                weight = model.get_parameter(f"{body}.layers.0.ffn.up.weight")
                self.assertFalse(weight.requires_grad)
                self.assertLess(model.num_parameters(True), model.num_parameters())

    def test_no_dense_matrix_is_formed(self):
        # The layer's matrix would have 2^24 entries; no tensor comes near that.
        form = comera.torch.Factorisation((16, 16, 16), (16, 16, 16), (8,) * 5)
        layer = comera.torch.TTLinear(4096, 4096, form).to_empty(device="cpu")
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        largest = [0]

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                for one in result if isinstance(result, (tuple, list)) else [result]:
                    if isinstance(one, torch.Tensor):
                        largest[0] = max(largest[0], one.numel())
                return result

        x = torch.randn(2, 4096)
        with Watch():
            layer(x).sum().backward()
        self.assertLess(largest[0], 100_000)
        self.assertGreater(largest[0], 0)
        expected = x @ layer.dense_weight() + layer.bias
        self.assertTrue(torch.allclose(layer(x), expected, atol=1e-3))

    def test_padding_changes_nothing(self):
        for model, reference, folder in self.each("classifier"):
            with self.subTest(folder.name):
                ids, mask = reference["ids"].clone(), reference["mask"]
                changed = torch.where(mask == 0, (ids + 1) % 30, ids)
                self.assertFalse(torch.equal(ids, changed))
                with torch.no_grad():
                    first = model(ids, reference["segments"], mask)
                    second = model(changed, reference["segments"], mask)
                self.assertLess(float((first - second).abs().max()), 1e-6)

    def test_damaged_files_are_refused(self):
        source = self.folder / "classifier"
        damaged = self.folder.parent / (self.folder.name + "_damaged")
        self.addCleanup(shutil.rmtree, damaged, ignore_errors=True)

        def expect_refused(what, change):
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(source, damaged)
            config = json.loads((damaged / "config.json").read_text())
            change(config)
            (damaged / "config.json").write_text(json.dumps(config))
            with self.subTest(what):
                with self.assertRaisesRegex(comera.IntegrityError, what):
                    comera.torch.load(damaged)

        def model(**changes):
            return lambda config: config["model"].update(changes)

        def head(**changes):
            return lambda c: c["model"]["factorisation"]["head"].update(changes)

        expect_refused("not a comera-model", lambda c: c.update(format="x"))
        expect_refused("version", lambda c: c.update(version=4))
        expect_refused("hidden", model(hidden=-1))
        expect_refused("hidden", model(hidden=True))
        expect_refused("heads", model(heads=5))
        expect_refused("family", model(family="gpt"))
        # No memory is taken for what only the configuration claims.
        expect_refused("position", model(max_positions=1 << 24))
        expect_refused("vocabulary", model(vocabulary=1 << 40))
        expect_refused("ranks", head(ranks=[1, 2]))
        expect_refused("ranks", head(ranks=[0, 2, 3]))
        expect_refused("modes", head(input_modes=[2, 2]))
        expect_refused("head", lambda c: c["model"]["factorisation"].pop("head"))
        for tokens in (3, [4, 3], [4, 4], [-1], [1 << 40], ["1"], [0, 100_000]):
            expect_refused(
                "dense",
                lambda c: c["model"]["factorisation"]["embedding"].update(
                    dense_tokens=tokens
                ),
            )

        shutil.rmtree(damaged)
        shutil.copytree(source, damaged)
        contents = (damaged / "model.safetensors").read_bytes()
        for cut in (0, 7, 8, 100, len(contents) // 2, len(contents) - 1):
            (damaged / "model.safetensors").write_bytes(contents[:cut])
            with self.subTest(cut), self.assertRaises(comera.IntegrityError):
                comera.torch.load(damaged)
        (damaged / "model.safetensors").unlink()
        with self.assertRaises(FileNotFoundError):
            comera.torch.load(damaged)

    def test_a_servers_name_leads_nowhere_else(self):
        proto = model_service_pb2.Model()
        for name in ("jobs/x/models/../../../../../.ssh", "/etc/x", "jobs//models/m", ""):
            proto.name = name
            with self.subTest(name), self.assertRaises(comera.IntegrityError):
                comera.torch.load(Model(None, proto))

    def test_narrow_ids_find_dense_tokens_too(self):
        for model, _, _ in self.each("masked_lm_tied_dense_tokens"):
            ids = torch.tensor([[5, 6, 7, 29]])
            with torch.no_grad():
                wide, narrow = model(ids), model(ids.to(torch.int32))
            self.assertTrue(torch.equal(wide, narrow))

    def test_an_id_outside_the_vocabulary_is_an_error(self):
        for model, _, folder in self.each("classifier_dense", "masked_lm_tied"):
            with self.subTest(folder.name):
                with self.assertRaises((IndexError, RuntimeError)):
                    model(torch.tensor([[31]]))


if __name__ == "__main__":
    unittest.main()
