#!/usr/bin/env bash
# Makes docs/images/dashboard_*.png: the dashboard while the quickstart's job
# trains on this machine (two minutes).
set -euo pipefail
cd "$(dirname "$0")/../../.."
bazel build //server:comera-server //worker:comera-worker \
  //worker/trainer:comera-trainer //server/dashboard:schema \
  @dashboard_npm//:installed
mkdir -p docs/images
export COMERA_IMAGES=$PWD/docs/images
export COMERA_EXAMPLE=$PWD/docs/examples/quickstart_code_mlm.yaml
installed=$(bazel info output_base)/external/dashboard_npm/installed
tests/server/dashboard/run_vitest.sh screenshots "$installed" \
  bazel-bin/server/comera-server bazel-bin/worker/comera-worker \
  bazel-bin/worker/trainer/comera-trainer
ls -l docs/images
