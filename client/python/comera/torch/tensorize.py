"""Linear layers and embeddings of any module as tensor trains."""

from __future__ import annotations

import fnmatch
import logging
import math
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from comera.errors import ComeraError, IntegrityError
from comera.torch import shapes, trains
from comera.torch.config import Factorisation
from comera.torch.layers import RANK_THRESHOLD, Table, TTLinear, TTMEmbedding, add_bias

# One rank for all bonds of a layer, a rank for each bond, or modes and ranks.
Form = Union[int, Sequence[int], Factorisation]
Patterns = Union[str, Sequence[str]]

_log = logging.getLogger("comera.torch")

# The standard deviation that tables start with, as the engine's.
_TABLE_DEVIATION = 0.02


class TensorizeError(ComeraError, ValueError):
    """A submodule that cannot become a tensor train as was asked.

    `submodule` is its name, or the pattern that named none.
    """

    def __init__(self, submodule: str, message: str) -> None:
        super().__init__(f"{submodule or 'the module itself'}: {message}")
        self.submodule = submodule


class TableProjection(nn.Module):
    """An output layer that shares its weight with an embedding: Y = X E^T + bias,
    with E the rows of `table` (rows, width), X (..., width) and Y (..., rows)."""

    def __init__(self, table: Table, bias: Optional[nn.Parameter]) -> None:
        super().__init__()
        self.table = table
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        return add_bias(self.table.project(x), self.bias)


