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

Models of one's own (docs/pytorch.md):

    model = comera.torch.tensorize(MyModel(), ranks=16)
    optimizer = torch.optim.AdamW(comera.torch.parameter_groups(model))
    objective = comera.torch.Objective(model, optimizer)
    with comera.torch.Run(model, optimizer, objective, steps=1000) as run:
        ...
"""

from comera._optional import optional_import

optional_import("torch", "comera.torch", "python3-torch")

from comera.torch.causal_lm import CausalLm
from comera.torch.compaction import compact, load_state_dict
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
from comera.torch.objective import Objective, ObjectiveStep, Target
from comera.torch.run import Point, Run
from comera.torch.sizes import num_parameters, parameter_groups, ranks
from comera.torch.tensorize import TableProjection, TensorizeError, tensorize
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
    "Objective",
    "ObjectiveStep",
    "Point",
    "RmsNorm",
    "Run",
    "TTLinear",
    "TTMEmbedding",
    "TableProjection",
    "Target",
    "TensorizeError",
    "build",
    "compact",
    "load",
    "load_state_dict",
    "num_parameters",
    "parameter_groups",
    "ranks",
    "read_config",
    "save",
    "tensorize",
    "to_dense",
]
