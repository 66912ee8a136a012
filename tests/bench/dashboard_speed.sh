#!/usr/bin/env bash
# How fast the dashboard is with 10,000 jobs in the store and with a million
# points in one job's series, in Debian's Chromium on this machine.
#
#   tests/bench/dashboard_speed.sh
#
# COMERA_SPEED_JOBS and COMERA_SPEED_POINTS take other numbers.
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build //server:comera-server //server/dashboard:schema \
  @dashboard_npm//:installed
installed=$(bazel info output_base)/external/dashboard_npm/installed
tests/server/dashboard/run_vitest.sh speed "$installed" \
  bazel-bin/server/comera-server
