#!/bin/sh
# Shows how many tokens should have dense rows beside a tensor-train table, and at
# which rate: the loss of tied tensor-train language models of one size, whose
# ranks fall as the rows become more.
#   tests/bench/outcomes/dense_tokens.sh [--task=c_source_lm] [--share=20]
#     [--scale=0.3] [--decay=linear] [--seeds=1] [--tokens=0,64,256,512,1024]
#     [--rates=0.01] [--data=../shared] [--jobs=N] [--threads=1]
# The task, the share of the dense model's size, the scale of the steps and the
# decay are those of time_to_target.sh; all other rates are the defaults.
set -eu
cd "$(dirname "$0")/../../.."
for argument; do
  case "$argument" in
    --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
done
bazel build -c opt //worker/trainer:comera-trainer >&2
exec /usr/bin/python3 tests/bench/outcomes/dense_tokens.py \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" "$@"
