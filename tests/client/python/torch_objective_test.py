"""comera.torch.Objective against the formulas, the published run and the engine's
rules."""

import hashlib
import json
import math
import unittest

import torch
from torch import nn

import comera.torch
from comera.torch import Factorisation, Objective, tensorize
from comera.torch.pruning import Prunable, choose_entries
from plain_models import Bert
from programs import shared
from torch_golden_test import read


def small_model():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(24, 30), nn.Tanh(), nn.Linear(30, 24))
    forms = {
        "0": Factorisation((4, 3, 2), (2, 3, 5), (3, 5, 6, 4, 3)),
        "2": Factorisation((30,), (24,), (7,)),
    }
    tensorize(model, forms, start="scratch")
    with torch.no_grad():
        for layer in (model[0], model[2]):
            for entries in layer.rank:
                entries.uniform_(0.2, 1.5)
        # Below the threshold, so dead.
        model[0].rank[1][2] = 0.005
        model[0].rank[3][0] = -0.5
    return model


def relaxed_size(model):
    """S^ as REFERENCE.md has it, with a graph."""
    total = 0.0
    for layer in (model[0], model[2]):
        norms = [torch.ones(()).double()]
        norms += [(d.double() * (d > 1e-2)).abs().sum() for d in layer.rank]
        norms += [torch.ones(()).double()]
        modes = layer.size_modes()
        total = total + sum(n * norms[i] * norms[i + 1] for i, n in enumerate(modes))
    return total


class EarlyTest(unittest.TestCase):
    def test_gradients_are_those_of_loss_size_and_decay(self):
        model, other = small_model(), small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        objective = Objective(model, optimizer, gamma=0.7, beta=1e-3)
        x, y = torch.randn(9, 24), torch.randn(9, 24)
        step = objective.backward(nn.functional.mse_loss(model(x), y))

        fixed = 30 + 24
        initial = fixed + float(objective.measure.measure().counted)
        cores = [core for layer in (other[0], other[2]) for core in layer.core]
        decay = sum((core**2).sum() for core in cores)
        loss = nn.functional.mse_loss(other(x), y)
        (loss + 0.7 * relaxed_size(other) / initial + 1e-3 * decay).backward()
        for (name, p), q in zip(model.named_parameters(), other.parameters()):
            with self.subTest(name):
                self.assertLess(float((p.grad - q.grad).abs().max()), 1e-6)
        self.assertAlmostEqual(
            step.relaxed_size, fixed + float(relaxed_size(other)), places=3
        )
        # Bonds 3, 4 of 5, 6, 3 of 4, 3; and 7.
        counted = 4 * 3 + 3 * 3 * 4 + 2 * 4 * 6 + 2 * 6 * 3 + 3 * 3 * 3 + 5 * 3
        counted += 30 * 7 + 7 * 24
        self.assertEqual(step.size, fixed + counted)
        self.assertEqual(step.alive_entries, 3 + 4 + 6 + 3 + 3 + 7)
        self.assertEqual(comera.torch.num_parameters(model), step.size)
        self.assertEqual(
            comera.torch.ranks(model), {"0": [3, 4, 6, 3, 3], "2": [7]}
        )
        self.assertEqual(float(model[0].rank[1].grad[2]), 0)

    def test_the_size_term_prunes_and_the_model_gets_smaller(self):
        model = small_model()
        groups = comera.torch.parameter_groups(model, cores=1e-3, ranks=0.05)
        optimizer = torch.optim.AdamW(groups)
        objective = Objective(model, optimizer, gamma=30.0, compact_every=10)
        x = torch.randn(64, 24)
        before = sum(p.numel() for p in model.parameters())
        for _ in range(30):
            optimizer.zero_grad()
            objective.backward(0.01 * model(x).square().mean())
            objective.step()
        self.assertLess(sum(p.numel() for p in model.parameters()), before / 2)

    def test_mistakes_are_refused(self):
        plain = nn.Linear(8, 8)
        with self.assertRaisesRegex(ValueError, "no rank entries"):
            Objective(plain, torch.optim.SGD(plain.parameters(), lr=1))
        stale = nn.Sequential(nn.Linear(64, 64))
        optimizer = torch.optim.SGD(stale.parameters(), lr=1)
        tensorize(stale, 4)
        with self.assertRaisesRegex(ValueError, "create it after"):
            Objective(stale, optimizer)
        model = small_model()
        part = torch.optim.SGD([*model[0].parameters(), *model[2].rank], lr=1)
        with self.assertRaisesRegex(ValueError, "2: the optimiser has not all"):
            Objective(model, part)
        optimizer = torch.optim.SGD(model.parameters(), lr=1)
        with self.assertRaisesRegex(RuntimeError, "before step"):
            Objective(model, optimizer).step()
        with self.assertRaisesRegex(ValueError, "kind"):
            Objective(model, optimizer, kind="late")
        objective = Objective(model, optimizer)
        for arguments, what in (
            ({}, "either"),
            ({"target_size": 500, "target_ratio": 0.5}, "either"),
            ({"target_ratio": 1.5}, "target_ratio"),
            ({"target_size": 53}, "below the 54"),
            ({"target_size": 500, "mode": "fast"}, "mode"),
            ({"target_size": 500, "max_steps": 0}, "max_steps"),
            ({"target_size": 500, "floors": {"x*": 2}}, "matches no layer"),
        ):
            with self.subTest(what), self.assertRaisesRegex(ValueError, what):
                objective.begin_late(0.1, **arguments)
        comera.torch.compact(model, optimizer)
        with self.assertRaisesRegex(RuntimeError, "Objective.compact"):
            objective.backward(model(torch.ones(1, 24)).sum())


