"""Exported models as torch.nn.Module.

    import comera.torch

    model = comera.torch.load("my-model")              # or load(job.models[-1])
    model.num_parameters()
    logits = model(**model.batch(["some text"]))
    optimizer = torch.optim.Adam(model.parameters())   # the cores themselves
    comera.torch.save(model, "my-model-tuned")
    dense = comera.torch.to_dense(model)

Tensor-train layers compute with their cores; no dense matrix is formed. Outputs
equal the trainer's to 1e-5.
"""

from comera._optional import optional_import

optional_import("torch", "comera.torch", "python3-torch")

from comera.torch.causal_lm import CausalLm
from comera.torch.config import Factorisation, LowRank, ModelConfig, read_config
from comera.torch.layers import (
    AdapterLinear,
    ColaLinear,
    DenseEmbedding,
    DenseLinear,
    LayerNorm,
    RmsNorm,
    TTLinear,
    TTMEmbedding,
)
from comera.torch.loading import load, save, to_dense
from comera.torch.dlrm import Dlrm
from comera.torch.families import build
from comera.torch.module import ComeraModule
from comera.torch.text_models import IGNORED, EncoderClassifier, MaskedLm

__all__ = [
    "AdapterLinear",
    "CausalLm",
    "ColaLinear",
    "ComeraModule",
    "DenseEmbedding",
    "DenseLinear",
    "Dlrm",
    "EncoderClassifier",
    "Factorisation",
    "IGNORED",
    "LayerNorm",
    "LowRank",
    "MaskedLm",
    "ModelConfig",
    "RmsNorm",
    "TTLinear",
    "TTMEmbedding",
    "build",
    "load",
    "read_config",
    "save",
    "to_dense",
]
