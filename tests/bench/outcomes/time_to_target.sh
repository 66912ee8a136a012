#!/bin/sh
# Compares methods by how soon a model reaches a loss, and at which size. Every
# method is tuned by the same search over one learning rate on every task; the
# result is a table of losses, sizes and seconds to the target.
#   tests/bench/outcomes/time_to_target.sh [--data=../shared] [--tasks=sst2,c_source]
#     [--methods="dense;comera"] [--shares=5,20,80] [--seeds=3] [--scale=1]
#     [--dropout=P] [--decay=linear] [--jobs=N] [--threads=1] [--out=DIR]
# Tasks: sst2 mnli ruby c_source c_source_lm clicks. C source is
# /usr/src/linux-source-6.1 (Debian's package linux-source-6.1), the others lie in
# DATA/data. --shares are the sizes, as fractions of the dense model's. --scale
# multiplies all step counts. --dropout takes the place of the tasks' own. --decay
# is that of all learning rates: none, linear, cosine or wsd. --jobs runs are made
# at a time (default: as many as there are cores).
# --out keeps results.jsonl, table.md and, where Debian's python3-matplotlib is
# installed, a plot of every task. A run that is in results.jsonl already is not
# repeated: after an interruption the same command goes on.
set -eu
cd "$(dirname "$0")/../../.."
for argument; do
  case "$argument" in
    --help) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
bazel build -c opt //worker/trainer:comera-trainer >&2
exec /usr/bin/python3 tests/bench/outcomes/time_to_target.py \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" "$@"
