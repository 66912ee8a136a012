#!/usr/bin/env bash
# Breaks a running service at random, then proves that it kept its promises.
#
#   tests/e2e/chaos.sh --minutes=5 --seed=7
#
# SIGKILL and SIGSTOP of the coordinator, workers and ranks, full disks (as
# root), jumps of the clocks (with libfaketime), 20 small jobs at a time; then a
# checker reads the store, the ranks' logs and the models. Prints a time line;
# exit status 1 when a promise was broken. All flags: --help.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec bazel run -c opt --ui_event_filters=-info,-stdout,-stderr --noshow_progress \
  //tests/e2e/chaos -- "$@"
