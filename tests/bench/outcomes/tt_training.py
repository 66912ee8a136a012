"""The variants of tt_variants.py and one training run of a variant."""
import collections
import math
import time

import numpy
import torch
from torch.nn import functional as F

import tt_prototype
import tt_steps

VALIDATION, FEW = 256, 64  # rows at the end and before
GAMMA, BETA = 1e-4, 1e-5
# The engine's defaults, but for cores: in as few steps as these they learn more
# at three times theirs.
RATES = {"cores": 0.03, "ranks": 0.01, "other": 0.001, "frequent": 0.001}
WARMUP = 0.1  # share of all steps
SEARCH = (1, 1 / 3, 3)
FREQUENT_SEARCH = (1, 3, 10, 30)

# A fifth of the dense model.
RANKS = {
    2048: {"attention": 24, "ffn": 24, "head": 24, "embedding": 22,
           "output": 16},
    8192: {"attention": 38, "ffn": 38, "head": 38, "embedding": 50,
           "output": 22}}
# As large as these, with the ranks of one class raised at the other's cost.
MORE_ATTENTION = {2048: {"attention": 36, "ffn": 14},
                  8192: {"attention": 57, "ffn": 22}}
MORE_FFN = {2048: {"attention": 12, "ffn": 33},
            8192: {"attention": 19, "ffn": 53}}
# As large, with more ranks in the first block than in the second.
FIRST_BLOCK = {2048: {"attention": (32, 16), "ffn": (32, 16)},
               8192: {"attention": (51, 25), "ffn": (51, 25)}}
SECOND_BLOCK = {v: {kind: pair[::-1] for kind, pair in ranks.items()}
                for v, ranks in FIRST_BLOCK.items()}
# Nearly as large, with one train for each of the 4 heads.
PER_HEAD = {2048: {"attention": 9, "ffn": 25},
            8192: {"attention": 15, "ffn": 38}}
# As large, with a dense row in both tables for the most frequent tokens, at the
# cost of the tables' ranks.
FREQUENT = 64
WITH_FREQUENT = {2048: {"embedding": 14, "output": 12},
                 8192: {"embedding": 46, "output": 21}}


def all_ranks(rank, embedding, output):
    return {"attention": rank, "ffn": rank, "head": rank,
            "embedding": embedding, "output": output}


# As large, with dense rows beside the train for so many of the most frequent
# tokens in the word table or in both tables, at the cost of all ranks alike.
WITH_REMAINDER = {
    ("words", 64): {2048: all_ranks(23, 20, 15), 8192: all_ranks(37, 48, 22)},
    ("both", 64): {2048: all_ranks(22, 19, 14), 8192: all_ranks(37, 48, 21)},
    ("words", 256): {2048: all_ranks(19, 18, 14), 8192: all_ranks(35, 45, 21)},
    ("both", 256): {2048: all_ranks(15, 13, 10), 8192: all_ranks(33, 42, 19)}}


class Variant:
    def __init__(self, about, searched="cores", factors=SEARCH, ranks=None,
                 form=tt_prototype.Train, start="cores", step="muon",
                 **more):
        self.about, self.searched, self.factors = about, searched, factors
        self.ranks = {v: {**RANKS[v], **(ranks or {}).get(v, {})}
                      for v in RANKS}
        self.form, self.start, self.step = form, start, step
        self.more = more


