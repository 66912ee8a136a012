#!/usr/bin/env bash
# Half a minute of chaos with a fixed seed; chaos.sh is the long version.
set -euo pipefail
exec "$1" --minutes=0.5 --seed=1 --folder="$TEST_TMPDIR/chaos"
