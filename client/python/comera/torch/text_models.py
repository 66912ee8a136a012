"""Models of text: classifiers and masked language models."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from comera.errors import ComeraError
from comera.tokenizers import Sample, Tokenizer
from comera.torch.config import ModelConfig
from comera.torch.encoder import Encoder
from comera.torch.layers import DenseLinear, LayerNorm, Table, make_linear, new_parameter
from comera.torch.module import ComeraModule

# Labels that count for nothing, as torch's cross_entropy has it.
IGNORED = -100
_ASCII_SPACE = " \t\n\v\f\r"


class TextModule(ComeraModule):
    """The common part of models of text."""

    def _need_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ComeraError(
                "the model's folder had no tokenizer's files, or tokenizer.model, "
                "which needs sentencepiece (Debian: python3-sentencepiece)"
            )
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
        """The most probable tokens for each mask token of the vocabulary ("<mask>",
        "[MASK]") in the text: [[("def", 0.8), ...], ...]."""
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
