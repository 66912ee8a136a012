"""A client of the comera training service.

    import comera

    client = comera.Client()
    job = client.submit("job.yaml")
    for event in job.watch():
        print(event)
    folder = job.models[-1].download("model")

    import comera.torch  # needs PyTorch
    module = comera.torch.load(folder)

docs/python.md has the whole tour. Public are the names below and those of
comera.torch, comera.tokenizers, comera.safetensors, comera.protos.
"""

from comera._calls import RetryPolicy
from comera._version import __version__
from comera.client import Client, login
from comera.datasets import Dataset
from comera.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    ComeraError,
    ConfigError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    FieldViolation,
    IntegrityError,
    InternalError,
    InvalidArgumentError,
    MissingDependencyError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RpcError,
    SpecError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
)
from comera.events import Event
from comera.front import FrontPoint, ParetoFront
from comera.jobs import Job, JobFailedError
from comera.models import Model
from comera.series import Metric, Series
from comera.serving import ServedModel
from comera.specs import job_spec, sweep_spec
from comera.sweeps import Sweep, SweepFailedError

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "Client",
    "ComeraError",
    "ConfigError",
    "DataLossError",
    "Dataset",
    "DeadlineExceededError",
    "Event",
    "FailedPreconditionError",
    "FieldViolation",
    "FrontPoint",
    "IntegrityError",
    "InternalError",
    "InvalidArgumentError",
    "Job",
    "JobFailedError",
    "Metric",
    "MissingDependencyError",
    "Model",
    "NotFoundError",
    "OutOfRangeError",
    "ParetoFront",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "RetryPolicy",
    "RpcError",
    "Series",
    "ServedModel",
    "SpecError",
    "Sweep",
    "SweepFailedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "__version__",
    "job_spec",
    "login",
    "sweep_spec",
]