def published_model(config, golden):
    """The model of the published run in torch.nn, made of tensor trains, and the
    names that its parameters have in the file."""
    shape = json.loads(config)
    rows, columns = shape["emb"]
    model = Bert(
        math.prod(rows), shape["d"], shape["heads"], shape["h"], shape["layers"],
        shape["pos"],
    )

    def form(key):
        modes, ranks = shape[key]
        half = len(modes) // 2
        return Factorisation(tuple(modes[:half]), tuple(modes[half:]), tuple(ranks[1:-1]))

    table = Factorisation(tuple(rows), tuple(columns), tuple(shape["embr"][1:-1]))
    tensorize(
        model,
        {"word": table, "*.up": form("ff1"), "*.down": form("ff2"), "*": form("attn")},
        exclude="fc2",
    )
    names = {"word": "encoder.embedding.word_emb", "fc1": "classifier.fc1.layer"}
    dense = {
        "position": "encoder.embedding.position_emb.weight",
        "segment": "encoder.embedding.token_type_emb.weight",
        "fc2": "classifier.fc2.layer",
        "norm": "encoder.embedding.layer_norm",
    }
    for i in range(shape["layers"]):
        block = f"encoder.encoder_blocks.{i}"
        for ours, theirs in (
            ("attention.query", "slf_attn.w_qs"), ("attention.key", "slf_attn.w_ks"),
            ("attention.value", "slf_attn.w_vs"), ("attention.output", "slf_attn.fc"),
            ("up", "pos_ffn.fc_1"), ("down", "pos_ffn.fc_2"),
        ):
            names[f"blocks.{i}.{ours}"] = f"{block}.{theirs}.layer"
        dense[f"blocks.{i}.norm1"] = f"{block}.slf_attn.layer_norm"
        dense[f"blocks.{i}.norm2"] = f"{block}.pos_ffn.layer_norm"

    def published(name):
        layer, _, rest = name.rpartition(".core.")
        kind = "factors"
        if not layer:
            layer, _, rest = name.rpartition(".rank.")
            kind = "rank_parameters"
        if layer:
            return f"{names[layer]}.tensor.{kind}.{rest}"
        layer, _, last = name.rpartition(".")
        known = {**names, **dense}
        return f"{known[layer]}.{last}" if layer in known else known[name]

    return model, {name: published(name) for name, _ in model.named_parameters()}


