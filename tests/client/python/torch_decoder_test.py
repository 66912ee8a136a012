"""Causal language models against the published implementations' recorded numbers,
and in every form of their layers."""

import array
import json
import math
import shutil
import tempfile
import unittest
from pathlib import Path

import torch

import comera
import comera.torch
from comera import safetensors
from comera.torch.config import Factorisation, LowRank, ModelConfig, config_to_json
from comera.torch.decoder import positions_of
from comera.torch.families import build, expected_layers
from programs import shared

_DTYPES = {"F32": torch.float32, "I64": torch.int64, "I32": torch.int32}

_LLAMA = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "ffn.gate": "mlp.gate_proj",
    "ffn.up": "mlp.up_proj",
    "ffn.down": "mlp.down_proj",
}
_LLAMA_NORMS = {"attention.norm": "input_layernorm", "ffn.norm": "post_attention_layernorm"}
_GPT2 = {
    "attention.norm": "ln_1",
    "attention.output": "attn.c_proj",
    "ffn.norm": "ln_2",
    "ffn.up": "mlp.c_fc",
    "ffn.down": "mlp.c_proj",
}


def read(path):
    file = safetensors.read(path)
    values = {
        name: torch.frombuffer(t.data, dtype=_DTYPES[t.dtype]).reshape(t.shape)
        for name, t in file.items()
    }
    return {key: json.loads(text) if text[:1] in "{[" else text
            for key, text in file.metadata.items()}, values


def published_llama(golden, layers):
    """Tensors of a published LLaMA, or of CoLA's, under our names."""
    tensors = {
        "decoder.embedding.word.weight": golden["model.embed_tokens.weight"],
        "head.norm.gamma": golden["model.norm.weight"],
    }
    if "lm_head.weight" in golden:
        tensors["head.output.weight"] = golden["lm_head.weight"].t()
    for i in range(layers):
        ours, theirs = f"decoder.layers.{i}.", f"model.layers.{i}."
        for name, norm in _LLAMA_NORMS.items():
            tensors[f"{ours}{name}.gamma"] = golden[f"{theirs}{norm}.weight"]
        for name, linear in _LLAMA.items():
            if f"{theirs}{linear}.cola_a" in golden:
                tensors[f"{ours}{name}.a"] = golden[f"{theirs}{linear}.cola_a"]
                tensors[f"{ours}{name}.b"] = golden[f"{theirs}{linear}.cola_b"]
            else:
                tensors[f"{ours}{name}.weight"] = golden[f"{theirs}{linear}.weight"].t()
    return tensors


def published_gpt2(golden, layers):
    tensors = {
        "decoder.embedding.word.weight": golden["transformer.wte.weight"],
        "decoder.embedding.position": golden["transformer.wpe.weight"],
        "head.norm.gamma": golden["transformer.ln_f.weight"],
        "head.norm.beta": golden["transformer.ln_f.bias"],
    }
    for i in range(layers):
        ours, theirs = f"decoder.layers.{i}.", f"transformer.h.{i}."
        for name, module in _GPT2.items():
            norm = name.endswith("norm")
            for leaf, ours_leaf in (("weight", "gamma"), ("bias", "beta")):
                tensors[f"{ours}{name}.{ours_leaf if norm else leaf}"] = golden[
                    f"{theirs}{module}.{leaf}"
                ]
        for leaf in ("weight", "bias"):
            parts = golden[f"{theirs}attn.c_attn.{leaf}"].chunk(3, dim=-1)
            for part, values in zip(("query", "key", "value"), parts):
                tensors[f"{ours}attention.{part}.{leaf}"] = values
    return tensors


def config_of(given, length, cola):
    """The configuration of a published model."""
    gpt2 = "n_embd" in given
    config = ModelConfig(
        family="causal_lm",
        factorisation={},
        architecture="gpt2" if gpt2 else "llama",
        vocabulary=given["vocab_size"],
        layers=given["n_layer" if gpt2 else "num_hidden_layers"],
        hidden=given["n_embd" if gpt2 else "hidden_size"],
        ffn=given["n_inner" if gpt2 else "intermediate_size"],
        heads=given["n_head" if gpt2 else "num_attention_heads"],
        kv_heads=given["n_head" if gpt2 else "num_key_value_heads"],
        max_positions=given["n_positions"] if gpt2 else length,
        length=length,
        rope_theta=given.get("rope_theta", 1e4),
        gate_silu=not (cola and given["only_lr_act"]),
        tie_output=given["tie_word_embeddings"],
        layer_norm_epsilon=given["layer_norm_epsilon" if gpt2 else "rms_norm_eps"],
    )
    form = Factorisation()
    if cola:
        form = Factorisation(
            low_rank=LowRank("cola", given["rank"], 1, 1.0, not given["lr_act"])
        )
    return config.with_layers(
        {
            key: form if key.startswith("layers.") else Factorisation()
            for key in expected_layers(config)
        }
    )


