"""Packages that only some calls need, imported by those."""

from __future__ import annotations

import importlib
from typing import Any

from comera.errors import MissingDependencyError


def optional_import(module: str, what: str, package: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs {module.partition('.')[0]} (Debian: {package}): {error}"
        ) from error


def pandas() -> Any:
    return optional_import("pandas", "a data frame", "python3-pandas")


def pyplot() -> Any:
    return optional_import("matplotlib.pyplot", "a plot", "python3-matplotlib")
