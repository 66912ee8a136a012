#!/bin/sh
# Compares a search (`method: auto`) on SST-2 with an exhaustive sweep of the
# same candidates: the size of the result, and the processor time.
#   tests/bench/outcomes/auto_search.sh [--data=../shared] [--accuracy=0.78]
#                              [--steps=24000]
# DATA holds data/sst2/{train.tsv.gz,dev.tsv}.
set -eu
cd "$(dirname "$0")/../../.."

data=../shared
accuracy=0.78
steps=24000
for argument; do
  case "$argument" in
    --data=*) data=${argument#*=} ;;
    --accuracy=*) accuracy=${argument#*=} ;;
    --steps=*) steps=${argument#*=} ;;
    --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $argument (see --help)" >&2; exit 2 ;;
  esac
done
data=$(cd "$data" && pwd)/data/sst2

bazel build -c opt //client:comera //server:comera-server \
  //worker:comera-worker //worker/trainer:comera-trainer >&2
results=$(mktemp -d)
server=
worker=
stop() {
  [ -z "$worker" ] || kill "$worker" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$results"
}
trap stop EXIT

bazel-bin/server/comera-server --listen=127.0.0.1:0 \
  --data_dir="$results/server" --port_file="$results/port" \
  >"$results/server.log" 2>&1 &
server=$!
while [ ! -s "$results/port" ]; do sleep 0.1; done
COMERA_SERVER=$(cat "$results/port")
export COMERA_SERVER
# One job at a time, so that times of jobs can be compared.
bazel-bin/worker/comera-worker --server="$COMERA_SERVER" --slots=1 \
  --data_dir="$results/worker" --data_root=/ \
  --trainer="$PWD/bazel-bin/worker/trainer/comera-trainer" \
  >"$results/worker.log" 2>&1 &
worker=$!

bazel-bin/client/comera run --auto "$data/train.tsv.gz" \
  --validation "$data/dev.tsv" --target-accuracy "$accuracy" \
  --budget "$steps steps" --set training.validation_samples=-1 --dry-run \
  >"$results/auto.yaml"
/usr/bin/python3 tests/bench/outcomes/auto_search.py bazel-bin/client/comera \
  "$results" "$accuracy"
