"""tensorize() and compact(): layers of any module as tensor trains."""

import copy
import json
import math
import unittest
from itertools import combinations
from unittest import mock

import torch
from torch import nn

import comera.torch
from comera.torch import Factorisation, TensorizeError, TTLinear, TTMEmbedding, tensorize
from comera.torch.contraction import choose_path, multiply, path_cost, train_product
from plain_models import Gpt
from programs import shared
from torch_golden_test import read


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Elements of the largest tensor that anything computes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for one in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.numel())
        return result


class ContractionTest(unittest.TestCase):
    def test_every_path_computes_the_same(self):
        torch.manual_seed(1)
        modes, bonds = (3, 2, 4, 5, 2), (1, 3, 6, 4, 2, 1)
        cores = [
            torch.randn(bonds[i], n, bonds[i + 1], dtype=torch.float64, requires_grad=True)
            for i, n in enumerate(modes)
        ]
        x = torch.randn(7, 6, dtype=torch.float64, requires_grad=True)
        weight = train_product(cores).reshape(6, 40)
        chosen = set()
        for outputs in (40, 37):
            expected = x @ weight[:, :outputs]
            grads = torch.autograd.grad(expected.square().sum(), [x, *cores], retain_graph=True)
            for rows in (1, 2, 7, 1000, 10**6):
                shapes = tuple(tuple(c.shape) for c in cores)
                chosen.add(choose_path(shapes, 2, rows, False, outputs < 40))
            for split_only in (True, False):
                y = multiply(x, cores, 2, outputs, (lambda t: t) if split_only else None)
                self.assertTrue(torch.allclose(y, expected))
                ours = torch.autograd.grad(y.square().sum(), [x, *cores])
                for a, b in zip(ours, grads):
                    self.assertTrue(torch.allclose(a, b))
        # Ranks as large as these pay for W itself where rows are many.
        self.assertIn((5,), chosen)

    def test_paths_by_force(self):
        torch.manual_seed(2)
        modes, bonds = (3, 2, 2, 4, 5), (1, 3, 4, 4, 2, 1)
        cores = [torch.randn(bonds[i], n, bonds[i + 1]).double() for i, n in enumerate(modes)]
        x = torch.randn(7, 12).double()
        expected = x @ train_product(cores).reshape(12, 20)
        for cuts in (c for n in range(5) for c in combinations(range(1, 5), n)):
            with self.subTest(cuts):
                path = mock.patch(
                    "comera.torch.contraction.choose_path", lambda *_: (*cuts, 5)
                )
                with path:
                    self.assertTrue(torch.allclose(multiply(x, cores, 3, 20), expected))

    def test_gradients_of_inputs_are_contiguous(self):
        # PyTorch 1.13's GELU has wrong gradients on a CPU where they are not.
        torch.manual_seed(3)
        modes, bonds = (4, 8, 8, 2), (1, 4, 6, 2, 1)
        cores = [torch.randn(bonds[i], n, bonds[i + 1]) for i, n in enumerate(modes)]
        x = torch.randn(3, 5, 32, requires_grad=True)
        for cuts in (c for n in range(4) for c in combinations(range(1, 4), n)):
            path = mock.patch("comera.torch.contraction.choose_path", lambda *_: (*cuts, 4))
            with self.subTest(cuts), path:

                def gradient(x, cores):
                    rows = nn.functional.gelu(x).reshape(15, 32)
                    y = multiply(rows, cores, 2, 16).reshape(3, 5, 16)
                    return torch.autograd.grad(y.square().sum(), x)[0]

                ours = gradient(x, cores)
                exact = gradient(x.double(), [core.double() for core in cores])
                error = float((ours - exact).abs().max() / exact.abs().max())
                self.assertLess(error, 1e-5)

    def test_the_cheapest_path_is_taken(self):
        # BERT's 768 x 768: core by core for few tokens, A and B for many.
        modes, bonds = (12, 8, 8, 8, 8, 12), (1, 12, 30, 30, 30, 12, 1)
        shapes = tuple((bonds[i], n, bonds[i + 1]) for i, n in enumerate(modes))
        self.assertEqual(choose_path(shapes, 3, 4096, False, False), (3, 6))
        self.assertGreater(len(choose_path(shapes, 3, 1, False, False)), 2)
        # 12.8 times fewer multiply-adds than dense (REFERENCE.md, "Contraction").
        batch = path_cost(shapes, 3, (3, 6), 8192) - path_cost(shapes, 3, (3, 6), 4096)
        self.assertEqual(batch, 4096 * 30 * (768 + 768))

    def test_no_matrix_is_formed_where_factors_are_cheaper(self):
        layer = tensorize(nn.Linear(2048, 2048), 8, start="scratch")
        x = torch.randn(16, 2048, requires_grad=True)
        with LargestTensor() as watch:
            layer(x).square().sum().backward()
        self.assertLess(watch.elements, 2048 * 2048 // 8)
        self.assertGreater(watch.elements, 0)


class GoldenTest(unittest.TestCase):
    """Layers with rank entries against the published code's recorded numbers."""

    def check(self, layer, golden, x, bias):
        with torch.no_grad():
            for i, core in enumerate(layer.core):
                core.copy_(golden[f"core.{i}"])
            for i, entries in enumerate(layer.rank):
                entries.copy_(golden[f"rank.{i}"])
        if bias is not None:
            with torch.no_grad():
                layer.bias.copy_(bias)
        y = layer(x)
        (y * golden["grad_y"]).sum().backward()
        pairs = [("y", y)]
        pairs += [(f"grad_core.{i}", core.grad) for i, core in enumerate(layer.core)]
        pairs += [(f"grad_rank.{i}", d.grad) for i, d in enumerate(layer.rank)]
        if "grad_x" in golden:
            pairs += [("grad_x", x.grad), ("grad_bias", layer.bias.grad)]
        for name, actual in pairs:
            with self.subTest(name):
                error = float((actual - golden[name]).abs().max())
                scale = max(1.0, float(golden[name].abs().max()))
                self.assertLess(error, 1e-5 * scale)
        # Entries at or below the threshold have no gradient.
        dead = torch.cat([d.grad[d <= 1e-2] for d in layer.rank])
        self.assertGreater(len(dead), 0)
        self.assertEqual(float(dead.abs().max()), 0)

    def test_linear(self):
        for path in sorted(shared("golden").glob("tt_linear_*.safetensors")):
            with self.subTest(path.name):
                metadata, golden = read(path)
                modes = json.loads(metadata["shape"])
                half = len(modes) // 2
                form = Factorisation(
                    tuple(modes[:half]), tuple(modes[half:]),
                    tuple(json.loads(metadata["ranks"])[1:-1]),
                )
                plain = nn.Linear(golden["x"].shape[-1], golden["y"].shape[-1])
                x = golden["x"].clone().requires_grad_()
                layer = tensorize(plain, form, start="scratch")
                self.check(layer, golden, x, golden["bias"])

    def test_embedding(self):
        for path in sorted(shared("golden").glob("ttm_embedding_*.safetensors")):
            with self.subTest(path.name):
                metadata, golden = read(path)
                rows = tuple(json.loads(metadata["row_shape"]))
                columns = tuple(json.loads(metadata["col_shape"]))
                form = Factorisation(
                    rows, columns, tuple(json.loads(metadata["ranks"])[1:-1])
                )
                plain = nn.Embedding(math.prod(rows), math.prod(columns))
                self.check(tensorize(plain, form, start="scratch"), golden, golden["ids"], None)


class TensorizeTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def model(self):
        return nn.ModuleDict(
            {
                "words": nn.Embedding(500, 32),
                "body": nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)),
                "head": nn.Linear(32, 3),
            }
        )

    def test_everything_that_gains_is_replaced(self):
        model = tensorize(self.model(), 6)
        self.assertIsInstance(model["words"], TTMEmbedding)
        self.assertIsInstance(model["body"][0], TTLinear)
        self.assertIsInstance(model["body"][2], TTLinear)
        self.assertIsInstance(model["head"], nn.Linear)
        self.assertEqual(model["body"][0].bond_ranks(), [6])
        for layer in (model["words"], model["body"][0]):
            self.assertTrue(all(bool((d == 1).all()) for d in layer.rank))

    def test_full_ranks_are_the_weights_that_were_there(self):
        model = self.model()
        other = copy.deepcopy(model)
        forms = {
            "words": Factorisation((10, 10, 5), (4, 4, 2), (40, 10)),
            "body.0": Factorisation((8, 4), (8, 8), (8, 32, 8)),
        }
        with self.assertRaisesRegex(TensorizeError, "words: is too small to gain"):
            tensorize(model, forms)
        self.assertIsInstance(model["words"], nn.Embedding)
        # A weight of low rank is found with few parameters.
        with torch.no_grad():
            low = torch.randn(64, 3) @ torch.randn(3, 32)
            other["body"][0].weight.copy_(low)
            # A row's number and column as a product of two digits' functions.
            rows = torch.einsum("ab,cd->acbd", torch.randn(25, 8), torch.randn(20, 4))
            other["words"].weight.copy_(rows.reshape(500, 32))
        x, ids = torch.randn(7, 32), torch.randint(500, (4, 9))
        expected = other["body"][0](x), other["words"](ids)
        bias = other["body"][0].bias
        tensorize(
            other,
            {"body.0": 3, "words": Factorisation((25, 20), (8, 4), (2,))},
        )
        self.assertIs(other["body"][0].bias, bias)
        for actual, wanted in zip((other["body"][0](x), other["words"](ids)), expected):
            self.assertTrue(torch.allclose(actual, wanted, atol=1e-4))

    def test_scratch_has_equal_singular_values_and_the_norm_of_a_dense_start(self):
        layer = tensorize(nn.Linear(96, 160), (4, 9, 9, 9, 4), start="scratch")
        values = torch.linalg.svdvals(layer.dense_weight().detach())
        self.assertTrue(torch.allclose(values[:9], values[0].expand(9), rtol=1e-4))
        self.assertLess(float(values[9]), 1e-5)
        norm = math.sqrt(96 * 160 / (96 + 160))
        self.assertAlmostEqual(float(layer.dense_weight().detach().norm()), norm, places=3)
        table = tensorize(nn.Embedding(600, 32), 5, start="scratch")
        rows = math.prod(table.row_modes)
        deviation = float(table.dense_weight().detach().norm()) / math.sqrt(600 * 32)
        self.assertAlmostEqual(deviation, 0.02, delta=0.02 * (rows / 600 - 1) + 2e-3)
        generator = torch.Generator().manual_seed(7)
        first = tensorize(nn.Linear(64, 64), 4, start="scratch", generator=generator)
        generator = torch.Generator().manual_seed(7)
        second = tensorize(nn.Linear(64, 64), 4, start="scratch", generator=generator)
        self.assertTrue(torch.equal(first.core[0], second.core[0]))

    def test_modes_are_the_engines(self):
        layer = tensorize(nn.Linear(768, 3072), 30, start="scratch")
        self.assertEqual([c.shape[1] for c in layer.core], [12, 8, 8, 12, 16, 16])
        self.assertEqual(layer.bond_ranks(), [12, 30, 30, 30, 16])

    def test_names_and_patterns(self):
        def chosen(**arguments):
            model = tensorize(self.model(), 4, **arguments)
            return [n for n, m in model.named_modules() if hasattr(m, "core")]

        self.assertEqual(chosen(include="body"), ["body.0", "body.2"])
        self.assertEqual(chosen(include=["body.?"], exclude="body.2"), ["body.0"])
        self.assertEqual(chosen(exclude="words"), ["body.0", "body.2"])

    def test_mistakes_name_the_submodule(self):
        def tied():
            model = self.model()
            model["body"][2].weight = nn.Parameter(model["body"][0].weight.detach().t())
            model["other"] = nn.Linear(64, 32)
            model["other"].weight = model["body"][2].weight
            return model

        def frozen():
            model = self.model()
            model["body"][0].weight.requires_grad_(False)
            return model

        def hooked():
            model = self.model()
            model["body"][0].register_forward_hook(lambda *_: None)
            return model

        def attention():
            return nn.TransformerEncoderLayer(32, 4, 64)

        def padded():
            model = nn.ModuleDict({"words": nn.Embedding(500, 32, padding_idx=0)})
            with torch.no_grad():
                model["words"].weight[0] = 1
            return model

        for make, arguments, name, what in (
            (self.model, {"include": "bdy"}, "bdy", "matches no submodule; there are words"),
            (self.model, {"exclude": "x.*"}, "x.*", "exclude matches no submodule"),
            (self.model, {"include": "body.1"}, "body.1", "names no nn.Linear"),
            (self.model, {"ranks": {"x": 3}}, "x", "ranks matches no submodule"),
            (self.model, {"ranks": {"body": 3}, "include": "*"}, "words", "has no ranks"),
            (self.model, {"ranks": 0}, "words", "rank 0: ranks begin at 1"),
            (self.model, {"ranks": True}, "words", "rank True"),
            (self.model, {"ranks": [3, 0, 3]}, "words", "rank 0"),
            (self.model, {"ranks": {"body": [3, 3]}}, "body.0", "odd number of bonds"),
            (self.model, {"include": "head"}, "head", "too small to gain: at ranks"),
            (self.model, {"include": "h*"}, "", "nothing is left to tensorise: head is too"),
            (
                self.model, {"ranks": {"head": Factorisation((5,), (3,), (1,))}}, "head",
                "modes .5. for a width of 32",
            ),
            (
                self.model, {"ranks": {"head": Factorisation((32,), (3,), (0,))}}, "head",
                "ranks begin at 1",
            ),
            (tied, {"include": "other"}, "other", "shares its weight with body.2"),
            (frozen, {"include": "body.0"}, "body.0", "is frozen"),
            (hooked, {"include": "body.0"}, "body.0", "has hooks"),
            (padded, {"include": "words"}, "words", "padding row that is not 0"),
            (
                attention, {"include": "self_attn.out_proj"}, "self_attn.out_proj",
                "is a NonDynamicallyQuantizableLinear",
            ),
        ):
            with self.subTest(what):
                model = make()
                before = [type(m) for m in model.modules()]
                with self.assertRaisesRegex(TensorizeError, what) as caught:
                    tensorize(model, **{"ranks": 4, **arguments})
                self.assertEqual(caught.exception.submodule, name)
                self.assertEqual([type(m) for m in model.modules()], before)
        with self.assertRaisesRegex(ValueError, "start"):
            tensorize(self.model(), 4, start="svd")

    def test_what_shares_a_weight_stays_dense_by_default(self):
        model = self.model()
        model["other"] = nn.Linear(32, 64)
        model["other"].weight = model["body"][0].weight
        with self.assertLogs("comera.torch", "INFO") as log:
            tensorize(model, 4)
        self.assertIs(model["other"].weight, model["body"][0].weight)
        self.assertRegex(" ".join(log.output), "other stays as it is: it shares its weight")

    def test_a_layer_at_two_places_is_one_layer_afterwards(self):
        model = self.model()
        model["again"] = model["body"][0]
        tensorize(model, 4)
        self.assertIsInstance(model["again"], TTLinear)
        self.assertIs(model["again"], model["body"][0])

    def test_tied_output(self):
        model = Gpt(400, width=32, positions=16)
        with self.assertRaisesRegex(TensorizeError, "word: shares.*output is left out"):
            tensorize(copy.deepcopy(model), 8, include="word")
        tensorize(model, 8, start="scratch")
        self.assertIs(model.output.table, model.word)
        ids = torch.randint(400, (2, 9))
        h = torch.randn(2, 9, 32)
        self.assertTrue(
            torch.allclose(model.output(h), h @ model.word.dense_weight().t(), atol=1e-5)
        )
        model(ids).square().mean().backward()
        self.assertGreater(float(model.word.core[0].grad.abs().max()), 0)
        self.assertEqual(
            comera.torch.num_parameters(model),
            sum(p.numel() for n, p in model.named_parameters() if ".rank." not in n),
        )

    def test_padding_stays_0(self):
        table = nn.Embedding(500, 32, padding_idx=3)
        table = tensorize(table, 4, start="scratch")
        rows = table(torch.tensor([3, 4]))
        self.assertEqual(float(rows[0].abs().max()), 0)
        self.assertGreater(float(rows[1].abs().max()), 0)
        rows[0].sum().backward()
        self.assertEqual(float(table.core[0].grad.abs().max()), 0)

    def test_autocast(self):
        torch.manual_seed(2)
        layers = nn.Embedding(500, 32), nn.LayerNorm(32), nn.Linear(32, 64)
        model = nn.Sequential(*layers)
        tensorize(model, 4, start="scratch")
        ids = torch.randint(500, (6,))
        expected = model(ids)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(model[0](ids).dtype, torch.float32)
            y = model(ids)
        self.assertLess(float((y - expected).abs().max()), 0.05)
        y.float().sum().backward()
        self.assertTrue(all(p.grad is not None for p in model.parameters()))

    def test_the_transformer_of_torch(self):
        layer = nn.TransformerEncoderLayer(32, 4, 128, dropout=0.0, batch_first=True)
        model = nn.TransformerEncoder(layer, 2)
        # What later versions of PyTorch have: nested tensors, and nn.Linear's weights.
        model.use_nested_tensor = True
        tensorize(model, 4)
        linear = model.layers[0].linear1
        self.assertEqual((linear.in_features, linear.out_features), (32, 128))
        with self.assertRaisesRegex(RuntimeError, r"an input \(2, 64\) for 32 inputs"):
            linear(torch.ones(2, 64))
        self.assertFalse(model.use_nested_tensor)
        self.assertIsInstance(model.layers[1].linear1, TTLinear)
        x = torch.randn(2, 5, 32)
        for padding in (None, torch.tensor([[False] * 5, [False] * 3 + [True] * 2])):
            trained = model.train()(x, src_key_padding_mask=padding).detach()
            with torch.no_grad():
                evaluated = model.eval()(x, src_key_padding_mask=padding)
            self.assertTrue(torch.allclose(evaluated, trained, atol=1e-5))


