#!/usr/bin/env bash
# Compiles the kernels for every architecture that docs/gpu.md names, with the
# flags of the CUDA build. Fails if one does not compile, a kernel of
# tests/gpu/hot_kernels.txt spills, or static shared memory is above 48 KiB. A quarter
# of an hour on one core; no GPU is needed.
#
#   tests/gpu/other_devices.sh [SM...]     default: 80 86 89 90 100 120
#
# JOBS is the number of compilers at a time (default: Bazel's).
set -euo pipefail
case "${1:-}" in
  -*)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
[ $# -gt 0 ] || set -- 80 86 89 90 100 120
cd "$(dirname "$0")/../.."
flags=(--config=cuda "--define=comera_cuda_sm=$(IFS=,; echo "$*")")
[ -z "${JOBS:-}" ] || flags+=("--jobs=$JOBS")
bazel build "${flags[@]}" //tests/gpu:check_resources >&2
cd bazel-bin/tests/gpu/check_resources.runfiles/comera
exec tests/gpu/check_resources
