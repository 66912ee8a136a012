# shellcheck shell=bash
# The package `comera`, as if it was installed.
export PYTHONPATH=$PWD/client/python
