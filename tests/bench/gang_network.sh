#!/bin/sh
# Steps of a gang of CodeBERT-LARGE on the CPU behind networks of given speeds,
# with gradients summed at the end and bucket by bucket. Needs root, for network
# namespaces, and the shared data beside the project (COMERA_SHARED_DIR).
#   tests/bench/gang_network.sh [--mbit=1000,10000] [--bucket_mib=0,32] [--help]
set -eu
cd "$(dirname "$0")/../.."

data=${COMERA_SHARED_DIR:-../shared}/data
bazel build -c opt //worker/trainer:comera-trainer //client:comera >&2
exec /usr/bin/python3 tests/bench/gang_network.py \
  --trainer=bazel-bin/worker/trainer/comera-trainer \
  --cli=bazel-bin/client/comera --data="$(realpath "$data")" "$@"
