#!/bin/sh
# Shows whether one learning rate serves all widths and ranks of tensor-train
# layers: the loss after equal steps at widths 128 to 1024 and ranks 8 to 128,
# with a quarter of the default rate up to twice it.
#   tests/bench/outcomes/rate_transfer.sh [--steps=200] [--jobs=N] [--threads=1]
#                                [--widths=128,1024] [--ranks=8]
# Widths are tried at rank 32, ranks at width 256.
# Needs /usr/src/linux-source-6.1.tar.xz (Debian's package linux-source-6.1).
set -eu
cd "$(dirname "$0")/../../.."
for argument; do
  case "$argument" in
    --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
bazel build -c opt //worker/trainer:comera-trainer >&2
exec /usr/bin/python3 tests/bench/outcomes/rate_transfer.py \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" "$@"