class PublishedTest(unittest.TestCase):
    def load(self, model, names, golden, prefix):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(golden[f"{prefix}.{names[name]}"])

    def test_one_step_of_a_whole_model(self):
        metadata, golden = read(shared("golden", "encoder_classifier_step.safetensors"))
        model, names = published_model(metadata["config"], golden)
        self.load(model, names, golden, "param")
        logits = model(golden["ids"], golden["segments"], golden["mask"])
        loss = nn.functional.cross_entropy(logits, golden["labels"])
        loss.backward()
        self.assertLess(float((logits - golden["logits"]).abs().max()), 1e-5)
        self.assertLess(abs(float(loss) - float(golden["loss"])), 1e-5)
        entries = 0
        for name, parameter in model.named_parameters():
            expected = golden[f"grad.{names[name]}"]
            error = float((parameter.grad - expected).abs().max())
            with self.subTest(name):
                self.assertLess(error, 1e-5 * max(1.0, float(expected.abs().max())))
            entries += ".rank." in name
        self.assertEqual(entries, 13 * 5 + 3)

    def test_the_two_stage_run(self):
        metadata, golden = read(shared("golden", "two_stage_trajectory.safetensors"))
        model, names = published_model(metadata["config"], golden)
        self.load(model, names, golden, "init")

        def rate(name):
            if names[name].startswith("encoder."):
                if ".rank." in name:
                    return float(metadata["lr_rank_in_encoder"])
                if ".core." in name:
                    return float(metadata["lr_tt_cores_in_encoder"])
            return float(metadata["lr_other"])

        optimizer = torch.optim.AdamW(
            [{"params": [p], "lr": rate(n)} for n, p in model.named_parameters()],
            weight_decay=0,
        )
        objective = Objective(model, optimizer, kind="reference", compact_every=10)
        # The published code counts only the row modes of a table, and no more.
        (table,) = [i for i, (n, _) in enumerate(objective.measure.layers) if n == "word"]
        row_modes = model.word.row_modes

        def counted():
            objective.measure.modes[table] = row_modes
            objective.measure.fixed = 0

        early = int(metadata["early_steps"])
        compared = {True: 0, False: 0}
        for i in range(len(golden["loss"])):
            counted()
            if i == early:
                objective.begin_late(
                    float(metadata["L0"]), target_size=int(float(metadata["S0"]))
                )
                counted()
            optimizer.zero_grad()
            logits = model(golden["ids"][i], golden["segments"][i], golden["mask"][i])
            loss = nn.functional.cross_entropy(logits, golden["labels"][i])
            step = objective.backward(loss)
            objective.step()
            if i < 30:
                expected = float(golden["loss"][i])
                self.assertAlmostEqual(float(loss), expected, delta=1e-3 * expected)
                expected = float(golden["rank_loss"][i])
                self.assertAlmostEqual(
                    step.mean_alive_entry, expected, delta=1e-3 * expected
                )
            if i == early:
                self.assertEqual(step.size, int(golden["size"][i]))
            # A decision is a function of size and loss: where the sizes agree and the
            # losses lie on one side of the point where it changes, so does it.
            if i >= early and step.size == int(golden["size"][i]):
                change = float(metadata["L0"]) * step.size / float(metadata["S0"])
                recorded = float(golden["loss"][i])
                if (float(loss) < change) == (recorded < change):
                    self.assertEqual(step.on_size, float(golden["lambda"][i]) > 0.5)
                    compared[step.on_size] += 1
        # The rounding of PyTorch's BLAS decides for how many steps the sizes agree.
        self.assertGreater(sum(compared.values()), 2)


