"""A language model of two-core tensor trains, for tt_variants.py.

The model is the engine's encoder (post-norm, GELU, learned positions; one
segment, so none is added) with every matrix W (N x M) as left diag(entries)
right, where left is N x r and right r x M. The word table is a tensor-train
matrix of two cores: its entry (i1 i2, j1 j2) is entry (i1 j1, i2 j2) of such a
product. Starts are those of docs/optimizer.md.
"""
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, FFN, LAYERS, LENGTH = 128, 4, 512, 2, 64
# The row modes of the word table for each vocabulary, and its column modes.
TABLE_ROWS, TABLE_COLUMNS = {2048: (64, 32), 8192: (128, 64)}, (8, 16)
TABLE_SIGMA = 0.02
EPSILON = 1e-9


def orthonormal(rows, columns, generator):
    """A random matrix with orthonormal columns (rows, if it is wide)."""
    if rows < columns:
        return orthonormal(columns, rows, generator).t().contiguous()
    q, r = torch.linalg.qr(torch.randn(rows, columns, generator=generator))
    return q * torch.where(r.diagonal() < 0, -1.0, 1.0)


class Train(nn.Module):
    """W = left diag(entries) right.

    `start`: "cores" spreads the scale over both cores, entries are 1; "entries"
    keeps the cores orthonormal and puts the scale into the entries; "svd" is
    the truncated SVD of a dense start, entries 1.
    """

    def __init__(self, inputs, outputs, rank, sigma, generator, start="cores"):
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        entries = torch.ones(rank)
        if start == "svd":
            dense = sigma * torch.randn(inputs, outputs, generator=generator)
            u, s, v = torch.linalg.svd(dense, full_matrices=False)
            root = s[:rank].sqrt()
            left, right = u[:, :rank] * root, root[:, None] * v[:rank]
        else:
            left = orthonormal(inputs, rank, generator)
            right = orthonormal(rank, outputs, generator)
            # All singular values of W; its Frobenius norm is a dense start's.
            value = sigma * math.sqrt(inputs * outputs / rank)
            if start == "entries":
                entries *= value
            else:
                left, right = left * value ** 0.5, right * value ** 0.5
        self.left = nn.Parameter(left.contiguous())
        self.entries = nn.Parameter(entries)
        self.right = nn.Parameter(right.contiguous())

    @property
    def rank(self):
        return self.left.shape[1]

    def forward(self, x, bias):
        return torch.addmm(bias, x @ (self.left * self.entries), self.right)

    def products(self):
        """Pairs of factors; W is the sum of their products."""
        return [(self.left * self.entries, self.right)]

    def matrix(self):
        return sum(a @ b for a, b in self.products())

    def size(self):
        return sum(p.numel() for p in self.parameters())


class BentTrain(Train):
    """SiLU between the halves, as in CoLA; there is no W then."""

    def forward(self, x, bias):
        return torch.addmm(bias, F.silu(x @ (self.left * self.entries)),
                           self.right)


class TangentTrain(Train):
    """W = u diag(s) v with orthonormal factors, for Riemannian steps.

    `left` is u diag(s) and `shift` is 0, so the gradients of the two are those
    of W times v' and u' times that of W. The entries are constant 1.
    """

    def __init__(self, inputs, outputs, rank, sigma, generator, start="cores"):
        super().__init__(inputs, outputs, rank, sigma, generator, "entries")
        self.register_buffer("u", self.left.detach().clone())
        self.register_buffer("s", self.entries.detach().clone())
        self.left = nn.Parameter(self.u * self.s)
        self.shift = nn.Parameter(torch.zeros(rank, outputs))
        self.entries.requires_grad_(False).fill_(1)

    def forward(self, x, bias):
        y = torch.addmm(bias, x @ self.left, self.right.detach())
        return torch.addmm(y, x @ self.u, self.shift)

    def products(self):
        return [(self.left, self.right.detach()), (self.u, self.shift)]

    def size(self):
        return self.rank * (self.inputs + self.outputs + 1)


class Linear(nn.Module):
    def __init__(self, weight, outputs, generator):
        super().__init__()
        self.weight = weight
        bound = 1 / math.sqrt(outputs)
        self.bias = nn.Parameter(
            (2 * torch.rand(outputs, generator=generator) - 1) * bound)

    def forward(self, x):
        return self.weight(x, self.bias)


class Dense(nn.Module):
    def __init__(self, inputs, outputs, sigma, generator):
        super().__init__()
        self.weight = nn.Parameter(
            sigma * torch.randn(inputs, outputs, generator=generator))

    def forward(self, x, bias):
        return torch.addmm(bias, x, self.weight)

    def matrix(self):
        return self.weight


