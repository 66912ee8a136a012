"""Checks the parts of tt_variants.py: /usr/bin/python3 tt_variants_test.py.

Not part of the test run, because it needs PyTorch.
"""
import math
import types
import unittest
from unittest import mock

import numpy
import torch

import tt_corpus
import tt_prototype
import tt_steps
import tt_training
import tt_variants

INPUTS, OUTPUTS, RANK, SIGMA = 48, 64, 10, 0.1


def generator():
    return torch.Generator().manual_seed(3)


def make(form=tt_prototype.Train, start="cores", rank=RANK):
    return form(INPUTS, OUTPUTS, rank, SIGMA, generator(), start)


def with_gradient(train, gradient):
    """Sets the gradients of sum(gradient * W)."""
    train.zero_grad()
    (train.matrix() * gradient).sum().backward()
    return train


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.x = torch.randn(5, INPUTS)
        self.gradient = torch.randn(INPUTS, OUTPUTS)

    def close(self, a, b, tolerance=1e-4):
        self.assertLess(float((a - b).abs().max()), tolerance)


class Prototype(Case):
    def test_a_train_multiplies_by_its_matrix(self):
        bias = torch.randn(OUTPUTS)
        for form in (tt_prototype.Train, tt_prototype.TangentTrain):
            for start in ("cores", "entries", "svd"):
                train = make(form, start)
                self.close(train(self.x, bias), self.x @ train.matrix() + bias)

    def test_starts_have_one_singular_value_and_a_dense_norm(self):
        for start in ("cores", "entries"):
            values = torch.linalg.svdvals(make(start=start).matrix())
            self.close(values[:RANK], values[0].expand(RANK))
            self.assertLess(values[RANK], 1e-4)
            self.assertAlmostEqual(
                float(values.norm()), SIGMA * (INPUTS * OUTPUTS) ** 0.5, 4)

    def test_the_svd_start_is_the_best_of_its_rank(self):
        dense = SIGMA * torch.randn(INPUTS, OUTPUTS, generator=generator())
        self.close(make(start="svd", rank=INPUTS).matrix(), dense)
        rest = torch.linalg.svdvals(dense)[RANK:].norm()
        error = (make(start="svd").matrix() - dense).norm()
        self.assertAlmostEqual(float(error), float(rest), 4)

    def test_the_table_is_a_tensor_train_matrix(self):
        model = tt_prototype.Model(
            2048, {k: 4 for k in ("attention", "ffn", "head", "embedding",
                            "output")}, 1)
        train = model.words.weight
        (_, m2), (n1, n2) = (tt_prototype.TABLE_ROWS[2048],
                             tt_prototype.TABLE_COLUMNS)
        i, j = 1234, 77
        row = model.words(torch.tensor([[5, i], [i, 9]]))[1, 0]
        left = train.left[i // m2 * n1 + j // n2] * train.entries
        right = train.right[:, i % m2 * n2 + j % n2]
        self.assertAlmostEqual(float(left @ right), float(row[j]), 6)

    def test_frequent_words_have_rows_of_their_own(self):
        frequent = [3, 70]
        model = tt_prototype.Model(
            2048, {k: 4 for k in ("attention", "ffn", "head", "embedding",
                            "output")}, 1, frequent=frequent)
        rows = model.words(torch.tensor([70, 5, 3]))
        self.close(rows[[2, 0]], model.words.rows, 1e-7)
        x = torch.randn(2, tt_prototype.WIDTH)
        expected = x @ model.output.columns + model.output.bias[frequent]
        self.close(model.output(x)[:, frequent], expected)

    def test_a_remainder_begins_without_effect_and_is_added(self):
        ranks = {k: 4 for k in tt_training.RANKS[2048]}
        frequent, others = [3, 70], [2, 5, 71]
        x = torch.randn(2, tt_prototype.WIDTH)
        plain = tt_prototype.Model(2048, ranks, 1)
        for tables, count in (("words", 1), ("both", 2)):
            model = tt_prototype.Model(2048, ranks, 1, frequent=frequent,
                                       remainder=tables)
            ids = torch.tensor(others + frequent)

            def changes():
                return (model.words(ids) - plain.words(ids),
                        (model.output(x) - plain.output(x))[:, ids])
            for change in changes():
                self.close(change, torch.zeros_like(change), 1e-6)
            own = model.frequent_parameters()
            self.assertEqual(len(own), count)
            for p in own:
                p.data = torch.randn_like(p)
            rows, logits = changes()
            self.close(rows[:3], torch.zeros(1), 1e-6)
            self.close(rows[3:], model.words.rows, 1e-6)
            self.close(logits[:, :3], torch.zeros(1), 1e-6)
            self.close(logits[:, 3:], x @ model.output.columns
                       if tables == "both" else torch.zeros(1), 1e-5)

    def test_a_train_for_each_head_is_a_block_of_the_weight(self):
        ranks = {k: 4 for k in tt_training.RANKS[2048]}
        block = tt_prototype.Model(2048, ranks, 1, per_head=True).blocks[0]
        width = tt_prototype.WIDTH
        head = width // tt_prototype.HEADS
        x = torch.randn(5, width)
        for layer, dim in ((block.query, 1), (block.output, 0)):
            assembled = torch.zeros(width, width)
            for i, train in enumerate(layer.weight.trains):
                self.assertEqual(train.rank, 4)
                part = assembled.narrow(dim, i * head, head)
                part += train.left * train.entries @ train.right
            self.close(layer.weight.matrix(), assembled, 1e-6)
            self.close(layer(x), x @ assembled + layer.bias)
            # The start has the norm of a dense one.
            self.assertAlmostEqual(
                float(assembled.norm()), (width / 2) ** 0.5, 4)

    def test_the_loss_and_its_gradient(self):
        logits = torch.randn(6, 9, requires_grad=True)
        labels = torch.randint(9, (6,))
        ours = tt_prototype.CrossEntropy.apply(logits, labels)
        mine, = torch.autograd.grad(ours, logits)
        theirs = torch.nn.functional.cross_entropy(logits, labels)
        other, = torch.autograd.grad(theirs, logits)
        self.close(ours, theirs, 1e-6)
        self.close(mine, other, 1e-6)


class Steps(Case):
    def test_orthogonal_steps_move_all_directions_alike(self):
        train = with_gradient(make(), self.gradient)
        before, scale = train.left.data.clone(), (
            train.left.data.norm() / RANK ** 0.5)
        tt_steps.Muon([train]).step(0.1)
        values = torch.linalg.svdvals(train.left.data - before)
        values /= 0.1 * scale
        self.assertGreater(values.min(), 0.6)
        self.assertLess(values.max(), 1.3)

    def test_scaled_steps_do_not_depend_on_the_balance_of_the_cores(self):
        changes = []
        for balance in (1, 7):
            train = make(start="svd")
            train.left.data *= balance
            train.right.data /= balance
            with_gradient(train, self.gradient)
            before = train.matrix().detach()
            tt_steps.Muon([train], gram=True, orthogonal=False).step(1e-3)
            changes.append(train.matrix().detach() - before)
        self.close(changes[0] / changes[0].norm(),
                   changes[1] / changes[1].norm(), 1e-3)

    def test_gradients_are_divided_by_the_gram_matrix_of_the_other_side(self):
        train = make(start="svd")
        train.entries.data = torch.rand(RANK) + 0.5
        for core, other in ((train.left, train.entries[:, None] * train.right),
                            (train.right, (train.left * train.entries).t())):
            gram = other.detach() @ other.detach().t()
            gram += tt_steps.DAMPING * gram.diagonal().mean() * torch.eye(RANK)
            u = torch.randn_like(core)
            scaled = tt_steps.precondition(train, core is train.left, u)
            back = scaled @ gram if core is train.left else gram @ scaled
            self.close(back, u)

    def test_riemannian_steps_go_along_the_tangent(self):
        train = with_gradient(make(tt_prototype.TangentTrain), self.gradient)
        u, v, g = train.u, train.right.data, self.gradient
        rows, columns = u @ u.t(), v.t() @ v
        tangent = rows @ g + g @ columns - rows @ g @ columns
        before = train.matrix().detach().clone()
        tt_steps.Riemannian([train], orthogonal=False).step(1e-3)
        change = train.matrix().detach() - before
        cosine = -(change * tangent).sum() / change.norm() / tangent.norm()
        self.assertGreater(float(cosine), 0.9999)
        self.close(train.u.t() @ train.u, torch.eye(RANK))

    def test_riemannian_momentum_lies_in_the_tangent_space(self):
        train = make(tt_prototype.TangentTrain)
        optimizer = tt_steps.Riemannian([train])
        for _ in range(3):
            with_gradient(train, self.gradient)
            u, v = train.u.clone(), train.right.data.clone()
            optimizer.step(0.1)
            left, right = optimizer.momenta[train]
            m = left @ right
            normal = (torch.eye(INPUTS) - u @ u.t()) @ m @ (
                torch.eye(OUTPUTS) - v.t() @ v)
            self.close(normal, torch.zeros_like(normal))

    def test_the_bound_holds(self):
        train = make()
        bound = tt_steps.SpectralBound([train], 2)
        limit = 2 * torch.linalg.svdvals(train.matrix())[0]
        train.left.data[:, 0] *= 9
        for _ in range(20):
            bound.apply()
        largest = torch.linalg.svdvals(train.matrix())[0]
        self.assertAlmostEqual(float(largest), float(limit), 3)

    def test_growth_keeps_the_matrix(self):
        train = with_gradient(make(), self.gradient)
        adamw = tt_steps.AdamW({"ranks": [train.entries]})
        muon = tt_steps.Muon([train])
        muon.step(0.1)
        adamw.step({"ranks": 0.1}, 1)
        before = train.matrix().detach()
        tt_steps.grow(train, 2 * RANK, muon, adamw, generator())
        self.close(train.matrix(), before, 1e-6)
        self.assertEqual(train.rank, 2 * RANK)
        self.close(muon.momenta[train.right][RANK:], torch.zeros(1))
        self.close(adamw.moments[train.entries][1][RANK:], torch.zeros(1))
        # The entries' gradients are 0 as long as `right` is.
        for _ in range(2):
            with_gradient(train, self.gradient)
            muon.step(0.1)
            adamw.step({"ranks": 0.1}, 1)
        self.assertGreater(float(train.right.data[RANK:].norm()), 0)
        self.assertGreater(float((train.entries.data[RANK:] - 1).norm()), 0)


def new_run(name, vocabulary=2048, steps=200):
    corpus = types.SimpleNamespace(
        special=types.SimpleNamespace(vocabulary=vocabulary), causal=True,
        counts=numpy.arange(vocabulary))
    options = types.SimpleNamespace(steps=steps, batch=2)
    return tt_training.Run(tt_training.VARIANTS[name], 1, 1, options, corpus)


class Runs(unittest.TestCase):
    def size(self, name, vocabulary):
        run = new_run(name, vocabulary)
        for step in run.growth:
            run.grow(step)
        return run.model.size()

    def test_ranks_grow_twice_without_a_change_of_the_loss(self):
        run = new_run("grow_twice", steps=12)
        self.assertEqual(run.growth, [2, 4])
        rng = numpy.random.default_rng(1)
        batch = tt_corpus.shifted(
            rng.integers(2048, size=(2, tt_prototype.LENGTH)))
        ids, places, _ = map(torch.from_numpy, batch)
        ranks = [{train.rank for train in run.trains}]
        for step in range(6):
            if step in run.growth:
                before = run.model(ids, places)
                run.grow(step)
                change = run.model(ids, places) - before
                self.assertLess(float(change.abs().max()), 1e-4)
                ranks.append({train.rank for train in run.trains})
            run.train_step(step, batch)
        self.assertEqual(ranks, [{6, 5, 4}, {12, 11, 8}, {24, 22, 16}])

    def test_dense_rows_of_frequent_words_have_their_own_rate(self):
        for name in ("frequent", "remainder_both_64"):
            groups = new_run(name).adamw.groups
            self.assertEqual(sum(p.numel() for p in groups["frequent"]),
                             2 * 64 * tt_prototype.WIDTH)
            self.assertFalse({id(p) for p in groups["frequent"]} & {
                id(p) for p in groups["other"]})

    def test_blocks_have_ranks_of_their_own(self):
        for name, expected in (("first_block", [32, 16]),
                               ("second_block", [16, 32])):
            model = new_run(name).model
            for block, rank in zip(model.blocks, expected):
                for layer in (block.query, block.output, block.up, block.down):
                    self.assertEqual(layer.weight.rank, rank)
            self.assertEqual(model.transform.weight.rank, 24)

    def test_no_variant_is_larger_than_the_baseline(self):
        for vocabulary in tt_training.RANKS:
            most = self.size("baseline", vocabulary)
            for name in tt_training.VARIANTS:
                if name != "dense":
                    with self.subTest(name=name, vocabulary=vocabulary):
                        size = self.size(name, vocabulary)
                        self.assertLessEqual(size, most)
                        self.assertGreater(size, 0.99 * most)


class Corpus(unittest.TestCase):
    def test_windows_and_masks(self):
        class Special:
            all, begin, end, mask = [0, 1, 2, 3, 4], 0, 2, 4
            ordinary = numpy.arange(5, 2048)
        text = numpy.arange(100, 100 + 7 * 62)
        rows = tt_corpus.windows([text, text[:200]], 64, Special)
        self.assertEqual(rows.shape, (7 + 3, 64))
        self.assertEqual(rows[0, 1], 100)
        self.assertEqual(rows[7, 1], 100)
        inputs, places, labels = tt_corpus.mask(
            numpy.random.default_rng(1), rows, Special)
        flat = rows.reshape(-1)
        self.assertTrue((flat[places] == labels).all())
        untouched = numpy.ones(rows.size, bool)
        untouched[places] = False
        self.assertTrue((inputs.reshape(-1) == flat)[untouched].all())
        self.assertFalse(numpy.isin(labels, Special.all).any())
        self.assertAlmostEqual(len(places) / (10 * 62), 0.15, 2)


class Search(unittest.TestCase):
    """Runs whose loss depends on the factor and the seed alone."""

    def measure(self, losses, most=math.inf, **options):
        begun = []

        class Run:
            def __init__(self, variant, factor, seed, options, corpus):
                begun.append((factor, seed))
                self.loss = losses[factor] + 0.01 * seed

            def run(self, give_up):
                third = self.loss + 1
                steps = [(20, third)]
                if third <= give_up:
                    steps.append((60, self.loss))
                return {"curve": [{"step": s, "loss": l} for s, l in steps],
                        "parameters": 5, "seconds_per_step": 0.5,
                        "finished": third <= give_up}
        options = types.SimpleNamespace(**{
            "factors": "", "task": "causal", "vocabulary": 2048, "steps": 60,
            "batch": 8, "seeds": 3, "report": False, **options})
        results = types.SimpleNamespace(get=lambda key, make: make())
        with mock.patch.object(tt_variants, "Run", Run), mock.patch(
                "sys.stderr"):
            return begun, tt_variants.measure(options, "baseline", None,
                                              results, most)

    def test_the_best_factor_gets_the_other_seeds(self):
        begun, (tried, best, runs) = self.measure({1: 5, 1 / 3: 4.9, 3: 9})
        self.assertEqual(best, 1 / 3)
        self.assertEqual(begun, [(1, 1), (1 / 3, 1), (3, 1), (1 / 3, 2),
                                 (1 / 3, 3)])
        self.assertFalse(tried[3]["finished"])
        self.assertEqual([round(tt_variants.final(r), 2) for r in runs],
                         [4.91, 4.92, 4.93])
        table = tt_variants.table({"baseline": (tried, best, runs)})
        self.assertIn("**0.333**, 1, 3 | 4.920 ± 0.008 | +0.000, ", table)

    def test_what_loses_clearly_gets_no_other_seeds(self):
        begun, (_, _, runs) = self.measure({1: 5, 1 / 3: 5, 3: 5}, most=4)
        self.assertEqual([seed for _, seed in begun], [1, 1, 1])
        self.assertEqual(len(runs), 1)

    def test_a_report_measures_nothing(self):
        begun, measured = self.measure({}, report=True)
        self.assertEqual((begun, measured), ([], None))

    def test_the_rates_warm_up_and_fall(self):
        scales = [tt_training.scale_at(step, 100) for step in range(100)]
        self.assertAlmostEqual(scales[0], 0.1)
        self.assertEqual(max(scales), 1)
        self.assertEqual(scales.index(1), 9)
        self.assertAlmostEqual(scales[-1], 1 / 90)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