class ChoiceTest(unittest.TestCase):
    """What worker/trainer/late/pruning_choice.h promises."""

    def layers(self):
        """Three layers with saliencies without a pattern, as in the engine's test."""
        layers, i = [], 0
        for modes, extents in (((3, 2, 2, 4), (6, 9, 5)), ((6, 4, 5), (8, 7)), ((8, 8), (12,))):
            saliency = []
            for extent in extents:
                saliency.append([1.01 + math.sin(1.7 * (i + k + 1)) for k in range(extent)])
                i += extent
            layers.append(Prunable(modes, saliency))
        layers[0].saliency[1][3] = -1.0
        return layers

    def test_it_is_the_engines_choice(self):
        layers = self.layers()
        layers[1] = Prunable(layers[1].modes, layers[1].saliency, floor=3)
        lines = []
        for goal in range(30, 771, 3):
            for slack in (0.0, 3.0):
                chosen, size = choose_entries(layers, 50, goal, slack)
                entries = "".join(" %d,%d,%d" % entry for entry in chosen)
                lines.append(f"{goal} {slack:g} {size}{entries}\n")
        # The digest of the same lines, which ChooseEntries of that header printed.
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        self.assertEqual(
            digest, "c765cfacb79dbcc3653573885a03f8f476bd4f19a3a1cdd70de22abaaa2b5a51"
        )

    def test_ends_at_the_goal_and_nothing_chosen_could_have_stayed(self):
        layers = self.layers()

        def size_without(entries):
            bonds = [[list(bond) for bond in layer.saliency] for layer in layers]
            for layer, bond, entry in entries:
                bonds[layer][bond][entry] = -1.0
            left = [Prunable(l.modes, b) for l, b in zip(layers, bonds)]
            return choose_entries(left, 50, 10**6, 0)[1]

        self.assertEqual(size_without([]), 50 + 214 + 307 + 192)
        for goal in range(100, 720, 9):
            chosen, size = choose_entries(layers, 50, goal, 2)
            self.assertLessEqual(size, goal)
            self.assertGreaterEqual(size, goal - 16)
            self.assertEqual(size, size_without(chosen))
            self.assertEqual(len(set(chosen)), len(chosen))
            for i in range(len(chosen)):
                self.assertGreater(size_without(chosen[:i] + chosen[i + 1 :]), goal)

    def test_cheapest_per_parameter_goes_first(self):
        layers = [Prunable([4, 4], [[1.0, 5.0, 2.0]]), Prunable([2, 2], [[1.0, 0.1]])]
        # 24 + 8 = 32; per entry 8 and 4 leave.
        chosen, size = choose_entries(layers, 0, 28, 0)
        self.assertEqual((chosen, size), ([(1, 0, 1)], 28))
        chosen, size = choose_entries(layers, 0, 20, 0)
        self.assertEqual((chosen, size), ([(1, 0, 1), (0, 0, 0)], 20))

    def test_floors_hold_while_others_can_go(self):
        layers = [
            Prunable([4, 6], [[1e-9] * 4], floor=3), Prunable([4, 6], [[3.0, 4.0, 5.0, 6.0]])
        ]
        chosen, size = choose_entries(layers, 0, 40, 0)
        self.assertEqual((size, sum(e[0] == 0 for e in chosen)), (40, 1))
        # Both at their least, the floor gives way before a layer is lost.
        chosen, size = choose_entries(layers, 0, 20, 0)
        self.assertEqual((size, sum(e[0] == 0 for e in chosen)), (20, 3))

    def test_layers_go_last_and_never_for_a_goal_out_of_reach(self):
        layers = [Prunable([4, 6], [[1e-9, 2.0]]), Prunable([4, 6], [[3.0, 4.0]])]
        self.assertEqual(choose_entries(layers, 5, 25, 0)[1], 25)
        chosen, size = choose_entries(layers, 5, 24, 0)
        self.assertEqual((size, chosen[2][0]), (15, 0))
        self.assertEqual(choose_entries(layers, 50, 49, 0)[1], 70)


