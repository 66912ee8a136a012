"""The version of the package, the same as the programs'."""

__version__ = "0.1.0"
