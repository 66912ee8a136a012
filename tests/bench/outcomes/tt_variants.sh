#!/bin/sh
# Trains two-core tensor trains in PyTorch as the engine trains them and with
# one change each (docs/optimizer.md), on C source with one thread, and prints
# a table of losses and seconds per step.
#   tests/bench/outcomes/tt_variants.sh [--variants=baseline,silu,...] [--steps=N]
#     [--seeds=3] [--factors=1,...] [--report] [--out=FOLDER]
# What was measured stays in FOLDER (tt_variants) and is not measured again;
# with --report nothing is.
# Needs PyTorch (Debian: python3-torch) and /usr/src/linux-source-6.1.tar.xz
# (Debian: linux-source-6.1).
set -eu
cd "$(dirname "$0")/../../.."
for argument; do
  case "$argument" in
    --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
bazel build -c opt //client:comera //worker/trainer:comera-trainer >&2
exec /usr/bin/python3 tests/bench/outcomes/tt_variants.py \
  --comera="$PWD/bazel-bin/client/comera" \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" "$@"
