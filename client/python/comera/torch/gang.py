"""The processes that train together, as torch.distributed knows them."""

from __future__ import annotations

from typing import Any, List

import torch
import torch.distributed as dist


def size() -> int:
    """1 without torch.distributed."""
    if not dist.is_available() or not dist.is_initialized():
        return 1
    return int(dist.get_world_size())


def member() -> int:
    """The number of this process, from 0."""
    return int(dist.get_rank()) if size() > 1 else 0


def _device() -> torch.device:
    # NCCL takes memory of the GPU alone.
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


# What the processes take means of; when they are at different calls, it shows.
LOSS, STOP, REPORT, VALIDATION = range(4)


def mean(value: float, what: int) -> float:
    """The same number on all processes. RuntimeError: others take the mean of
    something else."""
    if size() == 1:
        return value
    sums = torch.tensor([value, what, what**2], dtype=torch.float64, device=_device())
    dist.all_reduce(sums)
    total, first, second = sums.tolist()
    # Cauchy and Schwarz: equal only if all of them are.
    if second * size() != first**2:
        raise RuntimeError(
            "the processes are at different calls: all of them call report() and "
            "validate() in the same steps"
        )
    return total / size()


def any_of(flag: bool) -> bool:
    """Whether one of the processes says so."""
    return mean(float(flag), STOP) > 0


def all_equal(value: float) -> bool:
    """Whether all processes have the same number."""
    if size() == 1:
        return True
    ends = torch.tensor([value, -value], dtype=torch.float64, device=_device())
    dist.all_reduce(ends, op=dist.ReduceOp.MAX)
    return float(ends[0]) == -float(ends[1])


def gather(value: Any) -> List[Any]:
    """The values of all processes, by member, on each of them. They travel pickled,
    between processes of one program."""
    if size() == 1:
        return [value]
    values: List[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def from_first(value: Any) -> Any:
    """The value of member 0, on all processes."""
    if size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0, device=_device())
    return values[0]
