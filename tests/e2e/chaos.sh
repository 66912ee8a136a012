#!/usr/bin/env bash
# Breaks a running service at random, then proves that it kept its promises.
#
#   tests/e2e/chaos.sh --minutes=5 --seed=7
#
# Coordinators, workers, members, database, disks, clocks and network are
# disturbed while 20 small jobs are under way; then a checker compares what
# clients saw with what the service promises (tests/README.md). Needs root,
# nftables, libfaketime and PostgreSQL, and says so unless --allow_missing names
# what is not there. Prints a time line; exit status 1 when a promise was
# broken. All flags: --help. tests/e2e/chaos/mutants.sh tries whether it would
# find a fence that is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec bazel run -c opt --ui_event_filters=-info,-stdout,-stderr --noshow_progress \
  //tests/e2e/chaos -- "$@"
