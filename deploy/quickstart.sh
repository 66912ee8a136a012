#!/usr/bin/env bash
# Gets from a fresh clone to a trained, compressed model: installs what is missing,
# builds, and runs docs/examples/quickstart_code_mlm.yaml on this machine with
# an embedded coordinator and two CPU processes. Arguments go to `comera run`.
#
#   deploy/quickstart.sh [-o json] [--data-dir DIR] ...
#
# COMERA_PROGRAMS names a folder that has the programs, e.g. /usr/bin after their
# packages were installed: nothing is then installed or built.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

job=$root/docs/examples/quickstart_code_mlm.yaml
if [ -n "${COMERA_PROGRAMS:-}" ]; then
  exec "$COMERA_PROGRAMS/comera" run "$job" "$@"
fi
"$root/deploy/install_deps.sh"
"$root/deploy/build.sh" //client:comera //server:comera-server \
  //worker:comera-worker //worker/trainer:comera-trainer
exec "$root/bazel-bin/client/comera" run "$job" "$@"