def write_folder(folder, config, tensors):
    folder.mkdir()
    packed = {}
    for name, tensor in tensors.items():
        data = array.array("f", tensor.reshape(-1).tolist()).tobytes()
        packed[name] = safetensors.Tensor("F32", tuple(tensor.shape), data)
    weights = folder / "model.safetensors"
    safetensors.write(weights, packed)
    size = sum(t.numel() for t in tensors.values())
    document = config_to_json(config, size, weights.stat().st_size)
    (folder / "config.json").write_text(json.dumps(document))


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        torch.manual_seed(1)

    def assert_close(self, actual, expected, tolerance, what="", least=1.0):
        """`least`: smaller numbers are compared absolutely, as if they were this."""
        error = float((actual - expected).abs().max())
        largest = max(least, float(expected.abs().max()))
        self.assertLess(error, tolerance * largest, what)


class PublishedTest(FolderTest):
    def each(self, topic):
        for path in sorted(shared("golden", "causal_lm", topic).glob("*.safetensors")):
            with self.subTest(path.name):
                metadata, golden = read(path)
                cola = topic == "llama_tt_step"
                config = config_of(metadata["config"], golden["input_ids"].shape[1], cola)
                named = published_gpt2 if topic == "gpt2_step" else published_llama
                folder = self.folder / path.stem
                write_folder(folder, config, named(golden, config.layers))
                yield comera.torch.load(folder), golden, named

    def check(self, topic, files):
        count = 0
        for model, golden, named in self.each(topic):
            count += 1
            mask = (golden["segment_ids"] >= 0).long()
            inputs = {"ids": golden["input_ids"], "segments": golden["segment_ids"],
                      "mask": mask}
            logits = model(**inputs)
            kept = mask.bool()
            self.assert_close(logits[kept], golden["logits"][kept], 1e-5)
            loss = model.loss(golden["targets"], **inputs)
            self.assertAlmostEqual(float(loss), float(golden["loss"]), delta=1e-5)
            loss.backward()
            gradients = {
                name[len("grad."):]: values
                for name, values in golden.items()
                if name.startswith("grad.")
            }
            expected = named(gradients, model.config.layers)
            parameters = dict(model.named_parameters())
            self.assertEqual(set(expected), set(parameters))
            for name, values in expected.items():
                self.assert_close(parameters[name].grad, values, 1e-5, name, least=1e-2)
        self.assertEqual(count, files)

    def test_llama(self):
        self.check("llama_step", 4)

    def test_gpt2(self):
        self.check("gpt2_step", 2)

    def test_cola(self):
        self.check("llama_tt_step", 5)


def small(architecture, form="dense", **changes):
    """A small model's configuration, its blocks' layers in one form."""
    gpt2 = architecture == "gpt2"
    config = ModelConfig(
        family="causal_lm", factorisation={}, architecture=architecture, vocabulary=30,
        layers=2, hidden=12, ffn=20, heads=3, kv_heads=3 if gpt2 else 1,
        max_positions=9, length=7, tie_output=changes.pop("tie_output", gpt2),
        layer_norm_epsilon=1e-5, **changes,
    )
    forms = {}
    for key in expected_layers(config):
        part = key.split(".")[-1]
        modes = {
            "embedding": ((4, 2, 4), (3, 2, 2), (5, 4)),
            "output": ((4, 3), (4, 8), (3, 5, 4)),
            "ffn_up": ((4, 3), (5, 4), (3, 5, 4)),
            "ffn_gate": ((4, 3), (5, 4), (3, 5, 4)),
            "ffn_down": ((5, 4), (4, 3), (3, 5, 3)),
            "query": ((4, 3), (3, 4), (3, 5, 3)),
            "output_projection": ((4, 3), (3, 4), (3, 5, 3)),
        }
        if part in ("key", "value") and not gpt2:
            tt = ((4, 3), (2, 2), (3, 4, 2))
        elif key.endswith(".output"):
            tt = modes["output_projection"]
        else:
            tt = modes.get(part, modes["query"])
        block = key.startswith("layers.")
        if form == "tt" or form == "gone" and part != "value":
            forms[key] = Factorisation(*tt)
        elif form == "gone":
            forms[key] = Factorisation(tt[0], tt[1], (0, 0, 0))
        elif form == "dense" or not block:
            forms[key] = Factorisation()
        else:
            linear = form == "cola_linear"
            kind = "cola" if linear else form
            forms[key] = Factorisation(low_rank=LowRank(kind, 3, 1, 0.5, linear))
    return config.with_layers(forms)


FORMS = ("dense", "tt", "gone", "lora", "cola", "cola_linear")


