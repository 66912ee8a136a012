#!/usr/bin/env bash
# One minute of chaos with a fixed seed; chaos.sh is the long version.
set -euo pipefail
exec "$1" --minutes=1 --seed=1 --folder="$TEST_TMPDIR/chaos"