class CompactTest(unittest.TestCase):
    """Two copies of a model, one compacted: the same outputs, the same steps."""

    def model(self):
        torch.manual_seed(6)
        model = nn.ModuleDict(
            {
                "words": nn.Embedding(300, 32),
                "fc": nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32)),
            }
        )
        forms = {"words": 6, "fc.0": (4, 9, 8), "fc.2": 7}
        return tensorize(model, forms, start="scratch")

    def train(self, model, optimizer, steps, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            ids = torch.randint(300, (16,), generator=generator)
            optimizer.zero_grad()
            (model["fc"](model["words"](ids)) - 1).square().mean().backward()
            optimizer.step()

    def check(self, make, keys, names=("words", "fc.0", "fc.2"), dead=slice(1, 3)):
        model, other = self.model(), self.model()
        optimizer, same = make(model.parameters()), make(other.parameters())
        for m, o in ((model, optimizer), (other, same)):
            self.train(m, o, 5, 1)
            with torch.no_grad():
                for name in names:
                    for entries in m.get_submodule(name).rank:
                        entries[dead] = 0.003
        ids = torch.arange(300)
        before = model["fc"](model["words"](ids)).detach()
        count = sum(p.numel() for p in model.parameters())
        removed = comera.torch.compact(model, optimizer)
        self.assertGreater(removed, 0)
        self.assertEqual(sum(p.numel() for p in model.parameters()), count - removed)
        self.assertEqual(comera.torch.compact(model, optimizer), 0)
        after = model["fc"](model["words"](ids)).detach()
        self.assertLess(float((after - before).abs().max()), 1e-6)
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        self.assertEqual(held, {id(p) for p in model.parameters()})
        for p in model.parameters():
            for key in keys:
                self.assertEqual(optimizer.state[p][key].shape, p.shape)
        self.assertEqual(set(optimizer.state), set(model.parameters()))
        self.train(model, optimizer, 5, 2)
        self.train(other, same, 5, 2)
        a = model["fc"](model["words"](ids))
        b = other["fc"](other["words"](ids))
        self.assertLess(float((a - b).abs().max()), 1e-6)
        return model

    def test_adamw(self):
        self.check(
            lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True),
            ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
        )

    def test_sgd_with_momentum(self):
        self.check(
            lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9), ("momentum_buffer",)
        )

    def test_a_layer_that_is_gone_is_its_bias(self):
        model = self.check(
            lambda p: torch.optim.AdamW(p, lr=1e-3), ("exp_avg",), ["fc.0"],
            dead=slice(None),
        )
        x = torch.randn(3, 32, requires_grad=True)
        y = model["fc"][0](x)
        self.assertTrue(torch.equal(y, model["fc"][0].bias.expand(3, 64)))
        y.sum().backward()
        self.assertEqual(float(x.grad.abs().max()), 0)

    def test_state_that_cannot_be_cut_is_refused(self):
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        core = model["fc"][0].core[1]
        optimizer.state[core]["exp_avg_sq_row"] = torch.zeros(core.shape[0])
        with torch.no_grad():
            model["fc"][0].rank[1][0] = 0
        with self.assertRaisesRegex(ValueError, "fc.0: SGD keeps 'exp_avg_sq_row'"):
            comera.torch.compact(model, optimizer)
        self.assertIs(model["fc"][0].core[1], core)

    def test_states_of_other_ranks_are_loaded(self):
        model = self.check(lambda p: torch.optim.SGD(p, lr=1e-2), ())
        fresh = self.model()
        optimizer = torch.optim.AdamW(fresh.parameters())
        self.train(fresh, optimizer, 1, 3)
        comera.torch.load_state_dict(fresh, model.state_dict(), optimizer)
        ids = torch.arange(300)
        self.assertTrue(
            torch.equal(fresh["fc"](fresh["words"](ids)), model["fc"](model["words"](ids)))
        )
        self.train(fresh, optimizer, 1, 3)
        with self.assertRaisesRegex(RuntimeError, r"fc.0.core.0 is \(1, 5, 4\)"):
            state = dict(model.state_dict())
            state["fc.0.core.0"] = torch.zeros(1, 5, 4)
            comera.torch.load_state_dict(fresh, state)
        with self.assertRaisesRegex(RuntimeError, "words.core.0 is not in the state"):
            comera.torch.load_state_dict(fresh, {})

    def test_a_layer_that_was_gone_learns_again_with_a_state_in_which_it_is_there(self):
        model = self.model()
        state = copy.deepcopy(model.state_dict())
        with torch.no_grad():
            model["fc"][0].rank[1].zero_()
        comera.torch.compact(model)
        self.assertFalse(any(p.requires_grad for p in model["fc"][0].core))
        comera.torch.load_state_dict(model, state)
        self.assertTrue(all(p.requires_grad for p in model.parameters()))


if __name__ == "__main__":
    unittest.main()