class FormsTest(FolderTest):
    def model(self, config):
        model = build(config).to_empty(device="cpu")
        for name, parameter in model.named_parameters():
            centre = 1.0 if name.endswith("gamma") else 0.0
            torch.nn.init.normal_(parameter, mean=centre, std=0.4)
        return model.eval()

    def each(self):
        for architecture in ("llama", "gpt2"):
            for form in FORMS:
                for tied in (True,) if architecture == "gpt2" else (False, True):
                    with self.subTest(f"{architecture} {form} tied={tied}"):
                        yield self.model(small(architecture, form, tie_output=tied))

    def ids(self):
        return torch.randint(30, (3, 7))

    def test_dense_models_compute_the_same(self):
        for model in self.each():
            dense = comera.torch.to_dense(model)
            ids = self.ids()
            with torch.no_grad():
                self.assert_close(dense(ids), model(ids), 1e-5)
            kinds = {f.low_rank.kind for f in dense.config.factorisation.values()
                     if f.low_rank is not None}
            self.assertLessEqual(kinds, {"cola"})
            self.assertEqual(dense.ranks(), {})

    def test_saved_models_are_the_same(self):
        for index, model in enumerate(self.each()):
            folder = self.folder / str(index)
            comera.torch.save(model, folder)
            again = comera.torch.load(folder)
            self.assertEqual(again.config, model.config)
            ids = self.ids()
            with torch.no_grad():
                self.assertTrue(torch.equal(again(ids), model(ids)))

    def test_a_token_sees_its_document_up_to_itself(self):
        for model in self.each():
            ids = self.ids()
            with torch.no_grad():
                whole = model(ids)
                # Documents of 3 and 4 tokens in one row are as each alone.
                segments = torch.tensor([[0] * 3 + [1] * 4]).expand(3, -1)
                packed = model(ids, segments)
                self.assert_close(packed[:, :3], model(ids[:, :3]), 1e-5)
                self.assert_close(packed[:, 3:], model(ids[:, 3:]), 1e-5)
                # What comes later changes nothing.
                changed = torch.cat([ids[:, :5], (ids[:, 5:] + 1) % 30], dim=1)
                self.assert_close(model(changed)[:, :5], whole[:, :5], 1e-6)
                # Nor does padding, which gives numbers all the same.
                mask = torch.tensor([[1] * 5 + [0] * 2]).expand(3, -1)
                padded = model(changed, None, mask)
                self.assert_close(padded[:, :5], whole[:, :5], 1e-6)
                self.assertTrue(bool(torch.isfinite(padded).all()))

    def test_a_few_steps_lower_the_loss(self):
        for model in self.each():
            trained = [p for p in model.parameters() if p.requires_grad]
            inputs = model.next_tokens({"ids": self.ids()})
            model.train()
            optimizer = torch.optim.Adam(trained, lr=1e-2)
            losses = []
            for _ in range(15):
                optimizer.zero_grad()
                loss = model.loss(**inputs)
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            self.assertLess(losses[-1], losses[0] - 0.01)

    def test_next_tokens(self):
        model = self.model(small("llama"))
        inputs = {
            "ids": torch.tensor([[5, 6, 7, 8, 0]]),
            "segments": torch.tensor([[0, 0, 1, 1, 0]]),
            "mask": torch.tensor([[1, 1, 1, 1, 0]]),
        }
        ignored = comera.torch.IGNORED
        self.assertEqual(
            model.next_tokens(inputs)["labels"].tolist(), [[6, ignored, 8, ignored, ignored]]
        )
        self.assertEqual(
            model.next_tokens({"ids": inputs["ids"]})["labels"].tolist(),
            [[6, 7, 8, 0, ignored]],
        )

    def test_positions_begin_with_each_document(self):
        segments = torch.tensor([[0, 0, 0, 1, 2, 2], [4, 4, 1, 1, 1, -1]])
        self.assertEqual(
            positions_of(segments).tolist(), [[0, 1, 2, 0, 0, 1], [0, 1, 0, 1, 2, 0]]
        )

    def test_a_gpt2_ends_with_its_table(self):
        model = self.model(small("gpt2"))
        with self.assertRaisesRegex(ValueError, "10 tokens"):
            model(torch.zeros(1, 10, dtype=torch.long))
        self.assertEqual(self.model(small("llama"))(
            torch.zeros(1, 10, dtype=torch.long)).shape, (1, 10, 30))

    def test_damaged_configurations_are_refused(self):
        source = self.folder / "source"
        comera.torch.save(self.model(small("llama", "cola_linear")), source)
        damaged = self.folder / "damaged"

        def expect_refused(what, **changes):
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(source, damaged)
            config = json.loads((source / "config.json").read_text())
            for key, value in changes.items():
                config["model"][key] = value
            (damaged / "config.json").write_text(json.dumps(config))
            with self.subTest(what, **changes):
                with self.assertRaisesRegex(comera.IntegrityError, what):
                    comera.torch.load(damaged)

        expect_refused("architecture", architecture="rwkv")
        expect_refused("architecture", architecture=None)
        expect_refused("architecture", architecture="gpt2")
        expect_refused("kv_heads", kv_heads=2)
        expect_refused("kv_heads", kv_heads=0)
        expect_refused("rope_theta", rope_theta=0)
        expect_refused("rope_theta", rope_theta=math.inf)
        expect_refused("rope_theta", heads=4, kv_heads=1)
        expect_refused("gate_silu", gate_silu=1)
        expect_refused("hidden", heads=5)
        expect_refused("output", tie_output=True)
        low = {"kind": "lora", "rank": 3, "heads": 1, "scale": 1.0, "linear": True}
        forms = json.loads((source / "config.json").read_text())["model"]["factorisation"]
        forms["layers.0.query"]["low_rank"] = low
        expect_refused("linear", factorisation=forms)


if __name__ == "__main__":
    unittest.main()
