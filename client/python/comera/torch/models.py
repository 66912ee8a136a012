"""The model families as modules."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from comera.errors import ComeraError, IntegrityError
from comera.tokenizers import Sample, Tokenizer
from comera.torch.clicks import CategoryTables, criteo_number
from comera.torch.config import Factorisation, ModelConfig
from comera.torch.layers import (
    DenseLinear,
    LayerNorm,
    Table,
    make_linear,
    make_table,
    new_parameter,
)

# Labels that count for nothing, as torch's cross_entropy has it.
IGNORED = -100
_ASCII_SPACE = " \t\n\v\f\r"


class Embedding(nn.Module):
    """dropout(LayerNorm(word + position + segment))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        form = config.factorisation["embedding"]
        self.word: Table = make_table(config.vocabulary, config.hidden, form, "embedding")
        self.position = new_parameter(config.max_positions, config.hidden)
        self.segment = new_parameter(config.segments, config.hidden)
        self.norm = LayerNorm(config.hidden, config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        length = ids.shape[1]
        if length > self.position.shape[0]:
            raise ValueError(f"{length} tokens, the model has {self.position.shape[0]}")
        x = self.word(ids) + self.position[:length]
        x = x + nn.functional.embedding(segments, self.segment)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """LayerNorm(x + dropout(attention(x)))."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, key = config.hidden, f"layers.{index}."
        for part in ("query", "key", "value", "output"):
            form = config.factorisation[key + part]
            setattr(self, part, make_linear(d, d, form, key + part))
        self.norm = LayerNorm(d, config.layer_norm_epsilon)
        self.heads = config.heads
        self.rate = config.dropout

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, d = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, length, self.heads, d // self.heads).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads) + bias
        p = nn.functional.dropout(scores.softmax(-1), self.rate, self.training)
        context = (p @ v).transpose(1, 2).reshape(batch, length, d)
        y = nn.functional.dropout(self.output(context), self.rate, self.training)
        return self.norm(x + y)


class FeedForward(nn.Module):
    """LayerNorm(x + dropout(down(gelu(up(x)))))."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        d, h = config.hidden, config.ffn
        up, down = f"layers.{index}.ffn_up", f"layers.{index}.ffn_down"
        self.up = make_linear(d, h, config.factorisation[up], up)
        self.down = make_linear(h, d, config.factorisation[down], down)
        self.norm = LayerNorm(d, config.layer_norm_epsilon)
        self.rate = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(nn.functional.gelu(self.up(x)))
        return self.norm(x + nn.functional.dropout(y, self.rate, self.training))


class Block(nn.Module):
    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.attention = Attention(config, index)
        self.ffn = FeedForward(config, index)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.ffn(self.attention(x, bias))


class Encoder(nn.Module):
    """Token ids to the residual stream (batch, length, hidden)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = Embedding(config)
        self.layers = nn.ModuleList([Block(config, i) for i in range(config.layers)])

    def forward(
        self, ids: Tensor, segments: Optional[Tensor] = None, mask: Optional[Tensor] = None
    ) -> Tensor:
        segments = torch.zeros_like(ids) if segments is None else segments
        x = self.embedding(ids, segments)
        bias = torch.zeros(1, 1, 1, ids.shape[1], dtype=x.dtype, device=x.device)
        if mask is not None:
            # Padding is attended to by nobody.
            hidden = (mask == 0)[:, None, None, :]
            bias = bias.masked_fill(hidden, torch.finfo(x.dtype).min)
        for layer in self.layers:
            x = layer(x, bias)
        return x


class ComeraModule(nn.Module):
    """What all families have in common."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # Where it was loaded from.
        self.folder: Optional[Path] = None
        # Of that folder, if it has one.
        self.tokenizer: Optional[Tokenizer] = None
        # Names of class 0, 1, ..., if they are known.
        self.labels: List[str] = []

    def num_parameters(self, trainable_only: bool = False) -> int:
        """As the service counts them: cores, and what is never compressed."""
        return sum(
            p.numel() for p in self.parameters() if p.requires_grad or not trainable_only
        )

    def ranks(self) -> Dict[str, List[int]]:
        """Inner bonds of every tensorised layer."""
        return {
            name: list(form.ranks)
            for name, form in self.config.factorisation.items()
            if form.has_cores
        }


class TextModule(ComeraModule):
    """What models of text have in common."""

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ComeraError("the model's folder had no tokenizer's files")
        return self.tokenizer

    def batch(
        self,
        texts: Sequence[Any],
        pairs: Optional[Sequence[Any]] = None,
        length: Optional[int] = None,
    ) -> Dict[str, Tensor]:
        """`ids`, `segments` and `mask` of texts, or of texts with `pairs`, as
        forward takes them: model(**model.batch(["a", "b"]))."""
        tokenizer = self._need_tokenizer()
        most = min(length or self.config.length, self.config.max_positions)
        seconds = [None] * len(texts) if pairs is None else pairs
        samples = [
            tokenizer.sample(a, b, most) for a, b in zip(texts, seconds)
        ]
        return self.collate(samples)

    def collate(self, samples: Sequence[Sample]) -> Dict[str, Tensor]:
        """Pads to the longest."""
        pad = self._need_tokenizer().special.pad
        longest = max((len(s.ids) for s in samples), default=0)
        device = next(self.parameters()).device

        def rows(values: List[List[int]], fill: int) -> Tensor:
            padded = [v + [fill] * (longest - len(v)) for v in values]
            return torch.tensor(padded, dtype=torch.long, device=device)

        return {
            "ids": rows([s.ids for s in samples], pad),
            "segments": rows([s.segments for s in samples], 0),
            "mask": rows([[1] * len(s.ids) for s in samples], 0),
        }


class ClassifierHead(nn.Module):
    """fc2(tanh(fc1(h[CLS])))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        form = config.factorisation["head"]
        self.fc1 = make_linear(config.hidden, config.hidden, form, "head")
        self.fc2 = DenseLinear(config.hidden, config.classes)

    def forward(self, h: Tensor) -> Tensor:
        return self.fc2(torch.tanh(self.fc1(h)))


class EncoderClassifier(TextModule):
    """Logits (batch, classes) of texts or pairs of them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.head = ClassifierHead(config)

    def forward(
        self, ids: Tensor, segments: Optional[Tensor] = None, mask: Optional[Tensor] = None
    ) -> Tensor:
        return self.head(self.encoder(ids, segments, mask)[:, 0])

    def loss(self, labels: Tensor, **inputs: Tensor) -> Tensor:
        """Mean cross-entropy, in nats."""
        return nn.functional.cross_entropy(self(**inputs), labels)

    @torch.no_grad()
    def classify(self, texts: Sequence[Any], pairs: Optional[Sequence[Any]] = None) -> Tensor:
        """Probabilities (texts, classes); `labels` names the classes."""
        return self(**self.batch(texts, pairs)).softmax(-1)


class TiedOutput(nn.Module):
    """The bias of a projection whose weights are the word embedding's."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.bias = new_parameter(vocabulary)


class MaskedLmHead(nn.Module):
    """output(LayerNorm(gelu(transform(h))))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d, forms = config.hidden, config.factorisation
        self.transform = make_linear(d, d, forms["head"], "head")
        self.norm = LayerNorm(d, config.layer_norm_epsilon)
        self.output: nn.Module = (
            TiedOutput(config.vocabulary)
            if config.tie_output
            else make_linear(d, config.vocabulary, forms["output"], "output")
        )

    def forward(self, h: Tensor, words: Table) -> Tensor:
        h = self.norm(nn.functional.gelu(self.transform(h)))
        if isinstance(self.output, TiedOutput):
            return words.project(h) + self.output.bias
        return self.output(h)


class MaskedLm(TextModule):
    """Logits of the words at each place."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.head = MaskedLmHead(config)

    def forward(
        self,
        ids: Tensor,
        segments: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        places: Optional[Tensor] = None,
    ) -> Tensor:
        """(batch, length, vocabulary); with `places`, numbers of tokens in (batch *
        length), only theirs: (places, vocabulary)."""
        h = self.encoder(ids, segments, mask)
        if places is not None:
            h = h.reshape(-1, h.shape[-1])[places]
        return self.head(h, self.encoder.embedding.word)

    def loss(self, labels: Tensor, **inputs: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, where `labels` (batch, length) are not
        IGNORED."""
        flat = labels.reshape(-1)
        places = torch.nonzero(flat != IGNORED).squeeze(1)
        return nn.functional.cross_entropy(self(places=places, **inputs), flat[places])

    def masked(
        self,
        inputs: Dict[str, Tensor],
        probability: float = 0.15,
        generator: Optional[torch.Generator] = None,
    ) -> Dict[str, Tensor]:
        """A batch with tokens to predict and `labels`: of these 80% become the
        mask, 10% a random token, 10% stay."""
        special = self._need_tokenizer().special
        ids = inputs["ids"].clone()

        def draw() -> Tensor:
            return torch.rand(ids.shape, generator=generator).to(ids.device)

        ordinary = inputs["mask"] != 0
        for token in (special.pad, special.cls, special.sep, special.mask, special.unk):
            ordinary &= ids != token
        order = draw().masked_fill(~ordinary, 2.0)
        chosen = (order < probability) & ordinary
        # One of each sample at least.
        first = order.argmin(1, keepdim=True)
        chosen |= torch.zeros_like(chosen).scatter(1, first, True) & ordinary
        labels = ids.masked_fill(~chosen, IGNORED)
        action = draw()
        random = torch.randint(
            self.config.vocabulary, ids.shape, generator=generator
        ).to(ids.device)
        ids = torch.where(chosen & (action >= 0.8) & (action < 0.9), random, ids)
        ids = ids.masked_fill(chosen & (action < 0.8), special.mask)
        return {**inputs, "ids": ids, "labels": labels}

    @torch.no_grad()
    def fill_mask(self, text: str, top: int = 5) -> List[List[Tuple[str, float]]]:
        """For each mask token of the vocabulary ("<mask>", "[MASK]") in the text
        the most probable tokens: [[("def", 0.8), ...], ...]."""
        tokenizer = self._need_tokenizer()
        special = tokenizer.special
        parts = text.split(tokenizer.token(special.mask))
        ids: List[int] = []
        for part in parts[:-1]:
            # A token of byte-level BPE holds the space before its word; so does
            # the mask, which stands for one.
            part = part if tokenizer.has_segments else part.rstrip(_ASCII_SPACE)
            ids += [*tokenizer.encode(part), special.mask]
        ids += tokenizer.encode(parts[-1])
        ids = [special.cls, *ids[: self.config.length - 2], special.sep]
        tokens = torch.tensor([ids], device=next(self.parameters()).device)
        places = torch.nonzero(tokens[0] == special.mask).squeeze(1)
        found = self(tokens, places=places).softmax(-1).topk(top)
        return [
            [(tokenizer.token(int(t)), float(p)) for p, t in zip(ps, ts)]
            for ps, ts in zip(found.values, found.indices)
        ]


class Dlrm(ComeraModule):
    """Log-odds of a click (batch) from numbers and categories."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        width = config.bottom_mlp[-1]
        vectors = len(config.table_rows) + 1
        forms = config.factorisation

        def mlp(part: str, inputs: int, widths: Sequence[int]) -> nn.ModuleList:
            layers = []
            for i, outputs in enumerate(widths):
                key = f"{part}.{i}"
                layers.append(make_linear(inputs, outputs, forms[key], key))
                inputs = outputs
            return nn.ModuleList(layers)

        self.dlrm = nn.ModuleDict(
            {
                "bottom": mlp("bottom", config.dense_features, config.bottom_mlp),
                "tables": nn.ModuleList(
                    [
                        make_table(rows, width, forms[f"tables.{t}"], f"tables.{t}")
                        for t, rows in enumerate(config.table_rows)
                    ]
                ),
                "top": mlp("top", width + vectors * (vectors - 1) // 2, config.top_mlp),
            }
        )
        pairs = [(i, j) for i in range(vectors) for j in range(i)]
        self._left = [i for i, _ in pairs]
        self._right = [j for _, j in pairs]

        # Of the folder of a model of Criteo's files.
        self.categories: Optional[CategoryTables] = None

    def batch(
        self, numbers: Sequence[Sequence[Any]], categories: Sequence[Sequence[Any]]
    ) -> Dict[str, Tensor]:
        """`dense` and `categories` of rows, as forward takes them. Of a model of
        Criteo's files: counts and hexadecimal values as in those, "" for nothing;
        otherwise numbers as they are and rows of the tables."""
        tables = self.categories
        if tables is not None:
            numbers = [[criteo_number(n) for n in row] for row in numbers]
            categories = [
                [tables.row(t, str(c)) for t, c in enumerate(row)] for row in categories
            ]
        device = next(self.parameters()).device
        chosen = [[int(c) for c in row] for row in categories]
        for row in chosen:
            for value, limit in zip(row, self.config.table_rows):
                if not 0 <= value < limit:
                    raise IndexError(f"{value} is no row of a table of {limit}")
        return {
            "dense": torch.tensor(numbers, dtype=torch.float32, device=device),
            "categories": torch.tensor(chosen, dtype=torch.long, device=device),
        }

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        """`dense` (batch, features), `categories` (batch, tables)."""
        x = dense
        for layer in self.dlrm["bottom"]:
            x = torch.relu(layer(x))
        rows = [table(categories[:, t]) for t, table in enumerate(self.dlrm["tables"])]
        z = torch.stack([x, *rows], dim=1)
        products = z @ z.transpose(1, 2)
        y = torch.cat([x, products[:, self._left, self._right]], dim=1)
        last = len(self.dlrm["top"]) - 1
        for i, layer in enumerate(self.dlrm["top"]):
            y = layer(y) if i == last else torch.relu(layer(y))
        return y[:, 0]

    def loss(self, labels: Tensor, **inputs: Tensor) -> Tensor:
        """Mean binary cross-entropy, in nats."""
        logits = self(**inputs)
        return nn.functional.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype)
        )


AnyModel = Union[EncoderClassifier, MaskedLm, Dlrm]


def expected_layers(config: ModelConfig) -> List[str]:
    """Keys of config.factorisation."""
    if config.family == "dlrm":
        return [
            *(f"bottom.{i}" for i in range(len(config.bottom_mlp))),
            *(f"tables.{t}" for t in range(len(config.table_rows))),
            *(f"top.{i}" for i in range(len(config.top_mlp))),
        ]
    parts = ("query", "key", "value", "output", "ffn_up", "ffn_down")
    names = ["embedding", "head"]
    names += [f"layers.{i}.{part}" for i in range(config.layers) for part in parts]
    if config.family == "masked_lm" and not config.tie_output:
        names.append("output")
    return names


def build(config: ModelConfig) -> AnyModel:
    """The module on the meta device, without memory for weights: to_empty gives
    it some, load fills it. IntegrityError: inconsistent."""
    expected = set(expected_layers(config))
    if set(config.factorisation) != expected:
        odd = sorted(expected.symmetric_difference(config.factorisation))
        raise IntegrityError(f"factorisation: {odd[0]}: missing, or not of this model")
    if config.family == "dlrm":
        return Dlrm(config)
    if config.family == "masked_lm":
        return MaskedLm(config)
    return EncoderClassifier(config)


def dense_form(form: Factorisation) -> Factorisation:
    """Without cores and adapters; CoLA's layers, which have no matrix, stay."""
    if form.low_rank is not None and form.low_rank.kind == "cola":
        return form
    return Factorisation()
