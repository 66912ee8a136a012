"""Calls that last: retries, deadlines, streams that resume, one leader."""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, TypeVar

import grpc

from comera._channel import open_channel
from comera._settings import Settings
from comera._stubs import stub
from comera.errors import (
    DeadlineExceededError,
    ResourceExhaustedError,
    RpcError,
    UnavailableError,
    from_grpc,
)

T = TypeVar("T")

# host:port and nothing that gRPC would take for another kind of target.
_LEADER = re.compile(r"[A-Za-z0-9.\-_:\[\]]{1,300}\Z")


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of calls, retries and streams; all times are in seconds."""

    # The limit of a call with all its retries, and that of one try.
    timeout: float = 30.0
    attempt_timeout: float = 10.0
    # The pause before the first retry doubles up to max_backoff, with jitter.
    initial_backoff: float = 0.1
    max_backoff: float = 3.0
    # How long streams keep trying to come back without any success.
    reconnect_timeout: float = 300.0
    # A stream this old is replaced, so that a dead connection is not missed.
    stream_lifetime: float = 120.0


def pause_before(attempt: int, first: float, most: float) -> float:
    """Seconds before retry `attempt`, from 1: growing, with jitter, so that
    clients that lost the same server do not come back together."""
    return min(first * 2 ** min(attempt - 1, 16), most) * random.uniform(0.5, 1.0)


def _retry_delay(error: RpcError) -> float:
    """The pause that the server asks for; 0 if it asks for none."""
    if isinstance(error, ResourceExhaustedError) and error.retry_after:
        return error.retry_after
    return 0.0


def _is_transient(error: RpcError) -> bool:
    return isinstance(error, (UnavailableError, DeadlineExceededError))


class Connection:
    """The channel to the coordinator that leads, and calls over it.

    Thread-safe. A coordinator that does not lead names the one that does, and
    the next try goes there; when that one cannot be reached, back to the first.
    """

    def __init__(self, settings: Settings, policy: RetryPolicy) -> None:
        self.settings = settings
        self.policy = policy
        self._lock = threading.Lock()
        self._first = open_channel(settings)
        self._current = self._first
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            for channel in {id(c): c for c in (self._first, self._current)}.values():
                channel.close()

    def channel(self) -> grpc.Channel:
        with self._lock:
            return self._current

    def seen(self, error: RpcError) -> None:
        """How a call over channel() failed."""
        if not isinstance(error, UnavailableError):
            return
        leader = ""
        if error.reason == "NOT_LEADER":
            named = error.metadata.get("leader", "")
            leader = named if _LEADER.match(named) else ""
        with self._lock:
            if self._closed.is_set():
                return
            old = self._current
            self._current = (
                open_channel(self.settings, leader) if leader else self._first
            )
            # Streams of others may still run over the old one: it closes when
            # the last of them lets go.
            del old

    def unary(self, service: str, method: str, request: Any) -> Any:
        """One answer, after as many tries as the policy allows. RpcError."""
        deadline = time.monotonic() + self.policy.timeout
        attempt = 0
        while True:
            attempt += 1
            left = deadline - time.monotonic()
            try:
                call = getattr(stub(service, self.channel()), method)
                return call(request, timeout=min(left, self.policy.attempt_timeout))
            except grpc.RpcError as raised:
                error = from_grpc(raised)
            self.seen(error)
            asked = _retry_delay(error)
            if not _is_transient(error) and not asked:
                raise error
            if time.monotonic() + asked >= deadline or self._closed.is_set():
                raise error
            self._pause(attempt, asked, deadline)
            if time.monotonic() >= deadline:
                raise error

    def stream(
        self,
        open_stream: Callable[[grpc.Channel, float], Any],
        done: Callable[[], bool],
        deadline: Optional[float] = None,
    ) -> Iterator[Any]:
        """The messages of one stream after the other, until done() is true when
        one ends well.

        `open_stream(channel, timeout)` begins where the last one broke off.
        `deadline`: of time.monotonic(). Closing the generator ends the stream.
        RpcError; DeadlineExceededError once the deadline is over.
        """
        policy = self.policy
        patience = time.monotonic() + policy.reconnect_timeout
        attempt = 0
        while True:
            lifetime = policy.stream_lifetime
            if deadline is not None:
                lifetime = min(lifetime, deadline - time.monotonic())
            error: Optional[RpcError] = None
            progressed = False
            call = None
            try:
                if lifetime > 0:
                    call = open_stream(self.channel(), lifetime)
                    for message in call:
                        progressed = True
                        yield message
            except grpc.RpcError as raised:
                error = from_grpc(raised)
            finally:
                # A caller that leaves (break, Ctrl-C, an exception) comes here too.
                if call is not None:
                    call.cancel()
            if error is None and lifetime > 0 and done():
                return
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise DeadlineExceededError("the time to wait is over")
            asked = 0.0
            if error is not None:
                self.seen(error)
                asked = _retry_delay(error)
                if not _is_transient(error) and not asked:
                    raise error
            # A quiet stream that lived out its time worked.
            lived_out = (
                isinstance(error, DeadlineExceededError)
                and lifetime >= policy.stream_lifetime
            )
            if progressed or lived_out:
                attempt = 0
                patience = now + policy.reconnect_timeout
                if lived_out:
                    continue
            elif now >= patience:
                raise error or UnavailableError("the stream keeps ending early")
            attempt += 1
            until = patience if deadline is None else min(patience, deadline)
            self._pause(attempt, asked, until)

    def repeat(
        self,
        attempt: Callable[[grpc.Channel, float], T],
        progressed: Callable[[], bool],
    ) -> T:
        """Returns what `attempt(channel, timeout)` does, and calls it again while
        its failures are temporary and progressed() is true now and then between
        them. RpcError."""
        policy = self.policy
        patience = time.monotonic() + policy.reconnect_timeout
        failures = 0
        while True:
            try:
                return attempt(self.channel(), policy.stream_lifetime)
            except grpc.RpcError as raised:
                error = from_grpc(raised)
            except UnavailableError as raised_by_us:
                error = raised_by_us
            self.seen(error)
            asked = _retry_delay(error)
            if not _is_transient(error) and not asked:
                raise error
            if progressed():
                failures = 0
                patience = time.monotonic() + policy.reconnect_timeout
            elif time.monotonic() >= patience:
                raise error
            failures += 1
            self._pause(failures, asked, patience)

    def _pause(self, attempt: int, at_least: float, no_later_than: float) -> None:
        policy = self.policy
        pause = pause_before(attempt, policy.initial_backoff, policy.max_backoff)
        pause = min(max(pause, at_least), no_later_than - time.monotonic())
        if pause > 0:
            self._closed.wait(pause)