VARIANTS = {
    "baseline": Variant("Muon on both cores, as the engine does"),
    "dense": Variant("dense matrices, AdamW", searched="other", step="dense"),
    "silu": Variant("SiLU between the halves of each linear layer",
                    form=tt_prototype.BentTrain),
    "svd": Variant("start from the TT-SVD of a dense start", start="svd"),
    "entries": Variant("orthonormal cores, the scale in the rank entries",
                       start="entries"),
    "gram": Variant("scaled gradient descent in place of orthogonalisation",
                    step="gram"),
    "gram_muon": Variant("scaled gradients, then orthogonalised",
                         step="gram_muon"),
    "attention": Variant("1.5 times the ranks in attention, fewer elsewhere",
                         ranks=MORE_ATTENTION),
    "ffn": Variant("half the ranks in attention, more in feed-forward",
                   ranks=MORE_FFN),
    "frequent": Variant(
        f"dense rows in place of the train's, {FREQUENT} tokens, both tables "
        "(rates: theirs)", searched="frequent", factors=FREQUENT_SEARCH,
        ranks=WITH_FREQUENT, frequent=FREQUENT),
    "frequent_added": Variant(
        f"dense rows beside the train's, {FREQUENT} tokens, fewer ranks in "
        "both tables (rates: theirs)", searched="frequent",
        factors=FREQUENT_SEARCH, ranks=WITH_FREQUENT, frequent=FREQUENT,
        remainder="both"),
    "other": Variant("higher rates of biases, norms and positions (rates: "
                     "theirs)", searched="other", factors=(3, 10)),
    "bound": Variant("spectral norm of each W at most twice its start's",
                     bound=2),
    "slow_ranks": Variant("rank entries with a warm-up of a third of the "
                          "steps (rates: their own)",
                          searched="ranks", factors=(0.3, 3, 1),
                          ranks_warmup=1 / 3),
    "riemann": Variant("Riemannian steps, orthogonalised",
                       form=tt_prototype.TangentTrain, step="riemann"),
    "riemann_plain": Variant("Riemannian steps, not orthogonalised",
                             factors=SEARCH + (1 / 9,),
                             form=tt_prototype.TangentTrain,
                             step="riemann_plain"),
    "grow": Variant("ranks that double after a third of the steps",
                    grow=(1 / 3,)),
    "grow_twice": Variant("ranks that double after a sixth of the steps and "
                          "after a third", grow=(1 / 6, 1 / 3)),
    "first_block": Variant("first block with twice the ranks of the second",
                           ranks=FIRST_BLOCK),
    "second_block": Variant("second block with twice the ranks of the first",
                            ranks=SECOND_BLOCK),
    "heads": Variant("a train for each head in attention", ranks=PER_HEAD,
                     per_head=True),
    **{f"remainder_{tables}_{count}": Variant(
        f"dense rows beside the train's, {count} tokens, "
        f"{'word table' if tables == 'words' else 'both tables'} "
        "(rates: theirs)", searched="frequent", factors=FREQUENT_SEARCH,
        ranks=ranks, frequent=count, remainder=tables)
       for (tables, count), ranks in WITH_REMAINDER.items()},
}


def scale_at(step, steps, warmup=WARMUP):
    """The engine's linear decay after a linear warm-up."""
    begin = max(1, round(warmup * steps))
    if step < begin:
        return (step + 1) / begin
    return 1 - (step - begin) / (steps - begin)