class LateTest(unittest.TestCase):
    def train(self, mode, target_loss, steps=120, rho=0.01, compact_every=10):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))
        tensorize(model, 12, start="scratch")
        truth = torch.randn(32, 3) @ torch.randn(3, 32) / 10
        groups = comera.torch.parameter_groups(model, cores=5e-3, ranks=5e-3, others=5e-3)
        optimizer = torch.optim.AdamW(groups)
        objective = Objective(model, optimizer, gamma=1e-3, compact_every=compact_every)
        history = []
        for step in range(80 + steps):
            if step == 80:
                objective.begin_late(
                    target_loss, target_ratio=0.5, max_steps=steps, mode=mode, rho=rho
                )
            x = torch.randn(64, 32)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), torch.tanh(x @ truth))
            history.append(objective.backward(loss))
            objective.step()
            if step % 10 == 0:
                objective.validated(float(loss))
        return model, objective, history

    def test_constraint_meets_the_size_by_half_of_the_steps(self):
        # The loss is out of reach, the size is met nevertheless.
        model, objective, history = self.train("constraint", 1e-9)
        target = objective.target.size
        self.assertGreater(history[79].size, target)
        self.assertLessEqual(history[80 + 61].size, target)
        # Not below it by more than the ranks and the slack make necessary, and there
        # it stays.
        self.assertGreater(history[80 + 61].size, 0.93 * target)
        self.assertEqual(history[80 + 61].size, history[-1].size)
        self.assertFalse(objective.met)
        self.assertTrue(all(h.loss_factor == 1 for h in history))
        self.assertTrue(objective.validated(0.0))
        self.assertTrue(objective.met)

    def test_compaction_changes_no_decision(self):
        model, _, history = self.train("constraint", 1e-9, steps=60)
        whole, _, same = self.train("constraint", 1e-9, steps=60, compact_every=0)
        self.assertEqual([h.size for h in history], [h.size for h in same])
        self.assertLess(max(abs(a.loss - b.loss) for a, b in zip(history, same)), 1e-5)
        self.assertLess(
            sum(p.numel() for p in model.parameters()),
            sum(p.numel() for p in whole.parameters()),
        )

    def test_layers_that_are_gone_are_trained_around(self):
        model = small_model()
        with torch.no_grad():
            model[0].rank[2].zero_()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        objective = Objective(model, optimizer)
        x = torch.randn(5, 24)
        for step in range(4):
            optimizer.zero_grad()
            objective.backward(model(x).square().mean())
            objective.step()
            if step == 0:
                self.assertGreater(objective.compact(), 0)
            if step == 1:
                objective.begin_late(-1.0, target_ratio=0.8, max_steps=4)
        self.assertEqual(objective.measure.ranks()["0"], [0] * 5)
        self.assertTrue(all(p.requires_grad for p in model[2].parameters()))
        # Nothing that DDP would wait for in vain.
        self.assertFalse(any(p.requires_grad for p in model[0].core))
        self.assertFalse(any(p.requires_grad for p in model[0].rank))

    def test_a_loss_that_is_not_finite_ends_the_step(self):
        model = small_model()
        objective = Objective(model, torch.optim.SGD(model.parameters(), lr=1e-3))
        with self.assertRaisesRegex(FloatingPointError, "the loss of step 0 is nan"):
            objective.backward(model(torch.full((1, 24), math.nan)).sum())

    def test_a_validation_that_is_not_finite_moves_no_average(self):
        model = small_model()
        objective = Objective(model, torch.optim.SGD(model.parameters(), lr=1e-3))
        # Nothing to compare it with yet.
        objective.validated(5.0)
        objective.apply(2.0)
        self.assertAlmostEqual(objective.smoothed_loss, 2.0)
        objective.validated(3.0)
        objective.validated(math.nan)
        self.assertAlmostEqual(objective.smoothed_loss, 3.0)

    def test_second_moments_of_adagrad_are_kept_too(self):
        model = small_model()
        optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-3)
        model(torch.randn(5, 24)).square().mean().backward()
        optimizer.step()
        Objective(model, optimizer).begin_late(0.1, target_ratio=0.9)
        for core in model[2].core:
            self.assertGreater(float(optimizer.state[core]["sum"].min()), 0)

    def test_achievement_balances_both(self):
        # A loss that is far away outweighs the size: nothing is pruned for it.
        _, objective, history = self.train("achievement", -5.0, steps=60)
        self.assertFalse(any(h.on_size for h in history))
        self.assertGreater(history[-1].size, objective.target.size)
        # One that is met leaves the size to decide: the loss counts for less then.
        _, objective, history = self.train("achievement", 5.0, steps=160)
        self.assertTrue(history[80].on_size)
        self.assertAlmostEqual(history[80].loss_factor, 0.01 / 1.01)
        self.assertLessEqual(history[-1].size, objective.target.size)
        self.assertGreater(history[-1].size, 0.9 * objective.target.size)

    def test_achievement_lowers_entries_by_the_weight_of_the_relaxed_size(self):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        optimizer.param_groups[0]["lr"] = 0.25
        objective = Objective(model, optimizer, beta=0)
        objective.begin_late(-1e9, target_ratio=1.0, mode="achievement", rho=0.5)
        # All entries are 1 now, and the loss has no gradient.
        objective.backward(0.0 * model(torch.ones(1, 24)).sum())
        objective.step()
        slope = 30 * 1 + 24 * 1
        expected = 1 - 0.25 * 0.5 / objective.initial_size * slope
        self.assertTrue(torch.allclose(model[2].rank[0], torch.tensor(expected)))

    def test_the_canonical_form_changes_nothing_but_the_importance(self):
        model = small_model()
        x = torch.randn(5, 24)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model(x).square().mean().backward()
        optimizer.step()
        before = model(x).detach()
        Objective(model, optimizer).begin_late(0.1, target_ratio=0.9)
        self.assertLess(float((model(x) - before).abs().max()), 1e-5)
        for layer in (model[0], model[2]):
            for entries in layer.rank:
                self.assertTrue(torch.equal(entries, torch.ones_like(entries)))
                self.assertEqual(float(optimizer.state[entries]["exp_avg"].abs().max()), 0)
            for core in layer.core:
                self.assertGreater(float(optimizer.state[core]["exp_avg_sq"].min()), 0)
        # The k-th slices carry the k-th singular value.
        weight = model[2].dense_weight()
        values = torch.linalg.svdvals(weight)[:7]
        a, b = model[2].core[0][0], model[2].core[1][:, :, 0]
        self.assertTrue(torch.allclose(a.norm(dim=0) * b.norm(dim=1), values, atol=1e-5))


if __name__ == "__main__":
    unittest.main()
