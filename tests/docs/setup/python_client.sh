# shellcheck shell=bash
# The package `comera`, as if it were installed.
client/python/generate_stubs.sh
export PYTHONPATH=$PWD/client/python
