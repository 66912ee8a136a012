"""The coordinator's address, and the credentials of this side."""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Tuple, Union

from comera.errors import ConfigError

PathLike = Union[str, "os.PathLike[str]"]

DEFAULT_SERVER = "127.0.0.1:7400"
_MAX_TOKEN_BYTES = 7 << 10
_TOKEN = re.compile(r"[!-~]+\Z")


def login_path() -> Optional[Path]:
    """The file that `comera login` writes, in ${XDG_CONFIG_HOME:-~/.config}/comera."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if config.startswith("/"):
        return Path(config) / "comera" / "login.json"
    home = os.environ.get("HOME", "")
    return Path(home) / ".config" / "comera" / "login.json" if home else None


def read_login() -> Dict[str, Any]:
    """Nothing if there is no such file, or it is not one of ours."""
    path = login_path()
    if path is None:
        return {}
    try:
        login = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return login if isinstance(login, dict) else {}


def write_login(login: Dict[str, Any]) -> Path:
    """Replaces the file, which only its owner can read."""
    path = login_path()
    if path is None:
        raise ConfigError("neither XDG_CONFIG_HOME nor HOME is set")
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp's files are 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".login")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(login, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


class TokenSource:
    """The token as it is now: a file is read again when it changes."""

    def __init__(self, token: str = "", token_file: str = "") -> None:
        self._lock = threading.Lock()
        self._file = "" if token else token_file
        self._token = token
        self._stamp = -1
        if self._file:
            self._read()
        elif token:
            self._check(token, "token")

    def __bool__(self) -> bool:
        return bool(self._token)

    def get(self) -> str:
        with self._lock:
            if self._file:
                try:
                    self._read()
                except ConfigError:
                    # The token that was read last stays in use meanwhile.
                    pass
            return self._token

    @staticmethod
    def _check(token: str, where: str) -> None:
        if len(token) > _MAX_TOKEN_BYTES or not _TOKEN.match(token):
            # The message never holds the token.
            raise ConfigError(f"{where}: holds no token")

    def _read(self) -> None:
        try:
            stamp = os.stat(self._file).st_mtime_ns
            if self._token and stamp == self._stamp:
                return
            with open(self._file, encoding="ascii", errors="replace") as file:
                token = file.read(2 * _MAX_TOKEN_BYTES).strip()
        except OSError as error:
            raise ConfigError(f"{self._file}: {error.strerror}") from error
        self._check(token, self._file)
        self._token, self._stamp = token, stamp


@dataclass
class Settings:
    """Complete: nothing is left to look up. Printing shows no token."""

    server: str
    token: TokenSource
    ca: str = ""
    cert: str = ""
    key: str = ""
    insecure_token: bool = False


def _text(value: Optional[PathLike]) -> str:
    return "" if value is None else os.fspath(value)


def _first(*values: str) -> str:
    return next((value for value in values if value), "")


def resolve(
    server: Optional[str] = None,
    token: Optional[str] = None,
    token_file: Optional[PathLike] = None,
    ca: Optional[PathLike] = None,
    cert: Optional[PathLike] = None,
    key: Optional[PathLike] = None,
    insecure_token: bool = False,
) -> Settings:
    """Arguments before environment before `comera login`, as the CLI does."""
    env = os.environ.get
    stored = read_login()

    def login_text(name: str) -> str:
        value = stored.get(name, "")
        return value if isinstance(value, str) else ""

    address = _first(
        server or "", env("COMERA_SERVER", ""), login_text("server"), DEFAULT_SERVER
    )
    # A stored token goes to the server it was stored for and to no other.
    if login_text("server") != address:
        stored = {}
    choices: Tuple[Tuple[str, str], ...] = (
        (token or "", ""),
        ("", _text(token_file)),
        (env("COMERA_TOKEN", ""), ""),
        ("", env("COMERA_TOKEN_FILE", "")),
        (login_text("token"), ""),
    )
    secret, secret_file = next((c for c in choices if any(c)), ("", ""))
    settings = Settings(
        server=address,
        token=TokenSource(secret, secret_file),
        ca=_first(_text(ca), env("COMERA_CA", ""), login_text("ca")),
        cert=_first(_text(cert), env("COMERA_CERT", ""), login_text("cert")),
        key=_first(_text(key), env("COMERA_KEY", ""), login_text("key")),
        insecure_token=insecure_token or stored.get("insecure_token") is True,
    )
    if bool(settings.cert) != bool(settings.key):
        raise ConfigError("a certificate and its key go together: both or none")
    if settings.cert and not settings.ca:
        raise ConfigError(
            "a certificate needs TLS: give the authority of the coordinator's too"
        )
    return settings
