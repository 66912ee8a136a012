"""Channels to the coordinator: TLS, tokens, several coordinators."""

from __future__ import annotations

import collections
import ipaddress
import json
import re
import socket
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import grpc

from comera._settings import Settings
from comera.errors import ConfigError

# Name under which a coordinator's health service tells whether it leads.
_LEADER_HEALTH = "comera.v1.Leader"
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:,]+):([0-9]{1,5})\Z")

Option = Tuple[str, Any]


class HostPort(NamedTuple):
    host: str
    port: int


def _split(text: str) -> HostPort:
    match = _HOST_PORT.match(text)
    port = int(match.group(2)) if match else 0
    if match is None or not 1 <= port <= 65535:
        raise ConfigError(f'server: "{text}" is not host:port')
    return HostPort(match.group(1).strip("[]"), port)


def _resolve(servers: Sequence[HostPort], family: int) -> List[str]:
    addresses = []
    for server in servers:
        for found in socket.getaddrinfo(
            server.host, server.port, family, socket.SOCK_STREAM
        ):
            host = found[4][0]
            addresses.append(
                f"{host}:{server.port}"
                if family == socket.AF_INET
                else f"[{host}]:{server.port}"
            )
    return addresses


def _options() -> List[Option]:
    return [
        ("grpc.max_receive_message_length", 64 << 20),
        # A restarted coordinator is found again within seconds.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 1000),
        ("grpc.max_reconnect_backoff_ms", 3000),
        # A machine that vanished tells nobody; these pings find out.
        ("grpc.keepalive_time_ms", 6000),
        ("grpc.keepalive_timeout_ms", 8000),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def target(server: str) -> Tuple[str, List[Option]]:
    """gRPC's target and options for one server or for `a:1,b:1`.

    With several, calls go to the one whose health service says that it leads.
    """
    options = _options()
    several = "," in server
    if several or server.startswith("dns:"):
        follow_leader = {
            "loadBalancingConfig": [{"round_robin": {}}],
            "healthCheckConfig": {"serviceName": _LEADER_HEALTH},
        }
        options.append(("grpc.service_config", json.dumps(follow_leader)))
    if not several:
        return server, options
    servers = [_split(part) for part in server.split(",")]
    # The certificate's name: a target of several has none of its own.
    options.append(("grpc.default_authority", servers[0].host))
    try:
        return "ipv4:" + ",".join(_resolve(servers, socket.AF_INET)), options
    except OSError:
        pass
    try:
        return "ipv6:" + ",".join(_resolve(servers, socket.AF_INET6)), options
    except OSError as error:
        raise ConfigError(f"server {server}: {error.strerror}") from error


def stays_here(server: str) -> bool:
    """Whether nobody outside this machine sees what goes there."""
    if "," in server:
        return all(stays_here(one) for one in server.split(","))
    if server.startswith("unix:"):
        return True
    host = re.sub(r"^(dns:///|dns:|ipv4:|ipv6:)", "", server)
    host = host.rpartition(":")[0].strip("[]") or host
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_pem(path: str, begin: str) -> bytes:
    try:
        with open(path, "rb") as file:
            contents = file.read(16 << 20)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    # gRPC itself would try for ever, without a word.
    if begin.encode() not in contents:
        raise ConfigError(f'{path}: no PEM file with "{begin}..."')
    return contents


def _credentials(settings: Settings) -> Optional[grpc.ChannelCredentials]:
    if not settings.ca:
        return None
    roots = None
    if settings.ca != "system":
        roots = _read_pem(settings.ca, "-----BEGIN CERT")
    key = cert = None
    if settings.cert:
        cert = _read_pem(settings.cert, "-----BEGIN CERT")
        key = _read_pem(settings.key, "-----BEGIN ")
    return grpc.ssl_channel_credentials(roots, key, cert)


class _CallDetails(
    collections.namedtuple(
        "_CallDetails",
        ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression"),
    ),
    grpc.ClientCallDetails,
):
    pass


class _AddToken(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
):
    """Puts the token of the moment into the metadata of every call."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.token

    def _with_token(self, details: Any) -> _CallDetails:
        metadata = list(details.metadata or ())
        metadata.append(("authorization", f"Bearer {self._token.get()}"))
        return _CallDetails(
            details.method,
            details.timeout,
            metadata,
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )

    def intercept_unary_unary(self, proceed: Any, details: Any, request: Any) -> Any:
        return proceed(self._with_token(details), request)

    def intercept_unary_stream(self, proceed: Any, details: Any, request: Any) -> Any:
        return proceed(self._with_token(details), request)

    def intercept_stream_unary(self, proceed: Any, details: Any, requests: Any) -> Any:
        return proceed(self._with_token(details), requests)


def open_channel(settings: Settings, server: Optional[str] = None) -> grpc.Channel:
    """A channel to `server`, by default the settings', whose calls carry the
    token. Connecting is lazy. ConfigError."""
    address = server or settings.server
    where, options = target(address)
    credentials = _credentials(settings)
    if settings.token and not settings.ca and not settings.insecure_token:
        if not stays_here(address):
            raise ConfigError(
                f"the token would travel to {address} unencrypted: give the "
                "authority of its certificate (ca=..., COMERA_CA; "
                '"system": this machine\'s), or say insecure_token=True'
            )
    channel = (
        grpc.insecure_channel(where, options)
        if credentials is None
        else grpc.secure_channel(where, credentials, options)
    )
    if settings.token:
        return grpc.intercept_channel(channel, _AddToken(settings))
    return channel
