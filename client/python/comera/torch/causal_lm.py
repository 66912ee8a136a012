"""Causal language models: the next token of each."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import torch
from torch import Tensor, nn

from comera.tokenizers import Sample
from comera.torch.config import ModelConfig
from comera.torch.decoder import Decoder, make_norm
from comera.torch.layers import Table, make_linear
from comera.torch.text_models import IGNORED, TextModule


class CausalLmHead(nn.Module):
    """output(norm(h)); tied, the output is the word embedding's table."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = make_norm(config)
        self.output = None
        if not config.tie_output:
            form = config.factorisation["output"]
            self.output = make_linear(
                config.hidden, config.vocabulary, form, "output", bias=False
            )

    def forward(self, h: Tensor, words: Table) -> Tensor:
        h = self.norm(h)
        return words.project(h) if self.output is None else self.output(h)


class CausalLm(TextModule):
    """Logits of the next token at each place."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.decoder = Decoder(config)
        self.head = CausalLmHead(config)

    def batch(
        self,
        texts: Sequence[Any],
        pairs: Optional[Sequence[Any]] = None,
        length: Optional[int] = None,
    ) -> Dict[str, Tensor]:
        """`ids`, `segments` and `mask` of texts, to which nothing is added."""
        if pairs is not None:
            raise ValueError("a causal language model takes no pairs")
        tokenizer = self._need_tokenizer()
        most = min(length or self.config.length, self.config.max_positions)
        rows = [tokenizer.encode(text)[:most] for text in texts]
        return self.collate([Sample(ids, [0] * len(ids)) for ids in rows])

    def forward(
        self,
        ids: Tensor,
        segments: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        places: Optional[Tensor] = None,
    ) -> Tensor:
        """(batch, length, vocabulary); with `places`, numbers of tokens in (batch *
        length), only theirs: (places, vocabulary). `segments`: numbers of the
        documents in each row, which see nothing of one another."""
        h = self.decoder(ids, segments, mask)
        if places is not None:
            h = h.reshape(-1, h.shape[-1])[places]
        return self.head(h, self.decoder.embedding.word)

    def next_tokens(self, inputs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        """A batch with `labels`: the next token of each in its document, IGNORED for
        the last."""
        ids = inputs["ids"]
        labels = torch.full_like(ids, IGNORED)
        follows = torch.ones_like(ids[:, 1:], dtype=torch.bool)
        segments, mask = inputs.get("segments"), inputs.get("mask")
        if segments is not None:
            follows &= segments[:, 1:] == segments[:, :-1]
        if mask is not None:
            follows &= mask[:, 1:] != 0
        labels[:, :-1] = ids[:, 1:].masked_fill(~follows, IGNORED)
        return {**inputs, "labels": labels}

    def loss(self, labels: Tensor, **inputs: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, where `labels` (batch, length) are not
        IGNORED."""
        flat = labels.reshape(-1)
        places = torch.nonzero(flat != IGNORED).squeeze(1)
        return nn.functional.cross_entropy(self(places=places, **inputs), flat[places])
