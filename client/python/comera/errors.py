"""Exceptions that calls to the coordinator raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple, Type

import grpc

from comera._proto import error_details_pb2

_MAX_RETRY_DELAY = 60.0


class ComeraError(Exception):
    """Base of everything that this package raises on purpose."""


class SpecError(ComeraError, ValueError):
    """A job or sweep that cannot be one, found before it was sent.

    `field` is the path of what is wrong, e.g. "model.hidden".
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class ConfigError(ComeraError, ValueError):
    """Settings that do not belong together: files, tokens, addresses."""


class MissingDependencyError(ComeraError, ImportError):
    """An optional package that this call needs is not installed."""


class IntegrityError(ComeraError):
    """Bytes that arrived, or lie here, are not those that were announced."""


@dataclass(frozen=True)
class FieldViolation:
    """One bad field of a request."""

    field: str
    description: str


class RpcError(ComeraError):
    """A call that failed; its subclasses are gRPC's codes.

    `message`: the server's sentence. `violations`: the bad fields, if it named
    any. `reason`: ErrorInfo's, for programs. `retry_after`: seconds after which
    the same call may succeed.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        violations: Tuple[FieldViolation, ...] = (),
        reason: str = "",
        metadata: Optional[Dict[str, str]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        lines = [f"{self.code.name}: {message}"]
        lines += [
            f"  {v.field}: {v.description}"
            for v in violations
            if v.description not in message
        ]
        super().__init__("\n".join(lines))
        self.message = message
        self.violations = violations
        self.reason = reason
        self.metadata = metadata or {}
        self.retry_after = retry_after


class InvalidArgumentError(RpcError, ValueError):
    """A bad field; `violations` names it."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFoundError(RpcError, LookupError):
    code = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(RpcError):
    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDeniedError(RpcError):
    """The token may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class UnauthenticatedError(RpcError):
    """No token, or one that is wrong, expired or revoked."""

    code = grpc.StatusCode.UNAUTHENTICATED


class FailedPreconditionError(RpcError):
    """The resource is not in a state for this."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class AbortedError(RpcError):
    """It was changed meanwhile (etag)."""

    code = grpc.StatusCode.ABORTED


class OutOfRangeError(RpcError):
    code = grpc.StatusCode.OUT_OF_RANGE


class ResourceExhaustedError(RpcError):
    """A quota, a rate limit, or a full queue."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class UnavailableError(RpcError, ConnectionError):
    """The coordinator could not be reached in time."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceededError(RpcError, TimeoutError):
    """The time for the call, or for waiting, is over."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class DataLossError(RpcError):
    """Data that the server stored is damaged."""

    code = grpc.StatusCode.DATA_LOSS


class UnimplementedError(RpcError, NotImplementedError):
    """An older server."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(RpcError):
    """A bug of the server."""

    code = grpc.StatusCode.INTERNAL


class CancelledError(RpcError):
    code = grpc.StatusCode.CANCELLED


_BY_CODE: Dict[grpc.StatusCode, Type[RpcError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        UnauthenticatedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        ResourceExhaustedError,
        UnavailableError,
        DeadlineExceededError,
        DataLossError,
        UnimplementedError,
        InternalError,
        CancelledError,
    )
}


def from_grpc(error: grpc.RpcError) -> RpcError:
    """The exception for a failed call of gRPC, with its details."""
    code = error.code()
    violations: List[FieldViolation] = []
    reason = ""
    metadata: Dict[str, str] = {}
    retry_after: Optional[float] = None
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        try:
            details = error_details_pb2.Status.FromString(value).details
            for detail in details:
                kind = detail.type_url.rpartition("/")[2]
                if kind == "google.rpc.ErrorInfo":
                    info = error_details_pb2.ErrorInfo.FromString(detail.value)
                    reason, metadata = info.reason, dict(info.metadata)
                elif kind == "google.rpc.RetryInfo":
                    retry = error_details_pb2.RetryInfo.FromString(detail.value)
                    delay = retry.retry_delay
                    seconds = delay.seconds + delay.nanos / 1e9
                    retry_after = min(max(seconds, 0.0), _MAX_RETRY_DELAY)
                elif kind == "google.rpc.BadRequest":
                    bad = error_details_pb2.BadRequest.FromString(detail.value)
                    violations += [
                        FieldViolation(v.field, v.description)
                        for v in bad.field_violations
                    ]
        except Exception:  # pylint: disable=broad-except
            # Malformed details say nothing about the call.
            continue
    kind_of_error = _BY_CODE.get(code, RpcError)
    return kind_of_error(
        error.details() or "", tuple(violations), reason, metadata, retry_after
    )
