"""Click prediction (arXiv 1906.00091)."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import torch
from torch import Tensor, nn

from comera.torch.clicks import CategoryTables, criteo_number
from comera.torch.config import ModelConfig
from comera.torch.layers import make_linear, make_table
from comera.torch.module import ComeraModule


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

        # Tables of the model's folder, for models of Criteo's files.
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