class _Candidate:
    """A linear layer or an embedding, and all places where it is registered."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.module = module
        self.names = [name]
        # (parent, attribute); none for the module that tensorize was called with.
        self.places: List[Tuple[nn.Module, str]] = []
        # It was named, and not only matched by a pattern or by default.
        self.named = False

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def is_table(self) -> bool:
        return isinstance(self.module, nn.Embedding)

    @property
    def weight(self) -> nn.Parameter:
        return self.module.weight

    def matches(self, pattern: str) -> bool:
        return any(
            fnmatch.fnmatchcase(name, pattern) or name.startswith(pattern + ".")
            for name in self.names
        )

    def obstacle(self) -> Optional[str]:
        """Why it cannot be replaced."""
        module = self.module
        if type(module) not in (nn.Linear, nn.Embedding):
            return (
                f"is a {type(module).__name__}, whose forward pass or whose parent may "
                "use its weight otherwise than nn.Linear and nn.Embedding do"
            )
        known = {"weight", "bias"}
        if not {name for name, _ in module.named_parameters(recurse=False)} <= known:
            return "has parameters besides weight and bias, such as those of weight_norm"
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            return "has hooks, which a new layer would lose"
        if not self.weight.requires_grad:
            return "is frozen: tensor trains are for weights that are trained"
        if isinstance(module, nn.Embedding):
            if module.max_norm is not None or module.sparse or module.scale_grad_by_freq:
                return "has max_norm, sparse or scale_grad_by_freq, which tables lack"
            if module.padding_idx is not None:
                if bool(module.weight[module.padding_idx].detach().ne(0).any()):
                    return "has a padding row that is not 0"
        return None


def _patterns(given: Optional[Patterns]) -> List[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def _candidates(root: nn.Module) -> List[_Candidate]:
    found: Dict[int, _Candidate] = {}
    for name, module in root.named_modules(remove_duplicate=False):
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            continue
        candidate = found.get(id(module))
        if candidate is None:
            candidate = found[id(module)] = _Candidate(name, module)
        else:
            candidate.names.append(name)
        if name:
            parent, _, attribute = name.rpartition(".")
            candidate.places.append((root.get_submodule(parent), attribute))
    return list(found.values())


def _check_matches(pattern: str, what: str, root: nn.Module, all_: List[_Candidate]) -> None:
    if any(c.matches(pattern) for c in all_):
        return
    if any(fnmatch.fnmatchcase(name, pattern) for name, _ in root.named_modules()):
        raise TensorizeError(pattern, f"{what} names no nn.Linear and no nn.Embedding")
    known = ", ".join(c.name for c in all_[:8]) + (", ..." if len(all_) > 8 else "")
    raise TensorizeError(pattern, f"{what} matches no submodule; there are {known or 'none'}")


def _choose(
    root: nn.Module, include: List[str], exclude: List[str]
) -> Tuple[List[_Candidate], List[_Candidate]]:
    """Those that are wanted, and all."""
    everything = _candidates(root)
    for what, patterns in (("include", include), ("exclude", exclude)):
        for pattern in patterns:
            _check_matches(pattern, what, root, everything)
    wanted = []
    for candidate in everything:
        if any(candidate.matches(p) for p in exclude):
            continue
        if include and not any(candidate.matches(p) for p in include):
            continue
        candidate.named = any(p in candidate.names for p in include)
        wanted.append(candidate)
    return wanted, everything


def _owners(root: nn.Module) -> Dict[int, List[nn.Module]]:
    """The modules that hold a parameter, by its id."""
    owners: Dict[int, List[nn.Module]] = {}
    for module in root.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append(module)
    return owners


class _Planner:
    """Decides what becomes of each candidate, before anything is changed."""

    def __init__(
        self, root: nn.Module, ranks: Union[Form, Mapping[str, Form]], wanted: List[_Candidate],
        everything: List[_Candidate],
    ) -> None:
        self._ranks = ranks
        self._wanted = wanted
        self._owners = _owners(root)
        self._by_module = {id(c.module): c for c in everything}
        self._skipped: List[str] = []
        # Layers and how they are factorised.
        self.forms: List[Tuple[_Candidate, Factorisation]] = []
        # Output layers, each with the embedding whose weight is theirs.
        self.tied: List[Tuple[_Candidate, _Candidate]] = []

    def run(self) -> None:
        for candidate in self._wanted:
            obstacle = candidate.obstacle()
            if obstacle is None:
                obstacle = self._plan(candidate)
            if obstacle is None:
                continue
            if candidate.named:
                raise TensorizeError(candidate.name, obstacle)
            _log.info("%s stays as it is: it %s", candidate.name, obstacle)
            self._skipped.append(f"{candidate.name} {obstacle}")
        replaced = {id(c) for c, _ in self.forms}
        self.tied = [(c, table) for c, table in self.tied if id(table) in replaced]
        if not self.forms:
            reasons = "; ".join(self._skipped[:4]) or "it has no nn.Linear and no nn.Embedding"
            raise TensorizeError("", f"nothing is left to tensorise: {reasons}")

    def _plan(self, candidate: _Candidate) -> Optional[str]:
        others = [
            m for m in self._owners[id(candidate.weight)] if m is not candidate.module
        ]
        if others:
            table, obstacle = self._table_of(candidate, others)
            if obstacle is not None:
                return obstacle
            if table is not None and table is not candidate:
                self.tied.append((candidate, table))
                return None
        form = self._form(candidate)
        modes = shapes.size_modes(form, candidate.is_table)
        size = shapes.size_of(modes, form.ranks)
        if size >= candidate.weight.numel():
            return (
                f"is too small to gain: at ranks {list(form.ranks)} its cores have {size:,} "
                f"parameters, its weight {candidate.weight.numel():,}"
            )
        self.forms.append((candidate, form))
        return None

    def _table_of(
        self, candidate: _Candidate, others: List[nn.Module]
    ) -> Tuple[Optional[_Candidate], Optional[str]]:
        """The embedding among those that share a weight, or why they cannot."""
        group = [candidate]
        for module in others:
            other = self._by_module.get(id(module))
            if other is None:
                return None, f"shares its weight with a {type(module).__name__}"
            group.append(other)
        names = ", ".join(c.name for c in group[1:])
        tables = [c for c in group if c.is_table]
        if len(tables) != 1 or len({tuple(c.weight.shape) for c in group}) != 1:
            return None, (
                f"shares its weight with {names}; only one embedding and output layers can"
            )
        left_out = [c.name for c in group if c not in self._wanted]
        if left_out:
            raise TensorizeError(
                candidate.name,
                f"shares its weight with {names}, and {', '.join(left_out)} is left out: "
                "include both or neither",
            )
        for other in group[1:]:
            obstacle = other.obstacle()
            if obstacle is not None:
                return None, f"shares its weight with {other.name}, which {obstacle}"
        return tables[0], None

    def _form(self, candidate: _Candidate) -> Factorisation:
        asked = self._asked(candidate)
        outputs, inputs = candidate.weight.shape
        if isinstance(asked, Factorisation):
            return _checked(candidate, asked)
        listed = [asked] if isinstance(asked, int) else list(asked)
        for rank in listed:
            if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
                raise TensorizeError(candidate.name, f"rank {rank!r}: ranks begin at 1")
        try:
            if candidate.is_table:
                return shapes.table_form(outputs, inputs, listed)
            return shapes.linear_form(inputs, outputs, listed)
        except ValueError as error:
            raise TensorizeError(candidate.name, str(error)) from None

    def _asked(self, candidate: _Candidate) -> Form:
        if not isinstance(self._ranks, Mapping):
            return self._ranks
        for pattern, form in self._ranks.items():
            if candidate.matches(pattern):
                return form
        raise TensorizeError(candidate.name, 'has no ranks: add it, or "*" for all others')


def _checked(candidate: _Candidate, form: Factorisation) -> Factorisation:
    other = form.silu or form.low_rank is not None or bool(form.dense_tokens)
    if other or not form.has_cores:
        raise TensorizeError(candidate.name, "expected modes and ranks, and nothing else")
    if not form.ranks or any(rank < 1 for rank in form.ranks):
        raise TensorizeError(candidate.name, f"ranks {list(form.ranks)}: ranks begin at 1")
    try:
        _empty_layer(candidate, form)
    except IntegrityError as error:
        raise TensorizeError(candidate.name, str(error).lstrip(": ")) from None
    modes = shapes.size_modes(form, candidate.is_table)
    cut = shapes.cut_ranks(modes, form.ranks)
    return Factorisation(form.input_modes, form.output_modes, cut)


def _empty_layer(candidate: _Candidate, form: Factorisation) -> Union[TTLinear, TTMEmbedding]:
    module = candidate.module
    outputs, inputs = candidate.weight.shape
    if isinstance(module, nn.Embedding):
        return TTMEmbedding(
            outputs, inputs, form, entries=True, padding=module.padding_idx
        )
    return TTLinear(inputs, outputs, form, bias=False, entries=True)


def _interleaved(table: Tensor, form: Factorisation) -> Tensor:
    """(m_1, n_1, m_2, n_2, ...) of (m_1 m_2 ..., n_1 n_2 ...)."""
    count = len(form.input_modes)
    order = [place for k in range(count) for place in (k, count + k)]
    return table.reshape(*form.input_modes, *form.output_modes).permute(order)


def _from_weight(candidate: _Candidate, form: Factorisation) -> List[Tensor]:
    weight = candidate.weight.detach().to("cpu", torch.float64)
    if not candidate.is_table:
        weight = weight.t()
    rows, columns = math.prod(form.input_modes), math.prod(form.output_modes)
    whole = weight.new_zeros(rows, columns)
    whole[: weight.shape[0], : weight.shape[1]] = weight
    if candidate.is_table:
        whole = _interleaved(whole, form)
    modes = shapes.size_modes(form, candidate.is_table)
    cores, error = trains.decompose(whole, modes, form.ranks)
    _log.info(
        "%s: ranks %s, relative error of the weight %.3g",
        candidate.name, list(form.ranks), error,
    )
    return cores


@torch.no_grad()
def _build(
    candidate: _Candidate,
    form: Factorisation,
    start: str,
    threshold: float,
    generator: Optional[torch.Generator],
) -> nn.Module:
    weight = candidate.weight
    modes = shapes.size_modes(form, candidate.is_table)
    if start == "weights":
        values = _from_weight(candidate, form)
    else:
        middle = len(modes) if candidate.is_table else len(form.input_modes)
        deviation = _TABLE_DEVIATION if candidate.is_table else sum(weight.shape) ** -0.5
        values = trains.random_train(modes, form.ranks, middle, deviation, generator)
    layer = _empty_layer(candidate, form).to_empty(device=weight.device).to(weight.dtype)
    layer.threshold = threshold
    for core, value in zip(layer.core, values):
        core.copy_(value.reshape(core.shape))
    assert layer.rank is not None
    for entries in layer.rank:
        entries.fill_(1)
    if isinstance(layer, TTLinear):
        layer.bias = candidate.module.bias
    return layer.train(candidate.module.training)


# What others read of a layer besides its weight.
_ATTRIBUTES = (
    "in_features", "out_features", "num_embeddings", "embedding_dim", "padding_idx"
)


def _replace(candidate: _Candidate, layer: nn.Module) -> None:
    for name in _ATTRIBUTES:
        if hasattr(candidate.module, name):
            setattr(layer, name, getattr(candidate.module, name))
    for parent, attribute in candidate.places:
        parent._modules[attribute] = layer
        if isinstance(parent, nn.TransformerEncoderLayer):
            # Its fused path for inference reads the weights of nn.Linear.
            parent.activation_relu_or_gelu = 0


def tensorize(
    module: nn.Module,
    ranks: Union[Form, Mapping[str, Form]] = 30,
    include: Optional[Patterns] = None,
    exclude: Optional[Patterns] = None,
    *,
    start: str = "weights",
    rank_threshold: float = RANK_THRESHOLD,
    generator: Optional[torch.Generator] = None,
) -> nn.Module:
    """Replaces nn.Linear and nn.Embedding layers by tensor trains with rank entries,
    in place, and returns the module (a new one if it is itself such a layer).

    `ranks`: the initial rank of all inner bonds; or a sequence, one rank for each
    bond of a layer; or a Factorisation, modes and ranks; or a mapping from patterns
    to those, of which the first that matches counts. Ranks are cut to what their
    bonds can hold. Modes that are not given are chosen as the engine does: balanced
    factors of the widths, few cores unless more at least halve the layer.

    `include`, `exclude`: names of submodules ("decoder.0.fc"), names of their
    parents, or shell patterns ("*.fc?"). Without `include`, everything. What is
    included by default or by a pattern and cannot gain or cannot be replaced stays
    as it is (the log "comera.torch" says why, at the level INFO).

    `start`: "weights" takes the TT-SVD of the weights that are there (the log has
    its relative errors); "scratch" draws cores as the engine does, with a deviation
    of sqrt(1 / (inputs + outputs)), of a table 0.02. Rank entries start at 1; biases
    stay the parameters that they are. An embedding and output layers that share its
    weight share one table afterwards.

    Entries at or below `rank_threshold` act as 0.

    Create the optimiser afterwards, and wrap the module for DDP afterwards.
    Code that reads `layer.weight` of a replaced layer has to use
    `layer.dense_weight()`, (inputs, outputs) of a linear layer.

    TensorizeError names the submodule: a pattern matches none, a rank is below 1,
    ranks and modes do not fit; or one that was named is too small to gain, is
    frozen, shares its weight with something else than an embedding, or has hooks;
    or nothing at all is left to replace. The module is then as it was.
    """
    if start not in ("weights", "scratch"):
        raise ValueError(f"start={start!r}: expected 'weights' or 'scratch'")
    if not 0 <= rank_threshold < 1:
        raise ValueError(f"rank_threshold={rank_threshold}: rank entries start at 1")
    if isinstance(module, nn.parallel.DistributedDataParallel):
        raise TensorizeError("", "is wrapped already: tensorise before DDP")
    included = _patterns(include)
    if isinstance(ranks, Mapping):
        for pattern in ranks:
            _check_matches(pattern, "ranks", module, _candidates(module))
        included = included or list(ranks)
    wanted, everything = _choose(module, included, _patterns(exclude))
    planner = _Planner(module, ranks, wanted, everything)
    planner.run()
    layers = {
        id(candidate): _build(candidate, form, start, rank_threshold, generator)
        for candidate, form in planner.forms
    }
    for candidate, _ in planner.forms:
        _replace(candidate, layers[id(candidate)])
        if not candidate.places:
            module = layers[id(candidate)]
    for candidate, table in planner.tied:
        rows = layers[id(table)]
        assert isinstance(rows, Table)
        _replace(candidate, TableProjection(rows, candidate.module.bias))
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoder) and any(tensor_trains(encoder)):
            # Later versions of PyTorch decide on that path in the constructor.
            encoder.use_nested_tensor = False
    return module


def tensor_trains(module: nn.Module) -> Iterator[Tuple[str, Union[TTLinear, TTMEmbedding]]]:
    """Names and layers with rank entries, each layer once, in the module's order."""
    for name, layer in module.named_modules():
        if isinstance(layer, (TTLinear, TTMEmbedding)) and layer.rank is not None:
            yield name, layer