class Run:
    def __init__(self, variant, factor, seed, options, corpus):
        self.variant, self.factor, self.seed = variant, factor, seed
        self.steps, self.batch = options.steps, options.batch
        self.corpus = corpus
        self.ranks = variant.ranks[corpus.special.vocabulary]
        # The steps before which ranks grow.
        self.growth = [int(share * self.steps)
                       for share in variant.more.get("grow", ())]
        self.fresh = torch.Generator().manual_seed(seed + 1000)
        ranks = None if variant.step == "dense" else self.ranks_after(0)
        frequent = numpy.argsort(-corpus.counts)[
            :variant.more.get("frequent", 0)]
        self.model = tt_prototype.Model(
            corpus.special.vocabulary, ranks, seed, variant.form,
            variant.start, numpy.sort(frequent), corpus.causal,
            variant.more.get("per_head", False),
            variant.more.get("remainder", ""))
        self.trains = self.model.trains()
        rows = self.model.frequent_parameters()
        apart = {id(p) for t in self.trains for p in t.parameters()}
        apart.update(map(id, rows))
        self.adamw = tt_steps.AdamW({
            "ranks": [t.entries for t in self.trains
                      if t.entries.requires_grad],
            "frequent": rows,
            "other": [p for p in self.model.parameters()
                      if id(p) not in apart]})
        self.cores = self.core_steps()
        self.bound = None
        if "bound" in variant.more:
            self.bound = tt_steps.SpectralBound(
                self.trains, variant.more["bound"])

    def core_steps(self):
        step = self.variant.step
        if step.startswith("riemann"):
            return tt_steps.Riemannian(self.trains, step == "riemann")
        return tt_steps.Muon(self.trains, gram=step.startswith("gram"),
                             orthogonal=step != "gram")

    def rates(self, step):
        rates = dict(RATES)
        scale = {name: scale_at(step, self.steps) for name in rates}
        scale["ranks"] = scale_at(
            step, self.steps, self.variant.more.get("ranks_warmup", WARMUP))
        rates[self.variant.searched] *= self.factor
        return {name: rate * scale[name] for name, rate in rates.items()}

    def add_objective(self):
        """The gradients of gamma times the relaxed size and beta |cores|^2."""
        size = self.model.size()
        for train in self.trains:
            if train.entries.requires_grad:
                train.entries.grad += GAMMA / size * train.entries.sign() * (
                    train.inputs + train.outputs)
                for core in (train.left, train.right):
                    core.grad.add_(core.data, alpha=2 * BETA)

    def train_step(self, step, batch):
        ids, places, labels = (torch.from_numpy(a) for a in batch)
        loss = tt_prototype.CrossEntropy.apply(self.model(ids, places), labels)
        for p in self.model.parameters():
            p.grad = None
        loss.backward()
        self.add_objective()
        norm = torch.stack([p.grad.norm() for p in self.model.parameters()
                            if p.grad is not None]).norm()
        rates = self.rates(step)
        self.cores.step(rates["cores"])
        self.adamw.step(rates, min(1.0, 1 / (float(norm) + 1e-6)))
        if self.bound:
            self.bound.apply()
        return loss.item()

    def ranks_after(self, grown):
        """The ranks of each class when they have grown so many times."""
        halved = len(self.growth) - grown
        if not halved:
            return self.ranks
        return {kind: rank >> halved for kind, rank in self.ranks.items()}

    def grow(self, step):
        grown = self.growth.index(step)
        before, after = self.ranks_after(grown), self.ranks_after(grown + 1)
        larger = {before[kind]: after[kind] for kind in before}
        for train in self.trains:
            tt_steps.grow(train, larger[train.rank], self.cores, self.adamw,
                          self.fresh)

    @torch.no_grad()
    def validate(self, rows):
        """The loss on so many rows."""
        ids, places, labels = self.corpus.validation
        inside = places < rows * ids.shape[1]
        ids, places, labels = ids[:rows], places[inside], labels[inside]
        total = 0.0
        for at in range(0, len(ids), self.batch):
            part = ids[at:at + self.batch]
            begin = at * ids.shape[1]
            inside = (places >= begin) & (places < begin + part.size)
            logits = self.model(torch.from_numpy(part), torch.from_numpy(
                places[inside] - begin))
            total += F.cross_entropy(
                logits, torch.from_numpy(labels[inside]),
                reduction="sum").item()
        return total / len(labels)

    def run(self, give_up=math.inf):
        """`give_up`: the highest validation loss allowed after a third."""
        third = self.steps // 3
        curve, seconds, recent = [], 0.0, collections.deque(maxlen=20)
        batches = self.corpus.batches(self.seed, self.batch, self.steps)
        for step, batch in enumerate(batches):
            begun = time.process_time()
            if step in self.growth:
                self.grow(step)
            recent.append(self.train_step(step, batch))
            seconds += time.process_time() - begun
            if not math.isfinite(recent[-1]):
                break
            done = step + 1
            if done == third // 2 and sum(recent) / len(recent) > (
                    math.log(self.corpus.special.vocabulary)):
                break  # worse than guessing without any knowledge
            if done in (third, 2 * third, self.steps):
                rows = VALIDATION if done == self.steps else FEW
                curve.append({
                    "step": done, "loss": self.validate(rows),
                    "training_loss": sum(recent) / len(recent)})
                if done == third and curve[-1]["loss"] > give_up:
                    break
        return {"curve": curve, "parameters": self.model.size(),
                "seconds_per_step": seconds / done,
                "finished": bool(curve) and curve[-1]["step"] == self.steps}
