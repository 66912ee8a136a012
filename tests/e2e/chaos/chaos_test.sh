#!/usr/bin/env bash
# A minute of chaos with a fixed seed: the faults and jobs that were tried most.
# chaos.sh is the long version, with all of them. It fails where nftables,
# libfaketime or PostgreSQL is not installed (deploy/install_deps.sh --tests),
# because nobody reads the output of a test that passes. It goes without what a
# machine or its user may not offer at all.
set -euo pipefail
exec "$1" --minutes=1 --seed=1 --plain_jobs \
  --allow_missing=root,namespaces \
  --only=coordinator,worker,member,full_disk,clock,silence,loss,database,impostor \
  --folder="$TEST_TMPDIR/chaos"
