#!/usr/bin/env bash
# lint.py over the tree that this test was built from.
set -euo pipefail
programs=$(mktemp -d "$TEST_TMPDIR/programs.XXXXXX")
cp client/comera server/comera-server worker/comera-worker \
  worker/trainer/comera-trainer "$programs/"
tests/docs/lint.py --programs "$programs"