class PerHead(nn.Module):
    """W of one train per head, each of which has columns of its own (`dim` 1)
    or rows of its own (`dim` 0)."""

    def __init__(self, trains, dim):
        super().__init__()
        self.trains, self.dim = nn.ModuleList(trains), dim

    def forward(self, x, bias):
        if self.dim == 1:
            return torch.cat([train(x, part) for train, part in zip(
                self.trains, bias.chunk(HEADS))], 1)
        for train, part in zip(self.trains, x.chunk(HEADS, 1)):
            bias = train(part, bias)
        return bias

    def matrix(self):
        return torch.cat([train.matrix() for train in self.trains], self.dim)


def dense_part(rows, columns, sigma, remainder, generator):
    """Dense parameters of some words; those of a remainder begin at 0."""
    return nn.Parameter(
        torch.zeros(rows, columns) if remainder else
        sigma * torch.randn(rows, columns, generator=generator))


class Table(nn.Module):
    """The word table, and dense rows for some words.

    The rows replace the train's, or are added to them as a `remainder`.
    """

    def __init__(self, weight, vocabulary, frequent, remainder, generator):
        super().__init__()
        self.weight, self.vocabulary = weight, vocabulary
        self.frequent, self.remainder = frequent, remainder
        if len(frequent):
            self.rows = dense_part(len(frequent), WIDTH, TABLE_SIGMA,
                                   remainder, generator)
            slots = torch.full((vocabulary,), -1)
            slots[frequent] = torch.arange(len(frequent))
            self.register_buffer("slots", slots)

    def lookup(self, ids):
        """(n) ids to (n, width) rows."""
        if isinstance(self.weight, Dense):
            return F.embedding(ids, self.weight.weight)
        (m1, m2), (n1, n2) = TABLE_ROWS[self.vocabulary], TABLE_COLUMNS
        rows = sum(
            a.view(m1, n1, -1).index_select(0, ids // m2)
            @ b.view(-1, m2, n2).transpose(0, 1).index_select(0, ids % m2)
            for a, b in self.weight.products()).view(-1, WIDTH)
        if len(self.frequent):
            slots = self.slots[ids]
            own = self.rows[slots.clamp(0)]
            rows = torch.where(slots[:, None] >= 0,
                               rows + own if self.remainder else own, rows)
        return rows

    def forward(self, ids):
        unique, inverse = torch.unique(ids, return_inverse=True)
        return F.embedding(inverse, self.lookup(unique))


class Output(Linear):
    """The projection to the vocabulary, with dense columns for some words.

    They replace the train's, or are added to them, as the rows of Table.
    """

    def __init__(self, weight, vocabulary, sigma, frequent, remainder,
                 generator):
        super().__init__(weight, vocabulary, generator)
        self.frequent, self.remainder = frequent, remainder
        if len(frequent):
            self.columns = dense_part(WIDTH, len(frequent), sigma, remainder,
                                      generator)

    def forward(self, x):
        y = self.weight(x, self.bias)
        if not len(self.frequent):
            return y
        if self.remainder:
            return y.index_add(1, self.frequent, x @ self.columns)
        return y.index_copy(1, self.frequent, torch.addmm(
            self.bias[self.frequent], x, self.columns))


class Block(nn.Module):
    """`hidden`: (LENGTH, LENGTH), -inf where a place must not look; or None."""

    def __init__(self, make, hidden):
        super().__init__()
        self.hidden = hidden
        for name in ("query", "key", "value"):
            setattr(self, name, make("attention", WIDTH, WIDTH, heads=1))
        self.output = make("attention", WIDTH, WIDTH, heads=0)
        self.up = make("ffn", WIDTH, FFN)
        self.down = make("ffn", FFN, WIDTH)
        self.attention_norm = nn.LayerNorm(WIDTH, EPSILON)
        self.ffn_norm = nn.LayerNorm(WIDTH, EPSILON)

    def forward(self, x):
        """x: (tokens, width), tokens in rows of LENGTH."""
        head = WIDTH // HEADS

        def heads(y):
            return y.view(-1, LENGTH, HEADS, head).transpose(1, 2).reshape(
                -1, LENGTH, head)
        q, k, v = (heads(f(x)) for f in (self.query, self.key, self.value))
        q = q / math.sqrt(head)
        scores = (q @ k.transpose(1, 2) if self.hidden is None else
                  torch.baddbmm(self.hidden, q, k.transpose(1, 2)))
        mixed = (scores.softmax(-1) @ v).view(-1, HEADS, LENGTH, head)
        x = self.attention_norm(x + self.output(
            mixed.transpose(1, 2).reshape(-1, WIDTH)))
        return self.ffn_norm(x + self.down(F.gelu(self.up(x))))


class CrossEntropy(torch.autograd.Function):
    """The mean loss; its gradient takes the memory of the probabilities."""

    @staticmethod
    def forward(context, logits, labels):
        probabilities = logits.softmax(1)
        context.labels, context.probabilities = labels, probabilities
        own = probabilities.gather(1, labels[:, None])
        return -(own + 1e-30).log().mean()

    @staticmethod
    def backward(context, grad):
        gradient, labels = context.probabilities, context.labels
        gradient[torch.arange(len(labels)), labels] -= 1
        return gradient.mul_(grad / len(labels)), None


class Model(nn.Module):
    """`ranks`: of the classes attention, ffn, head, embedding and output, or
    None for a dense model; a tuple has one rank for each block. With
    `per_head` the layers of attention have one train of the given rank for
    each head. The dense rows of `frequent` words are added to the train's in
    the tables that `remainder` names ("words" or "both"); without it they
    replace the train's in both tables."""

    def __init__(self, vocabulary, ranks, seed, form=Train, start="cores",
                 frequent=(), causal=False, per_head=False, remainder=""):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        frequent = torch.as_tensor(frequent, dtype=torch.long)
        in_output = frequent[:0] if remainder == "words" else frequent

        def weight(kind, inputs, outputs, sigma=None, block=None, heads=None):
            """`heads`: the dimension of W that the heads divide, if any."""
            sigma = sigma or math.sqrt(1 / (inputs + outputs))
            if ranks is None:
                return Dense(inputs, outputs, sigma, generator)
            bent = form is BentTrain and kind in ("embedding", "output")
            rank = ranks[kind]
            if isinstance(rank, tuple):
                rank = rank[block]

            def train(*shape):
                return (Train if bent else form)(
                    *shape, min(rank, *shape), sigma, generator, start)
            if not per_head or heads is None:
                return train(inputs, outputs)
            shape = [inputs, outputs]
            shape[heads] //= HEADS
            return PerHead([train(*shape) for _ in range(HEADS)], heads)

        def make(kind, inputs, outputs, **place):
            return Linear(weight(kind, inputs, outputs, **place), outputs,
                          generator)

        (m1, m2), (n1, n2) = TABLE_ROWS[vocabulary], TABLE_COLUMNS
        shape = ((vocabulary, WIDTH) if ranks is None
                 else (m1 * n1, m2 * n2))
        self.words = Table(weight("embedding", *shape, TABLE_SIGMA),
                           vocabulary, frequent, bool(remainder), generator)
        self.position = nn.Parameter(
            TABLE_SIGMA * torch.randn(LENGTH, WIDTH, generator=generator))
        self.embedding_norm = nn.LayerNorm(WIDTH, EPSILON)
        hidden = (torch.full((LENGTH, LENGTH), -math.inf).triu(1)
                  if causal else None)
        self.blocks = nn.ModuleList(
            [Block(functools.partial(make, block=i), hidden)
             for i in range(LAYERS)])
        self.transform = make("head", WIDTH, WIDTH)
        self.head_norm = nn.LayerNorm(WIDTH, EPSILON)
        sigma = math.sqrt(1 / (WIDTH + vocabulary))
        self.output = Output(weight("output", WIDTH, vocabulary), vocabulary,
                             sigma, in_output, bool(remainder), generator)

    def forward(self, ids, places):
        """(rows, length) ids to the logits of the flat places."""
        x = self.embedding_norm(self.words(ids) + self.position)
        x = x.view(-1, WIDTH)
        for block in self.blocks:
            x = block(x)
        x = x.index_select(0, places)
        return self.output(self.head_norm(F.gelu(self.transform(x))))

    def trains(self):
        return [m for m in self.modules() if isinstance(m, Train)]

    def frequent_parameters(self):
        """The dense parameters of frequent words."""
        return [getattr(table, name) for table, name in (
            (self.words, "rows"), (self.output, "columns"))
                if len(table.frequent)]

    def size(self):
        trains = self.trains()
        inside = {id(p) for t in trains for p in t.parameters()}
        return sum(t.size() for t in trains) + sum(
            p.numel() for p in self.parameters() if id(p) not in inside)
