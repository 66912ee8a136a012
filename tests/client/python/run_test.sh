#!/usr/bin/env bash
# Runs one of the tests here: run_test.sh NAME. With Debian's Python, whose
# packages are those that the client is for.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
unset COMERA_SERVER COMERA_TOKEN COMERA_TOKEN_FILE COMERA_CA COMERA_CERT COMERA_KEY
HOME=$(mktemp -d "${TEST_TMPDIR:-/tmp}/home.XXXXXX")
export HOME
unset XDG_CONFIG_HOME XDG_CACHE_HOME XDG_STATE_HOME
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/client/python:$here"
export COMERA_TREE="$root" MPLBACKEND=Agg OMP_NUM_THREADS=1
# A terminal's proxy settings are for other servers.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
exec /usr/bin/python3 "$here/runner.py" "$@"
