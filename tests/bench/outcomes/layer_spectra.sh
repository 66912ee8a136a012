#!/bin/sh
# Shows what training does to the weights of every layer: their norm, largest
# singular value and effective rank before the first step and at the end, of a
# tensor-train and of a dense model of the same width.
#   tests/bench/outcomes/layer_spectra.sh [--steps=1000] [--jobs=N] [--threads=1]
# Needs /usr/src/linux-source-6.1.tar.xz (Debian's package linux-source-6.1) and
# python3-torch.
set -eu
cd "$(dirname "$0")/../../.."
for argument; do
  case "$argument" in
    --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
client/python/generate_stubs.sh >&2
bazel build -c opt //worker/trainer:comera-trainer >&2
PYTHONPATH=client/python exec /usr/bin/python3 tests/bench/outcomes/layer_spectra.py \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" "$@"
