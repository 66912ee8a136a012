"""Where the programs and data of tests are."""

import os
import unittest
from pathlib import Path

# The tree, or its runfiles.
TREE = Path(os.environ["COMERA_TREE"])


def program(path):
    """A built program, e.g. "server/comera-server"; COMERA_BIN_DIR has them
    outside Bazel, in one folder or as in the tree."""
    folder = os.environ.get("COMERA_BIN_DIR")
    for candidate in (
        *([Path(folder) / Path(path).name, Path(folder) / path] if folder else []),
        TREE / path,
    ):
        if candidate.is_file():
            return str(candidate)
    raise FileNotFoundError(f"{path}: not built; set COMERA_BIN_DIR")


def shared(*parts):
    """A path of the shared data. Skips the test without it."""
    folder = os.environ.get("COMERA_SHARED_DIR", "")
    path = Path(folder).joinpath(*parts)
    if not folder or not path.exists():
        raise unittest.SkipTest(f"COMERA_SHARED_DIR has no {'/'.join(parts)}")
    return path
