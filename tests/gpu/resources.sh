#!/usr/bin/env bash
# Compiles the kernels and tells the registers, shared memory and spills of each
# as a Markdown table; fails if a kernel of tests/gpu/hot_kernels.txt spills. No
# GPU is needed.
#
#   tests/gpu/resources.sh [--out=FILE]
set -euo pipefail
case "${1:-}" in
  "") ;;
  --out=?*) set -- "--out=$(realpath "${1#--out=}")" ;;
  *)
    sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
    [ "$1" = --help ] && exit 0
    exit 2
    ;;
esac
cd "$(dirname "$0")/../.."
bazel build --config=cuda //tests/gpu:check_resources >&2
cd bazel-bin/tests/gpu/check_resources.runfiles/comera
exec tests/gpu/check_resources "$@"
