#!/usr/bin/env bash
# Gets from a fresh clone to a trained, compressed model: installs what is missing,
# builds, and runs docs/examples/quickstart_code_mlm.yaml on this machine with
# an embedded coordinator and two CPU processes. A dense model of the same size is
# trained before it, so that the summary can compare the two.
#
#   deploy/quickstart.sh [-o json] [--data-dir DIR] ...
#
# Arguments go to `comera run`; with any, only the compressed model is trained.
# COMERA_PROGRAMS names a folder that has the programs, e.g. /usr/bin after their
# packages were installed: nothing is then installed or built.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

if [ -n "${COMERA_PROGRAMS:-}" ]; then
  comera=$COMERA_PROGRAMS/comera
else
  comera=$root/bazel-bin/client/comera
  "$root/deploy/install_deps.sh"
  "$root/deploy/build.sh" //client:comera //server:comera-server \
    //worker:comera-worker //worker/trainer:comera-trainer
fi
if [ $# -eq 0 ]; then
  echo 'First, a dense model of the same size, to compare with.'
  "$comera" run "$root/docs/examples/quickstart_dense.yaml"
  printf '\nNow the compressed model.\n'
fi
exec "$comera" run "$root/docs/examples/quickstart_code_mlm.yaml" "$@"
