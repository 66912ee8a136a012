#!/usr/bin/env bash
# A minute of chaos with a fixed seed: the faults and jobs that were tried most.
# chaos.sh is the long version, with all of them. What the machine lacks is named
# in the output, and left out.
set -euo pipefail
exec "$1" --minutes=1 --seed=1 --plain_jobs --allow_missing=all \
  --only=coordinator,worker,member,full_disk,clock,silence,loss,database,impostor \
  --folder="$TEST_TMPDIR/chaos"
